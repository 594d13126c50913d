// `crucible trace`: the command line of its subcommands; what they do is in files of their own, cmd_trace_NAME.cpp.
// Reads and writes files only; what ops mean is the lowering's business (crucible graph).
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <system_error>

#include "core/trace/compression.hpp"
#include "frontends/cli/trace_command.hpp"

namespace crucible::cli {

Result<void> check_output(const std::filesystem::path& output, bool force) {
  std::error_code error;
  if (force || !std::filesystem::exists(std::filesystem::symlink_status(output, error))) return {};
  return Error{ErrorCode::kUsage,
               fmt::format("{} is there already: choose another name, or --force to replace it", output.string())};
}

std::filesystem::path blob_folder_of(const std::filesystem::path& file, const trace::Trace& trace) {
  if (trace.metadata.blob_folder.empty()) return {};
  return file.parent_path() / trace.metadata.blob_folder;
}

namespace {

/// Adds `crucible trace NAME FILE [--json]`; `Options` has the fields of FileOptions. The caller adds its own options.
template <class Options>
CLI::App* add_file_command(CLI::App& trace, Commands& commands, const std::shared_ptr<Options>& options,
                           const char* name, const char* description, const char* example,
                           Result<int> (*run)(const Options&)) {
  CLI::App* command = add_reading_subcommand(trace, name, description, example);
  command->add_option("FILE", options->file, "the .crtrace file")->required();
  command->add_flag("--json", options->json, "print one JSON document");
  command->callback([&commands, options, run] { commands.run = [options, run] { return run(*options); }; });
  return command;
}

/// Adds `-o OUT` and `--force`.
void add_output_options(CLI::App& command, OutputOptions& options) {
  command.add_option("-o,--output", options.output, "the file to write")->required();
  command.add_flag("--force", options.force, "replace the file if there is one of that name");
}

void add_trace_info(Commands& commands, CLI::App& trace) {
  const auto options = std::make_shared<InfoOptions>();  // shared: the parser's callbacks outlive this function
  CLI::App* info = add_file_command(trace, commands, options, "info",
                                    "What is in a recording, or in a manifest of ranks (.crtraces).",
                                    "crucible trace info step.crtrace --json", run_trace_info);
  info->add_flag("--private", options->is_private,
                 "what it tells of its maker: paths, users, hosts, the command, names, data");
}

void add_trace_ops(Commands& commands, CLI::App& trace) {
  const auto options = std::make_shared<OpsOptions>();  // shared: the parser's callbacks outlive this function
  CLI::App* ops = add_file_command(trace, commands, options, "ops", "Every op of one iteration, with its arguments.",
                                   "crucible trace ops step.crtrace --iteration 2", run_trace_ops);
  CLI::Option* all = ops->add_flag("--all", options->all, "all iterations");
  ops->add_option("--iteration", options->iteration, "which iteration, from 0 (default: 0)")->excludes(all);
  ops->add_flag("--summary", options->summary, "how often each op occurs instead of the ops");
}

void add_trace_check(Commands& commands, CLI::App& trace) {
  add_file_command(trace, commands, std::make_shared<FileOptions>(), "check",
                   "Reads the whole file and compares every checksum and content hash.",
                   "crucible trace check step.crtrace", run_trace_check);
}

void add_trace_recover(Commands& commands, CLI::App& trace) {
  const auto options = std::make_shared<RecoverOptions>();  // shared: the parser's callbacks outlive this function
  CLI::App* command =
      add_reading_subcommand(trace, "recover",
                             "Makes FILE of the complete iterations in FILE.journal and FILE.partial, which a "
                             "recording leaves whose process was ended (kill -9, a crash, a full disk).",
                             "crucible trace recover step.crtrace");
  command->add_option("FILE", options->file, "the file that the recording would have become")->required();
  command->add_option("-o,--output", options->output, "write this file instead (default: FILE)");
  command->add_flag("--json", options->json, "print one JSON document");
  command->callback([&commands, options] { commands.run = [options] { return run_trace_recover(*options); }; });
}

void add_trace_diff(Commands& commands, CLI::App& trace) {
  const auto arguments = std::make_shared<DiffArguments>();  // shared: the parser's callbacks outlive this function
  CLI::App* command =
      add_reading_subcommand(trace, "diff", "In what two recordings differ: which iteration, op, argument, and how.",
                             "crucible trace diff before.crtrace after.crtrace --limit 5");
  command->add_option("A", arguments->a, "a .crtrace file")->required();
  command->add_option("B", arguments->b, "the one to compare it with")->required();
  command->add_flag("--json", arguments->json, "print one JSON document");
  command->add_option("--limit", arguments->options.limit, "show at most so many differences, 0 for all")
      ->capture_default_str();
  command->add_flag("--all", arguments->options.all,
                    "compare Python lines, threads, metadata and what was not recorded too");
  command->callback([&commands, arguments] { commands.run = [arguments] { return run_trace_diff(*arguments); }; });
}

void add_trace_trim(Commands& commands, CLI::App& trace) {
  const auto options = std::make_shared<TrimOptions>();  // shared: the parser's callbacks outlive this function
  CLI::App* command =
      add_file_command(trace, commands, options, "trim", "Some iterations as a recording of their own.",
                       "crucible trace trim step.crtrace --iterations 0-1 -o short.crtrace", run_trace_trim);
  command->add_option("--iterations", options->iterations, "the first and the last to keep, from 0: 0-3")->required();
  add_output_options(*command, *options);
}

void add_trace_optimize(Commands& commands, CLI::App& trace) {
  const auto options = std::make_shared<OptimizeOptions>();  // shared: the parser's callbacks outlive this function
  CLI::App* command = add_file_command(
      trace, commands, options, "optimize", "The same recording in fewer bytes: nothing in it that no replay needs.",
      "crucible trace optimize step.crtrace -o small.crtrace --blob-folder blobs", run_trace_optimize);
  add_output_options(*command, *options);
  command->add_option("--level", options->level, "zstd level")
      ->check(CLI::Range(1, crucible::trace::kMaxZstdLevel))
      ->capture_default_str();
  CLI::Option* folder = command->add_option("--blob-folder", options->blob_folder,
                                            "put the external bytes into this folder, which files can share");
  command->add_flag("--embed", options->embed, "bring external bytes from a folder back into the file")
      ->excludes(folder);
}

void add_trace_strip(Commands& commands, CLI::App& trace) {
  const auto options = std::make_shared<OutputOptions>();  // shared: the parser's callbacks outlive this function
  CLI::App* command =
      add_file_command(trace, commands, options, "strip",
                       "A copy to give away: names are hashes, data are noise, it replays and is never verified.",
                       "crucible trace strip step.crtrace shared.crtrace", run_trace_strip);
  command->add_option("-o,--output,OUT", options->output, "the file to write")->required();
  command->add_flag("--force", options->force, "replace the file if there is one of that name");
}

void add_trace_export(Commands& commands, CLI::App& trace) {
  const auto arguments = std::make_shared<ExportArguments>();  // shared: the parser's callbacks outlive this function
  CLI::App* command =
      add_reading_subcommand(trace, "export", "A recording for other programs: JSON lines, or slices for Perfetto.",
                             "crucible trace export step.crtrace --format chrome -o step.json");
  command->add_option("FILE", arguments->file, "the .crtrace file")->required();
  command->add_option("--format", arguments->format, "jsonl: one line per op; chrome: open it in ui.perfetto.dev")
      ->required()
      ->check(CLI::IsMember({"jsonl", "chrome"}));
  command->add_option("-o,--output", arguments->output, "the file to write (default: standard output)");
  command->add_flag("--force", arguments->force, "replace the file if there is one of that name");
  command->callback([&commands, arguments] { commands.run = [arguments] { return run_trace_export(*arguments); }; });
}

void add_trace_merge(Commands& commands, CLI::App& trace) {
  const auto arguments = std::make_shared<MergeArguments>();  // shared: the parser's callbacks outlive this function
  CLI::App* command = add_reading_subcommand(
      trace, "merge", "A manifest of one program's ranks, after checking that they fit together.",
      "crucible trace merge step.rank0.crtrace step.rank1.crtrace -o step.crtraces");
  command->add_option("RANKS", arguments->files, "the .crtrace files of all ranks, in any order")->required();
  command->add_option("-o,--output", arguments->output, "the manifest to write, NAME.crtraces")->required();
  command->add_flag("--force", arguments->force, "replace the manifest if there is one of that name");
  command->add_flag("--json", arguments->json, "print one JSON document");
  command->callback([&commands, arguments] { commands.run = [arguments] { return run_trace_merge(*arguments); }; });
}

}  // namespace

void add_trace(Commands& commands) {
  CLI::App* trace = add_subcommand(commands.app, "trace", "Shows, compares, cuts and converts recordings.",
                                   "crucible trace info step.crtrace");
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
