// `crucible trace recover FILE`: makes a recording of what one left whose process was ended before it was finished.
#include <fmt/format.h>

#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "core/base/terminal.hpp"
#include "core/trace/recover.hpp"
#include "frontends/cli/trace_command.hpp"

namespace crucible::cli {

Result<int> run_trace_recover(const RecoverOptions& options) {
  CRUCIBLE_TRY(const trace::RecoverReport report, trace::recover_file(options.file, options.output));
  const std::string& output = options.output.empty() ? options.file : options.output;
  if (options.json) {
    print_json({{"file", output},
                {"iterations", report.iterations},
                {"ops", report.ops},
                {"file_bytes", report.file_bytes},
                {"lost_ops", report.lost_ops},
                {"damage", report.damage},
                {"was_finished", report.was_finished}});
    return 0;
  }
  std::string text = fmt::format("recovered {}: {} complete iteration{}, {} ops, {}\n", output, report.iterations,
                                 report.iterations == 1 ? "" : "s", report.ops, format_bytes(report.file_bytes));
  if (report.was_finished) text += "nothing is missing: the recorder was ended while it wrote the last bytes\n";
  if (report.lost_ops > 0) text += fmt::format("lost: {} ops of an unfinished iteration\n", report.lost_ops);
  if (!report.damage.empty()) text += fmt::format("reading ended early: {}\n", report.damage);
  print_text(text);
  return 0;
}

}  // namespace crucible::cli
