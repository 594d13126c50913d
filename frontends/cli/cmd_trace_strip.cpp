// `crucible trace strip IN OUT`: a copy without paths, names and data, to be given to others.
#include <fmt/format.h>
#include <sys/random.h>

#include <cerrno>
#include <cstring>
#include <nlohmann/json.hpp>
#include <string>

#include "core/base/figures.hpp"
#include "core/base/terminal.hpp"
#include "runtime/run/capsule.hpp"
#include "core/trace/strip.hpp"
#include "core/trace/trace_file.hpp"
#include "frontends/cli/rank_manifest.hpp"
#include "frontends/cli/trace_command.hpp"

namespace crucible::cli {

namespace {

using nlohmann::ordered_json;

/// Known to nobody, kept nowhere.
Result<ContentHash> random_key() {
  ContentHash key;
  if (getrandom(key.bytes.data(), key.bytes.size(), 0) == static_cast<ssize_t>(key.bytes.size())) return key;
  return Error{ErrorCode::kUnavailable, fmt::format("the system gives no random numbers: {}", std::strerror(errno))};
}

}  // namespace

Result<int> run_trace_strip(const OutputOptions& options) {
  if (is_manifest(options.file)) {
    return Error{ErrorCode::kUsage, fmt::format("{} lists the files of ranks: strip each of them", options.file)};
  }
  if (runtime::is_capsule(options.file)) {
    return Error{ErrorCode::kUsage,
                 fmt::format("{} is a capsule: strip the recording, and cut the capsule from the copy", options.file)};
  }
  CRUCIBLE_TRY_VOID(check_output(options.output, options.force));
  CRUCIBLE_TRY(const trace::Trace original, trace::read_file(options.file));
  CRUCIBLE_TRY(const ContentHash key, random_key());
  CRUCIBLE_TRY(const trace::Stripped made, trace::strip(original, key));
  CRUCIBLE_TRY_VOID(trace::write_file(made.trace, options.output));
  CRUCIBLE_TRY(const trace::FileLayout layout, trace::read_layout(options.output));
  if (options.json) {
    print_json({{"file", options.file},
                {"output", options.output},
                {"names", made.names},
                {"blobs", made.blobs},
                {"blob_bytes", made.blob_bytes},
                {"results", made.results},
                {"generators", made.generators},
                {"numbers_kept", made.numbers},
                {"file_bytes", layout.file_bytes}});
    return 0;
  }
  print_text(
      fmt::format("{}: {}\nnames     {} are hashes now\ndata      {} of {} are noise, {} and {} are gone\nkept      "
                  "operators, sizes, "
                  "Python numbers ({} in tensors of their own), line numbers\nA replay of it runs and is never "
                  "verified: crucible trace info {} --private\n",
                  options.output, format_bytes(layout.file_bytes), made.names, format_bytes(made.blob_bytes),
                  plural(made.blobs, "piece"), plural(made.results, "result"),
                  plural(made.generators, "generator state"), made.numbers, options.output));
  return 0;
}

}  // namespace crucible::cli
