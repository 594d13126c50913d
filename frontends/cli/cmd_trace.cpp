// `crucible trace`: registers its subcommands, one per file cmd_trace_NAME.cpp, and what they share.
// Reads and writes files only; what ops mean is the lowering's business (crucible graph).
#include <fmt/format.h>

#include <cstdio>
#include <system_error>

#include "frontends/cli/trace_command.hpp"

namespace crucible::cli {

std::string plural(std::uint64_t count, std::string_view noun) {
  return fmt::format("{} {}{}", count, noun, count == 1 ? "" : "s");
}

void add_output_options(CLI::App& command, OutputOptions& options) {
  command.add_option("-o,--output", options.output, "the file to write")->required();
  command.add_flag("--force", options.force, "replace the file if there is one of that name");
}

Result<void> check_output(const std::filesystem::path& output, bool force) {
  std::error_code error;
  if (force || !std::filesystem::exists(std::filesystem::symlink_status(output, error))) return {};
  return Error{ErrorCode::kUsage, fmt::format("{} is there already: choose another name, or --force to replace it",
                                              output.string())};
}

std::filesystem::path blob_folder_of(const std::filesystem::path& file, const trace::Trace& trace) {
  if (trace.metadata.blob_folder.empty()) return {};
  return file.parent_path() / trace.metadata.blob_folder;
}

void add_trace(Commands& commands) {
  CLI::App* trace =
      add_subcommand(commands.app, "trace", "Shows, compares, cuts and converts recordings.", "crucible trace info step.crtrace");
  trace->require_subcommand(1);
  add_trace_info(commands, *trace);
  add_trace_ops(commands, *trace);
  add_trace_check(commands, *trace);
  add_trace_recover(commands, *trace);
  add_trace_diff(commands, *trace);
  add_trace_trim(commands, *trace);
  add_trace_optimize(commands, *trace);
  add_trace_strip(commands, *trace);
  add_trace_export(commands, *trace);
  add_trace_merge(commands, *trace);
}

}  // namespace crucible::cli
