#include "frontends/cli/sandbox.hpp"

#include <fmt/format.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysinfo.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>

#include "core/base/terminal.hpp"
#include "core/trace/own_recordings.hpp"
#include "core/trace/text.hpp"
#include "frontends/cli/confine.hpp"
#include "frontends/replay/kept_store.hpp"
#include "plugins/loader/probe.hpp"

namespace crucible::cli {
namespace {

namespace fs = std::filesystem;

constexpr const char* kMode = "sandbox.mode";
constexpr const char* kStoreVariable = "CRUCIBLE_STORE_DIR";
/// Names under which a compiler of C and what it calls are found: the CPU plugin's own list, with every version.
constexpr const char* kTools[] = {"clang", "gcc", "cc", "ld", "as", "lld", "collect2"};
/// Where those keep programs of their own, and the programs that start all others.
constexpr const char* kToolFolders[] = {"/usr/lib/gcc", "/usr/libexec/gcc", "/lib64/ld-linux-x86-64.so.2",
                                        "/lib/ld-linux-aarch64.so.1"};
constexpr const char* kDeviceFiles[] = {
    "/dev/nvidia0",     "/dev/nvidiactl", "/dev/nvidia-uvm", "/dev/nvidia-uvm-tools",
    "/dev/nvidia-caps", "/dev/dri",       "/dev/kfd"};

/// Below this the program itself does not start its threads, and can say nothing.
constexpr std::uint64_t kLeastMemory = std::uint64_t{1} << 30;

std::string variable(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? "" : value;
}

bool is_wanted(const config::Settings& settings, const std::string& file) {
  const std::string mode = settings.text(kMode);
  if (mode != "auto") return mode == "on";
  // Drivers of devices open sockets and files of their own choice; nobody has tried which of them live without.
  const std::string backend = chosen_backend(settings);
  return (backend == kFallbackPlugin || backend == kReferenceBackend) && !trace::is_own_recording(file);
}

fs::path cache_folder() {
  if (const std::string xdg = variable("XDG_CACHE_HOME"); xdg.starts_with('/')) return xdg;
  if (const std::string home = variable("HOME"); home.starts_with('/')) return fs::path(home) / ".cache";
  return fs::path("/tmp") / fmt::format("crucible-{}", getuid());
}

/// What runs in the sandbox keeps compiled kernels apart from those that run outside of it: one that was made to do
/// harm stays inside. Returns the folders that are to be writable.
std::vector<fs::path> move_caches() {
  std::vector<fs::path> folders = {cache_folder() / "crucible/confined"};
  setenv("XDG_CACHE_HOME", folders[0].c_str(), 1);
  setenv(kShutIn, "1", 1);
  if (const std::string folder = variable(kStoreVariable); !folder.empty()) {
    folders.push_back(fs::path(folder) / "confined");
    setenv(kStoreVariable, folders.back().c_str(), 1);
  }
  std::error_code ignored;
  for (const fs::path& folder : folders) {
    fs::create_directories(folder.parent_path(), ignored);
    mkdir(folder.c_str(), 0700);
  }
  return folders;
}

/// "clang-19" is a clang, "ld.lld" an ld, "x86_64-linux-gnu-ld.bfd" another; "lddd" is none.
bool is_tool(std::string name) {
  const std::string triple = "-linux-gnu-";
  if (const std::size_t at = name.find(triple); at != std::string::npos) name = name.substr(at + triple.size());
  return std::ranges::any_of(kTools, [&](std::string_view tool) {
    return name.starts_with(tool) &&
           (name.size() == tool.size() || name[tool.size()] == '-' || name[tool.size()] == '.');
  });
}

/// A script is run by the program that its first line names.
void add_program(const fs::path& program, std::vector<fs::path>& runnable) {
  std::error_code error;
  const fs::path real = fs::canonical(program, error);
  if (error) return;
  runnable.push_back(real);
  std::ifstream stream(real, std::ios::binary);
  std::string mark(2, '\0'), interpreter;
  if (!stream.read(mark.data(), 2) || mark != "#!" || !(stream >> interpreter)) return;
  if (const fs::path found = fs::canonical(interpreter, error); !error) runnable.push_back(found);
}

std::vector<fs::path> programs(const config::Settings& settings) {
  std::vector<fs::path> runnable(std::begin(kToolFolders), std::end(kToolFolders));
  if (const Result<fs::path> probe = backend::find_probe()) add_program(*probe, runnable);
  std::string rest = variable("PATH") + ":/usr/bin:/bin";
  std::vector<std::string> named = {variable("CRUCIBLE_CLANG")};
  for (const auto& [plugin_key, text] : settings.plugin_options(kFallbackPlugin)) {
    if (plugin_key == "compiler") named.push_back(text);
  }
  for (std::size_t colon = 0; !rest.empty(); rest = colon == std::string::npos ? "" : rest.substr(colon + 1)) {
    colon = rest.find(':');
    const fs::path folder = rest.substr(0, colon);
    if (!folder.is_absolute()) continue;
    std::error_code error;
    for (const fs::directory_entry& entry : fs::directory_iterator(folder, error)) {
      const std::string name = entry.path().filename().string();
      if (is_tool(name) || std::ranges::find(named, name) != named.end()) add_program(entry.path(), runnable);
    }
  }
  for (const std::string& name : named) {
    if (name.find('/') != std::string::npos) add_program(name, runnable);
  }
  return runnable;
}

/// A file is written beside itself and renamed, so that it is its folder that is written.
void add_outputs(const std::vector<fs::path>& outputs, std::vector<fs::path>& writable) {
  for (const fs::path& output : outputs) {
    if (output.empty() || output == "-") continue;
    std::error_code error;
    const fs::path full = fs::absolute(output, error);
    if (error) continue;
    writable.push_back(fs::is_regular_file(full, error) || !fs::exists(full, error) ? full.parent_path() : full);
  }
}

std::uint64_t memory_limit(const config::Settings& settings) {
  if (const std::int64_t said = settings.number("sandbox.memory_bytes"); said > 0)
    return std::max(static_cast<std::uint64_t>(said), kLeastMemory);
  struct sysinfo info = {};
  if (sysinfo(&info) != 0) return 0;
  // Addresses, not pages: a compiler's and a library's reservations are among them.
  return (std::uint64_t{info.totalram} + info.totalswap) * info.mem_unit + (std::uint64_t{4} << 30);
}

/// The child's side: shut in, or ended.
void shut_in(const config::Settings& settings, Confinement to, const fs::path& temporary, pid_t parent) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(128 + SIGKILL);  // it ended before we asked
  setenv("TMPDIR", temporary.c_str(), 1);
  to.memory_bytes = memory_limit(settings);
  const std::vector<std::string> missing = confine(to);
  if (missing.empty()) return;
  std::string text;
  for (const std::string& one : missing) text += (text.empty() ? "" : ", ") + one;
  tell("crucible: note: this system has no {}: the file is read without (docs/sandbox.md)\n", text);
}

/// False when the time was up.
bool wait_for(pid_t child, std::int64_t seconds) {
  const int descriptor = static_cast<int>(syscall(SYS_pidfd_open, child, 0));
  if (descriptor < 0) return true;  // no limit on time, then
  pollfd ended = {.fd = descriptor, .events = POLLIN, .revents = 0};
  int ready = 0;
  do {
    const std::int64_t milliseconds = std::min<std::int64_t>(seconds * 1000, 0x7fffffff);
    ready = poll(&ended, 1, static_cast<int>(milliseconds));
  } while (ready < 0 && errno == EINTR);
  close(descriptor);
  return ready != 0;
}

Result<std::optional<int>> await(pid_t child, const config::Settings& settings, const std::string& file) {
  // The terminal sends them to both, and it is the child's answer that counts.
  struct sigaction ignore = {}, interrupt = {}, quit = {};
  ignore.sa_handler = SIG_IGN;
  sigaction(SIGINT, &ignore, &interrupt);
  sigaction(SIGQUIT, &ignore, &quit);
  const std::int64_t seconds = settings.number("sandbox.seconds");
  const bool in_time = wait_for(child, seconds);
  if (!in_time) kill(child, SIGKILL);
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  sigaction(SIGINT, &interrupt, nullptr);
  sigaction(SIGQUIT, &quit, nullptr);
  if (!in_time) {
    return Error{
        ErrorCode::kBadInput,
        fmt::format("{}: did not end within {} s in its sandbox and was stopped; --set sandbox.seconds=N gives it more",
                    file, seconds)};
  }
  if (WIFEXITED(status)) return std::optional<int>(WEXITSTATUS(status));
  const int signal = WTERMSIG(status);
  if (signal == SIGINT || signal == SIGQUIT || signal == SIGTERM || signal == SIGPIPE || signal == SIGHUP) {
    std::signal(signal, SIG_DFL);
    raise(signal);
  }
  if (signal == SIGKILL) {
    return Error{
        ErrorCode::kUnavailable,
        fmt::format("{}: its sandbox was ended from outside (SIGKILL), as a system does that has no memory left",
                    file)};
  }
  return Error{ErrorCode::kBadInput,
               fmt::format("{}: its sandbox was ended by {} ({}): the file is damaged or was made to do harm, and "
                           "crucible did not notice "
                           "before; nothing but its own caches and outputs was written. Please report it",
                           file, sigabbrev_np(signal), strsignal(signal))};
}

/// A new folder for temporary files, of this run alone; "" where none can be made. What runs left that ended badly more
/// than a day ago goes.
fs::path temporary_in(const fs::path& folder) {
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, error)) {
    std::error_code ignored;
    const bool is_old = entry.last_write_time(ignored) < fs::file_time_type::clock::now() - std::chrono::hours(24);
    if (is_old && !ignored && entry.path().filename().string().starts_with("tmp-"))
      fs::remove_all(entry.path(), ignored);
  }
  std::string name = (folder / "tmp-XXXXXX").string();
  return mkdtemp(name.data()) == nullptr ? fs::path() : fs::path(name);
}

}  // namespace

Result<std::optional<int>> enter_sandbox(const DeviceChoice& choice, const SandboxedWork& work) {
  config::Settings settings = read_settings(choice);
  settings.add_plugin(kFallbackPlugin, nullptr);  // its options as they were written: nobody is asked yet
  if (!settings.problems().empty() || !is_wanted(settings, work.file))
    return std::optional<int>();  // problems are the command's to tell
  Confinement to{.writable = move_caches(), .runnable = programs(settings)};
  add_outputs(work.outputs, to.writable);
  for (const char* key : {"plugins.decisions", "plugins.trace_file"}) add_outputs({settings.text(key)}, to.writable);
  if (settings.text(kMode) == "on")
    to.writable.insert(to.writable.end(), std::begin(kDeviceFiles), std::end(kDeviceFiles));
  const fs::path temporary = temporary_in(to.writable[0]);
  std::fflush(nullptr);
  const pid_t parent = getpid(), child = fork();
  if (child < 0)
    return Error{
        ErrorCode::kUnavailable,
        fmt::format("cannot make a process for the sandbox: {}; --no-sandbox goes without", std::strerror(errno))};
  if (child == 0) {
    shut_in(settings, std::move(to), temporary, parent);
    return std::optional<int>();
  }
  Result<std::optional<int>> code = await(child, settings, work.file);
  std::error_code ignored;
  const bool went_well = code && *code == 0;
  // What is left by one that failed may be what its error speaks of: the text that a compiler did not take.
  if (!temporary.empty())
    (void)(went_well ? fs::remove_all(temporary, ignored) : std::uintmax_t{fs::remove(temporary, ignored)});
  return code;
}

}  // namespace crucible::cli
