// `crucible trace merge RANK0 RANK1 ... -o NAME.crtraces`: the files of one program's ranks as one thing.
#include <fmt/format.h>

#include <string>
#include <vector>

#include "core/base/terminal.hpp"
#include "frontends/cli/rank_manifest.hpp"
#include "frontends/cli/trace_command.hpp"

namespace crucible::cli {

namespace {

struct Arguments {
  std::vector<std::string> files;
  std::string output;
  bool force = false, json = false;
};

Result<int> run_merge(const Arguments& arguments) {
  if (!is_manifest(arguments.output)) {
    return Error{ErrorCode::kUsage,
                 fmt::format("{}: the name of a manifest of ranks ends in .crtraces", arguments.output)};
  }
  CRUCIBLE_TRY_VOID(check_output(arguments.output, arguments.force));
  CRUCIBLE_TRY(const RankManifest manifest, merge_ranks(arguments.files, arguments.output));
  CRUCIBLE_TRY_VOID(write_manifest(manifest, arguments.output));
  if (arguments.json)
    print_json({{"output", arguments.output}, {"world_size", manifest.ranks.size()}, {"iterations", manifest.iterations}});
  else
    print_text(fmt::format("{}: {}, {}\n", arguments.output, plural(manifest.ranks.size(), "rank"),
                           plural(manifest.iterations, "iteration")));
  return 0;
}

}  // namespace

void add_trace_merge(Commands& commands, CLI::App& trace) {
  const auto arguments = std::make_shared<Arguments>();  // shared: the parser's callbacks outlive this function
  CLI::App* command = add_reading_subcommand(
      trace, "merge", "A manifest of one program's ranks, after checking that they fit together.",
      "crucible trace merge step.rank0.crtrace step.rank1.crtrace -o step.crtraces");
  command->add_option("RANKS", arguments->files, "the .crtrace files of all ranks, in any order")->required();
  command->add_option("-o,--output", arguments->output, "the manifest to write, NAME.crtraces")->required();
  command->add_flag("--force", arguments->force, "replace the manifest if there is one of that name");
  command->add_flag("--json", arguments->json, "print one JSON document");
  command->callback([&commands, arguments] { commands.run = [arguments] { return run_merge(*arguments); }; });
}

}  // namespace crucible::cli
