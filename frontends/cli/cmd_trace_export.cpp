// `crucible trace export FILE --format jsonl|chrome`: a recording for other programs.
#include <fmt/format.h>

#include <string>

#include "core/trace/trace_file.hpp"
#include "frontends/cli/trace_command.hpp"
#include "frontends/cli/trace_export.hpp"

namespace crucible::cli {

Result<int> run_trace_export(const ExportArguments& arguments) {
  if (!arguments.output.empty()) CRUCIBLE_TRY_VOID(check_output(arguments.output, arguments.force));
  CRUCIBLE_TRY(const trace::Trace trace, trace::read_file(arguments.file));
  CRUCIBLE_TRY(TextSink sink, TextSink::open(arguments.output));
  if (arguments.format == "jsonl")
    export_jsonl(trace, arguments.file, sink);
  else
    export_chrome(trace, arguments.file, sink);
  CRUCIBLE_TRY_VOID(sink.finish());
  return 0;
}

}  // namespace crucible::cli
