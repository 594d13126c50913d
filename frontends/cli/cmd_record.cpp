// `crucible record -- python script.py ...`: runs the program as it is, with our start folder in front of PYTHONPATH,
// and tells at the end what was recorded. The recording itself happens inside the program (frontends/torch); this side
// only starts it (run_program.hpp) and reads the reports that it leaves (record_report.hpp).
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "core/base/terminal.hpp"
#include "core/trace/trace_file.hpp"
#include "frontends/cli/command.hpp"
#include "frontends/cli/command_words.hpp"
#include "frontends/cli/python_folder.hpp"
#include "frontends/cli/rank_manifest.hpp"
#include "frontends/cli/record_report.hpp"
#include "frontends/cli/run_program.hpp"
#include "frontends/cli/temporary_folder.hpp"

namespace crucible::cli {

namespace {

namespace fs = std::filesystem;
using nlohmann::ordered_json;

struct RecordOptions {
  std::string output = "trace.crtrace";
  std::uint32_t iterations = 4;
  std::uint32_t warmup = 2;
  std::uint32_t start_step = 0;  // 0: after the warm-up
  int on_signal = 0;
  std::uint64_t max_bytes = 0;
  std::vector<std::string> exclude_modules;
  std::string end_of_iteration = "auto";
  std::string snapshot;
  std::string kernels = "typed";
  bool children = false;
  bool no_command = false, no_paths = false;
  bool json = false;
  std::vector<std::string> command;
};

/// What came after the first "--", exactly as it was typed: the parser of options would interpret brackets in it.
std::vector<std::string> command_after_dashes() {
  std::ifstream source("/proc/self/cmdline", std::ios::binary);
  const std::string text((std::istreambuf_iterator<char>(source)), std::istreambuf_iterator<char>());
  std::vector<std::string> words;
  bool found = false;
  for (std::size_t start = 0; start < text.size();) {
    const std::size_t end = std::min(text.find('\0', start), text.size());
    std::string word = text.substr(start, end - start);
    start = end + 1;
    if (found) {
      words.push_back(std::move(word));
    } else {
      found = word == "--";
    }
  }
  return words;
}

/// The descriptor through which this process holds PATH.lock, or -1.
int lock_descriptor(const fs::path& output) {
  struct stat named {};
  if (stat((output.string() + ".lock").c_str(), &named) != 0) return -1;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator("/proc/self/fd", error)) {
    const int descriptor = std::atoi(entry.path().filename().c_str());
    struct stat open {};
    if (fstat(descriptor, &open) == 0 && open.st_dev == named.st_dev && open.st_ino == named.st_ino) return descriptor;
  }
  return -1;
}

/// What start/sitecustomize.py and package/crucible_torch/session.py read.
ordered_json config_of(const RecordOptions& options, const fs::path& output, const fs::path& status,
                       int lock_in_child) {
  const char* python_path = std::getenv("PYTHONPATH");
  return {{"output", output.string()},
          {"iterations", options.iterations},
          {"warmup", options.warmup},
          {"start_step", options.start_step},
          {"on_signal", options.on_signal},
          {"max_bytes", options.max_bytes},
          {"exclude_modules", options.exclude_modules},
          {"end_of_iteration", options.end_of_iteration},
          {"snapshot", options.snapshot},
          {"children", options.children},
          {"status", status.string()},
          {"command", options.no_command ? "" : line_of(options.command)},
          {"no_paths", options.no_paths},
          {"kernels", options.kernels},
          {"lock_descriptor", lock_in_child},
          {"pythonpath", python_path == nullptr ? ordered_json(nullptr) : ordered_json(python_path)}};
}

/// Writes the manifest of a program's ranks, step.crtraces beside step.rank0.crtrace; its path, or "" when there are no
/// ranks.
Result<std::string> join_ranks(const RecordReport& report, const fs::path& output) {
  const std::vector<std::string> files = report.files_of_ranks();
  if (files.empty()) return std::string();
  fs::path path = output;
  path.replace_extension(".crtraces");
  CRUCIBLE_TRY(const RankManifest manifest, merge_ranks(files, path));
  CRUCIBLE_TRY_VOID(write_manifest(manifest, path));
  return path.string();
}

Result<int> record(RecordOptions options) {
  if (auto exact = command_after_dashes(); !exact.empty()) options.command = std::move(exact);
  if (options.command.empty()) {
    return Error{ErrorCode::kUsage, "no program given; write it after --, as in: crucible record -- python train.py"};
  }
  CRUCIBLE_TRY(const fs::path python, python_folder());
  const fs::path output = fs::absolute(options.output);
  CRUCIBLE_TRY(const trace::PathLock lock, trace::PathLock::acquire(output));
  CRUCIBLE_TRY(const TemporaryFolder folder, TemporaryFolder::create());
  const fs::path status = folder.path() / "report";

  Launch launch;
  launch.command = options.command;
  launch.start_folder = (python / "start").string();
  launch.output_to_error = options.json;
  launch.lock = lock_descriptor(output);
  launch.lock_in_child =
      launch.lock < 0 ? -1 : fcntl(launch.lock, F_DUPFD_CLOEXEC, 200);  // high: the program's numbers stay
  launch.config = config_of(options, output, status, launch.lock_in_child)
                      .dump(-1, ' ', true, ordered_json::error_handler_t::replace);
  CRUCIBLE_TRY(const int program_code, run_program(launch));

  const RecordReport report = RecordReport::read(status);
  const bool has_start = options.start_step > 0;
  const RecordRequest request{options.command[0], options.output, has_start ? options.start_step : options.warmup + 1,
                              has_start ? "--start-step" : "--warmup"};
  const std::string problem = report.why_nothing(request);
  const Result<std::string> joined = problem.empty() ? join_ranks(report, output) : Result<std::string>(std::string());
  if (options.json) {
    ordered_json document = report.document(request, program_code);
    document["manifest"] = joined && !joined->empty() ? ordered_json(*joined) : ordered_json(nullptr);
    print_json(document);
  }
  if (problem.empty()) {
    if (!options.json) report.print_summary(request);
    if (!joined) tell("crucible: the ranks were not joined: {}\n", joined.error().message);
    if (joined && !joined->empty() && !options.json) tell("crucible: ranks joined -> {}\n", *joined);
    return program_code;
  }
  if (program_code == 0) return Error{ErrorCode::kBadInput, fmt::format("nothing was recorded: {}", problem)};
  tell("crucible: error: nothing was recorded: {}; the program's own exit code is {}\n", problem, program_code);
  return program_code;
}

const std::map<std::string, int> kStartSignals = {{"SIGHUP", SIGHUP}, {"SIGUSR1", SIGUSR1}, {"SIGUSR2", SIGUSR2}};

}  // namespace

void add_record(Commands& commands) {
  auto options = std::make_shared<RecordOptions>();
  CLI::App* command =
      add_subcommand(commands.app, "record", "Run a program and record what its iterations execute",
                     "crucible record -o step.crtrace --iterations 8 -- python train.py --epochs 1\n"
                     "  crucible record --start-step 1000 --max-bytes 2G -- python train.py\n"
                     "  crucible record --on-signal SIGUSR1 -- python train.py     (then: kill -USR1 its process)\n"
                     "  crucible record -o step.crtrace -- torchrun --nproc_per_node=2 train.py");
  command->add_option("-o,--output", options->output, "File to write")->capture_default_str();
  command->add_option("--iterations", options->iterations, "Iterations to record")
      ->capture_default_str()
      ->check(CLI::Range(1u, 100000u));
  auto* warmup =
      command->add_option("--warmup", options->warmup, "Iterations to let pass first; the first steps allocate state");
  warmup->capture_default_str()->check(CLI::Range(1u, 1000000000u));
  command
      ->add_option("--start-step", options->start_step,
                   "Number of the first iteration to record, counted from 1, instead of --warmup")
      ->check(CLI::Range(2u, 1000000000u))
      ->excludes(warmup);
  command
      ->add_option("--on-signal", options->on_signal,
                   "Begin only after this signal has come: SIGUSR1, SIGUSR2 or SIGHUP")
      ->transform(CLI::CheckedTransformer(kStartSignals, CLI::ignore_case));
  command
      ->add_option("--max-bytes", options->max_bytes,
                   "Stop recording, not the program, when the recording has taken this much memory (500M, 2G)")
      ->transform(CLI::AsSizeValue(false));
  command
      ->add_option(
          "--exclude-module", options->exclude_modules,
          "Leave out what modules of these paths do (a pattern as \"encoder.*\"); they must run without gradients")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  command->add_option("--end-of-iteration", options->end_of_iteration, "What ends an iteration (docs/recording.md)")
      ->capture_default_str()
      ->check(CLI::IsMember({"auto", "optimizer", "step", "module", "period"}));
  command
      ->add_option("--snapshot", options->snapshot,
                   "\"ops\": keep a hash of every op's results, to find the first difference")
      ->check(CLI::IsMember({"ops"}));
  command->add_option("--kernels", options->kernels, "How ops are intercepted (docs/recording.md)")
      ->capture_default_str()
      ->check(CLI::IsMember({"typed", "boxed", "per_op", "record_function"}));
  command->add_flag("--children", options->children, "Record child processes too, each into a file of its own");
  command->add_flag("--no-command", options->no_command,
                    "Leave the command line out of the file: it may have keys in it");
  command->add_flag(
      "--no-paths", options->no_paths,
      "Make paths in the file relative to the working folder or the package: none is absolute or names a home folder");
  command->add_flag("--json", options->json, "Print one JSON document; the program's output goes to standard error");
  command->add_option("command", options->command, "The program and its arguments, after --");
  command->callback([&commands, options] { commands.run = [options] { return record(*options); }; });
}

}  // namespace crucible::cli
