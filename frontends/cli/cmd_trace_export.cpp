// `crucible trace export FILE --format jsonl|chrome`: a recording for other programs.
#include <fmt/format.h>

#include <string>

#include "core/trace/trace_file.hpp"
#include "frontends/cli/trace_command.hpp"
#include "frontends/cli/trace_export.hpp"

namespace crucible::cli {

namespace {

struct Arguments {
  std::string file, format, output;
  bool force = false;
};

Result<int> run_export(const Arguments& arguments) {
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

}  // namespace

void add_trace_export(Commands& commands, CLI::App& trace) {
  const auto arguments = std::make_shared<Arguments>();  // shared: the parser's callbacks outlive this function
  CLI::App* command = add_reading_subcommand(trace, "export", "A recording for other programs: JSON lines, or slices for Perfetto.",
                                     "crucible trace export step.crtrace --format chrome -o step.json");
  command->add_option("FILE", arguments->file, "the .crtrace file")->required();
  command->add_option("--format", arguments->format, "jsonl: one line per op; chrome: open it in ui.perfetto.dev")
      ->required()
      ->check(CLI::IsMember({"jsonl", "chrome"}));
  command->add_option("-o,--output", arguments->output, "the file to write (default: standard output)");
  command->add_flag("--force", arguments->force, "replace the file if there is one of that name");
  command->callback([&commands, arguments] { commands.run = [arguments] { return run_export(*arguments); }; });
}

}  // namespace crucible::cli
