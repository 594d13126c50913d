// `crucible trace merge RANK0 RANK1 ... -o NAME.crtraces`: the files of one program's ranks as one thing.
#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "core/base/figures.hpp"
#include "core/base/terminal.hpp"
#include "frontends/cli/rank_manifest.hpp"
#include "frontends/cli/trace_command.hpp"

namespace crucible::cli {

Result<int> run_trace_merge(const MergeArguments& arguments) {
  if (!is_manifest(arguments.output)) {
    return Error{ErrorCode::kUsage,
                 fmt::format("{}: the name of a manifest of ranks ends in .crtraces", arguments.output)};
  }
  CRUCIBLE_TRY_VOID(check_output(arguments.output, arguments.force));
  CRUCIBLE_TRY(const RankManifest manifest, merge_ranks(arguments.files, arguments.output));
  CRUCIBLE_TRY_VOID(write_manifest(manifest, arguments.output));
  if (arguments.json)
    print_json(
        {{"output", arguments.output}, {"world_size", manifest.ranks.size()}, {"iterations", manifest.iterations}});
  else
    print_text(fmt::format("{}: {}, {}\n", arguments.output, plural(manifest.ranks.size(), "rank"),
                           plural(manifest.iterations, "iteration")));
  return 0;
}

}  // namespace crucible::cli
