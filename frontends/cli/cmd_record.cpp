// `crucible record -- python script.py ...`: runs the program as it is, with our start folder in front of PYTHONPATH, and
// tells at the end what was recorded. The recording itself happens inside the program (frontends/torch); this side only
// starts it, passes signals on, keeps its exit code and reads the report that it leaves.
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

#include "core/trace/trace_file.hpp"
#include "frontends/cli/command.hpp"

namespace crucible::cli {

namespace {

namespace fs = std::filesystem;
using nlohmann::ordered_json;

struct RecordOptions {
  std::string output = "trace.crtrace";
  std::uint32_t iterations = 4;
  std::uint32_t warmup = 2;
  std::string kernels = "typed";
  bool json = false;
  std::vector<std::string> command;
};

/// A folder that is removed with all that is in it.
class TemporaryFolder {
 public:
  static Result<TemporaryFolder> create() {
    std::error_code error;
    const fs::path parent = fs::temp_directory_path(error);
    std::string pattern = ((error ? fs::path("/tmp") : parent) / "crucible-XXXXXX").string();
    if (mkdtemp(pattern.data()) == nullptr) {
      return Error{ErrorCode::kBadInput, fmt::format("cannot create a folder like {}: {}; set TMPDIR to a folder that you may write to",
                                                     pattern, std::strerror(errno))};
    }
    return TemporaryFolder(pattern);
  }
  TemporaryFolder(TemporaryFolder&& other) noexcept : path_(std::exchange(other.path_, {})) {}
  TemporaryFolder& operator=(TemporaryFolder&&) = delete;
  ~TemporaryFolder() {
    std::error_code ignored;
    if (!path_.empty()) fs::remove_all(path_, ignored);
  }
  const fs::path& path() const { return path_; }

 private:
  explicit TemporaryFolder(fs::path path) : path_(std::move(path)) {}
  fs::path path_;
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

/// The folder with our Python packages: beside the executable in a build tree, under lib/ when installed.
Result<fs::path> python_folder() {
  std::error_code error;
  const fs::path executable = fs::read_symlink("/proc/self/exe", error);
  for (const fs::path& folder : {executable.parent_path() / "python", executable.parent_path().parent_path() / "lib/crucible/python"}) {
    if (fs::exists(folder / "start/sitecustomize.py", error)) return folder;
  }
  return Error{ErrorCode::kUnavailable,
               fmt::format("the recorder is not built: {} has no folder 'python'; build with CRUCIBLE_PYTHON set to a Python that has torch",
                           executable.parent_path().string())};
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

volatile sig_atomic_t child_process = 0;

/// Passes a signal on that was sent to us alone; one from the terminal has reached the program already.
void pass_on(int signal, siginfo_t* information, void*) {
  if (information->si_code <= 0 && child_process > 0 && information->si_pid != child_process) kill(static_cast<pid_t>(child_process), signal);
}

constexpr int kSignals[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2};

void handle_signals() {
  for (const int signal : kSignals) {
    struct sigaction present {};
    if (sigaction(signal, nullptr, &present) != 0 || present.sa_handler == SIG_IGN) continue;
    struct sigaction action {};
    action.sa_sigaction = pass_on;
    action.sa_flags = SA_SIGINFO | SA_RESTART;
    sigemptyset(&action.sa_mask);
    sigaction(signal, &action, nullptr);
  }
}

struct Launch {
  const RecordOptions* options = nullptr;
  std::string start_folder;  // goes in front of PYTHONPATH
  std::string config;        // what start/sitecustomize.py reads
  int lock = -1;
  int lock_in_child = -1;
};

/// In the child: becomes the program, or writes errno into `failed` and ends.
[[noreturn]] void become_program(const Launch& launch, int failed) {
  if (launch.options->json) dup2(STDERR_FILENO, STDOUT_FILENO);
  if (launch.lock >= 0) dup2(launch.lock, launch.lock_in_child);
  const char* present = std::getenv("PYTHONPATH");
  const std::string path = present == nullptr || *present == '\0' ? launch.start_folder : launch.start_folder + ":" + present;
  setenv("PYTHONPATH", path.c_str(), 1);
  setenv("CRUCIBLE_RECORDING", launch.config.c_str(), 1);
  std::vector<char*> words;
  for (const std::string& word : launch.options->command) words.push_back(const_cast<char*>(word.c_str()));
  words.push_back(nullptr);
  execvp(words[0], words.data());
  const int reason = errno;
  (void)!write(failed, &reason, sizeof reason);
  _exit(127);
}

/// Runs the program to its end; its exit code, or 128 + the number of the signal that ended it, as shells say it.
Result<int> run_program(const Launch& launch) {
  int failed[2];
  if (pipe2(failed, O_CLOEXEC) != 0) return Error{ErrorCode::kInternal, fmt::format("cannot make a pipe: {}", std::strerror(errno))};
  sigset_t all, before;
  sigfillset(&all);
  sigprocmask(SIG_BLOCK, &all, &before);  // until the handler knows whom to pass signals to
  const pid_t child = fork();
  if (child == 0) {
    sigprocmask(SIG_SETMASK, &before, nullptr);
    become_program(launch, failed[1]);
  }
  const int fork_reason = errno;
  child_process = child;
  if (child > 0) handle_signals();
  sigprocmask(SIG_SETMASK, &before, nullptr);
  close(failed[1]);
  int reason = 0;
  const bool not_started = child > 0 && read(failed[0], &reason, sizeof reason) == sizeof reason;
  close(failed[0]);
  if (child < 0) return Error{ErrorCode::kBadInput, fmt::format("cannot start a process: {}", std::strerror(fork_reason))};
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  child_process = 0;
  if (not_started) {
    return Error{ErrorCode::kBadInput, fmt::format("cannot run '{}': {}; give the command as you would type it after --",
                                                   launch.options->command[0], std::strerror(reason))};
  }
  return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

/// Why there is no file, in words; "" when there is one.
std::string why_nothing(const ordered_json& report, const RecordOptions& options) {
  const std::string state = report.value("state", "");
  if (state == "written") return "";
  if (state == "refused" || state == "failed") return report.value("message", "the recorder gave no reason");
  if (state == "recording") return "the program ended while it was recorded, without running its exit handlers";
  if (state == "python") return "the program never imported torch";
  if (state != "waiting") {
    return fmt::format("no Python that reads PYTHONPATH was started by '{}' (one with -I, -E or -S does not)", options.command[0]);
  }
  const std::uint64_t steps = report.value("steps", std::uint64_t{0});
  if (!report.value("ended", false)) return "the program ended before the recording began, without running its exit handlers";
  if (steps == 0) return "no optimizer step was seen; call crucible.step() at the end of each iteration (import crucible)";
  return fmt::format("the program made {} steps and the warm-up takes {}; run at least {} steps, or lower --warmup", steps,
                     options.warmup, options.warmup + 1);
}

std::string ops_text(const ordered_json& report) {
  const auto counts = report.value("ops_per_iteration", std::vector<std::uint64_t>{});
  if (counts.empty()) return "0 ops";
  const auto [least, most] = std::minmax_element(counts.begin(), counts.end());
  return *least == *most ? fmt::format("{} ops each", *least) : fmt::format("{} to {} ops each", *least, *most);
}

void print_summary(const ordered_json& report, const RecordOptions& options) {
  const std::uint64_t iterations = report.value("iterations", std::uint64_t{0});
  fmt::print(stderr, "crucible: recorded {} iteration{}, {}, {} -> {}\n", iterations, iterations == 1 ? "" : "s", ops_text(report),
             format_bytes(report.value("bytes", std::uint64_t{0})), options.output);
  for (const auto& reason : report.value("incomplete", ordered_json::array())) {
    fmt::print(stderr, "crucible: incomplete: {}\n", reason.get<std::string>());
  }
  for (const auto& item : report.value("not_recorded", ordered_json::array())) {
    fmt::print(stderr, "crucible: not recorded: {}, {} times, first at {}\n", item.value("what", ""), item.value("count", std::uint64_t{0}),
               item.value("site", "?"));
  }
}

void print_document(const ordered_json& report, const RecordOptions& options, const std::string& problem, int program_code) {
  ordered_json document;
  document["iterations"] = report.value("iterations", std::uint64_t{0});
  document["ops"] = report.value("ops", std::uint64_t{0});
  document["ops_per_iteration"] = report.value("ops_per_iteration", ordered_json::array());
  document["bytes"] = report.value("bytes", std::uint64_t{0});
  document["incomplete"] = problem.empty() ? report.value("incomplete", ordered_json::array()) : ordered_json::array({problem});
  document["not_recorded"] = report.value("not_recorded", ordered_json::array());
  document["overhead_ns_per_op"] = report.value("overhead_ns_per_op", std::uint64_t{0});
  document["frontend"] = report.value("frontend", "");
  document["path"] = problem.empty() ? ordered_json(options.output) : ordered_json(nullptr);
  document["exit_code"] = program_code;
  print_json(document);
}

std::string join(const std::vector<std::string>& words) {
  std::string line;
  for (const std::string& word : words) line += (line.empty() ? "" : " ") + word;
  return line;
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
  const fs::path status = folder.path() / "report.json";

  Launch launch;
  launch.options = &options;
  launch.start_folder = (python / "start").string();
  launch.lock = lock_descriptor(output);
  launch.lock_in_child = launch.lock < 0 ? -1 : fcntl(launch.lock, F_DUPFD_CLOEXEC, 200);  // high: the program's numbers stay
  const char* python_path = std::getenv("PYTHONPATH");
  const ordered_json config = {
      {"output", output.string()}, {"iterations", options.iterations}, {"warmup", options.warmup}, {"status", status.string()},
      {"command", join(options.command)}, {"kernels", options.kernels}, {"lock_descriptor", launch.lock_in_child},
      {"pythonpath", python_path == nullptr ? ordered_json(nullptr) : ordered_json(python_path)}};
  launch.config = config.dump(-1, ' ', true, ordered_json::error_handler_t::replace);
  CRUCIBLE_TRY(const int program_code, run_program(launch));

  std::ifstream source(status);
  const ordered_json read = ordered_json::parse(source, nullptr, false);
  const ordered_json report = read.is_object() ? read : ordered_json::object();
  const std::string problem = why_nothing(report, options);
  if (options.json) print_document(report, options, problem, program_code);
  if (problem.empty()) {
    if (!options.json) print_summary(report, options);
    return program_code;
  }
  if (program_code == 0) return Error{ErrorCode::kBadInput, fmt::format("nothing was recorded: {}", problem)};
  fmt::print(stderr, "crucible: error: nothing was recorded: {}; the program's own exit code is {}\n", problem, program_code);
  return program_code;
}

}  // namespace

void add_record(Commands& commands) {
  auto options = std::make_shared<RecordOptions>();
  CLI::App* command = add_subcommand(commands.app, "record", "Run a program and record what its training iterations execute",
                                     "crucible record -o step.crtrace --iterations 8 -- python train.py --epochs 1");
  command->add_option("-o,--output", options->output, "File to write")->capture_default_str();
  command->add_option("--iterations", options->iterations, "Iterations to record")->capture_default_str()->check(CLI::Range(1u, 100000u));
  command->add_option("--warmup", options->warmup, "Iterations to let pass first; the first steps allocate state")
      ->capture_default_str()
      ->check(CLI::Range(1u, 1000000000u));
  command->add_option("--kernels", options->kernels, "How ops are intercepted (docs/recording.md)")
      ->capture_default_str()
      ->check(CLI::IsMember({"typed", "boxed", "per_op", "record_function"}));
  command->add_flag("--json", options->json, "Print one JSON document; the program's output goes to standard error");
  command->add_option("command", options->command, "The program and its arguments, after --");
  command->callback([&commands, options] { commands.run = [options] { return record(*options); }; });
}

}  // namespace crucible::cli
