// `crucible diff A B`: in what two programs differ, by module and in words; 0 when in nothing, 1 otherwise.
// `crucible show HASH FILE`: one region of a program, by the beginning of its hash.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "core/base/figures.hpp"
#include "core/base/terminal.hpp"
#include "core/merkle/diff.hpp"
#include "core/merkle/print.hpp"
#include "frontends/cli/command.hpp"
#include "frontends/cli/program_file.hpp"

namespace crucible::cli {
namespace {

using nlohmann::ordered_json;

struct DiffOptions {
  std::string a, b;
  std::size_t limit = 50;
  bool json = false;
};

struct ShowOptions {
  std::string hash, file;
  bool json = false;
};

std::string line(const merkle::Change& change) {
  std::string where = change.phase;
  if (!change.module.empty()) where += (where.empty() ? "" : ", ") + change.module;
  return (where.empty() ? "" : where + ": ") + change.what;
}

ordered_json document(const DiffOptions& options, const merkle::Difference& difference) {
  ordered_json json = {{"a", options.a},
                       {"b", options.b},
                       {"equal", difference.equal},
                       {"count", difference.changes.size()},
                       {"regions_compared", difference.regions}};
  json["changes"] = ordered_json::array();
  for (const merkle::Change& change : difference.changes) {
    json["changes"].push_back({{"kind", merkle::name(change.kind)},
                               {"phase", change.phase},
                               {"module", change.module},
                               {"what", change.what}});
  }
  return json;
}

Result<int> diff_command(const DiffOptions& options) {
  CRUCIBLE_TRY(const merkle::RegionTree a, read_regions(options.a, std::nullopt));
  CRUCIBLE_TRY(const merkle::RegionTree b, read_regions(options.b, std::nullopt));
  const merkle::Difference difference = merkle::diff(a, b);
  if (options.json) {
    print_json(document(options, difference));
    return difference.equal ? 0 : 1;
  }
  std::size_t shown = 0;
  for (const merkle::Change& change : difference.changes) {
    if (options.limit != 0 && shown == options.limit) break;
    print_text(line(change) + "\n");
    ++shown;
  }
  if (difference.equal) {
    print_text(fmt::format("equal: the same computation, {}{}\n", a.root().content.hex().substr(0, 12),
                           difference.changes.empty() ? "" : "; only names differ"));
  } else if (shown < difference.changes.size()) {
    print_out("{} differences, {} of them shown; --limit 0 shows all\n", difference.changes.size(), shown);
  } else {
    print_text(plural(difference.changes.size(), "difference") + "\n");
  }
  return difference.equal ? 0 : 1;
}

Result<int> show_command(const ShowOptions& options) {
  CRUCIBLE_TRY(const merkle::RegionTree tree, read_regions(options.file, std::nullopt));
  CRUCIBLE_TRY(const merkle::RegionId region, merkle::find(tree, options.hash));
  if (options.json) {
    print_json(ordered_json::parse(merkle::to_json(tree))["regions"][region]);
  } else {
    print_text(merkle::region_text(tree, region));
  }
  return 0;
}

}  // namespace

void add_diff(Commands& commands) {
  auto options = std::make_shared<DiffOptions>();  // shared with the callback, which runs after this function
  CLI::App* command = add_reading_subcommand(
      commands.app, "diff",
      "In what two recordings' programs differ, by module and in words; 0 when in nothing, 1 otherwise.",
      "crucible diff before.crtrace after.crtrace");
  command->add_option("a", options->a, "A recording (.crtrace), or a program that `crucible graph` wrote")->required();
  command->add_option("b", options->b, "Another one")->required();
  command->add_option("--limit", options->limit, "How many differences are printed; 0: all (default 50)");
  command->add_flag("--json", options->json, "Prints JSON");
  command->callback([&commands, options] { commands.run = [options] { return diff_command(*options); }; });
}

void add_show(Commands& commands) {
  auto options = std::make_shared<ShowOptions>();
  CLI::App* command =
      add_reading_subcommand(commands.app, "show", "One region of a recording's program, by the beginning of its hash.",
                             "crucible show 3fa9c2 step.crtrace");
  command->add_option("hash", options->hash, "The first digits of a content or Merkle hash: `crucible graph --regions`")
      ->required();
  command->add_option("file", options->file, "The recording (.crtrace), or a program that `crucible graph` wrote")
      ->required();
  command->add_flag("--json", options->json, "Prints JSON");
  command->callback([&commands, options] { commands.run = [options] { return show_command(*options); }; });
}

}  // namespace crucible::cli
