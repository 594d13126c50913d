// `crucible diff A B`: in what two programs differ, by module and in words; 0 when in nothing, 1 otherwise.
// `crucible show HASH FILE`: one region of a program, by the beginning of its hash.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/base/figures.hpp"
#include "core/base/terminal.hpp"
#include "core/merkle/diff.hpp"
#include "core/merkle/print.hpp"
#include "frontends/cli/command.hpp"
#include "frontends/cli/program_file.hpp"
#include "frontends/cli/stored_recording.hpp"
#include "frontends/cli/temporary_folder.hpp"
#include "frontends/cli/terminal_observer.hpp"
#include "frontends/replay/kept_store.hpp"
#include "frontends/replay/open_device.hpp"
#include "store/store.hpp"

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

/// The latest recording in the store that has such a region, as a file of that folder.
Result<std::filesystem::path> find_in_store(const std::string& digits, const TemporaryFolder& folder) {
  CRUCIBLE_TRY(const config::Settings settings, load_settings({}, terminal()));
  store::StoreOptions wanted;
  wanted.folder = store_folder(settings);
  wanted.must_exist = true;
  wanted.tell = [](const std::string& words) { tell("crucible: {}\n", words); };
  CRUCIBLE_TRY(const auto store, store::Store::open(std::move(wanted)));
  CRUCIBLE_TRY(const std::vector<store::Statement> found, recordings_with_region(*store, digits));
  if (found.empty()) {
    return Error{ErrorCode::kUsage, fmt::format("no recording in the store {} has a region {}: name its file, or put "
                                                "it in with `crucible store add`",
                                                store->files().folder().string(), digits)};
  }
  const std::filesystem::path file = folder.path() / "shown.crtrace";
  CRUCIBLE_TRY(const StoredRecording taken, take_recording(*store, store::hash_of(found[0].key).hex(), file));
  tell("crucible: note: of {}, which the store has ({} recordings in it have such a region)\n", taken.file,
       found.size());
  return file;
}

Result<int> show_command(const ShowOptions& options) {
  std::optional<TemporaryFolder> temporary;
  std::string file = options.file;
  if (file.empty()) {
    CRUCIBLE_TRY(TemporaryFolder folder, TemporaryFolder::create());
    temporary.emplace(std::move(folder));
    CRUCIBLE_TRY(const std::filesystem::path found, find_in_store(options.hash, *temporary));
    file = found.string();
  }
  CRUCIBLE_TRY(const merkle::RegionTree tree, read_regions(file, std::nullopt));
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
  command->add_option("file", options->file,
                      "The recording (.crtrace), or a program that `crucible graph` wrote (default: the latest "
                      "recording in the store that has such a region)");
  command->add_flag("--json", options->json, "Prints JSON");
  command->callback([&commands, options] { commands.run = [options] { return show_command(*options); }; });
}

}  // namespace crucible::cli
