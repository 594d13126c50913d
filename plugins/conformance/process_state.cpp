// Reading the state of this process: see process_state.hpp.
#include "plugins/conformance/process_state.hpp"

#include <fcntl.h>
#include <fenv.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>
#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

#include <algorithm>
#include <clocale>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "plugins/conformance/verdict.hpp"

extern char** environ;

namespace crucible::conformance {

ProcessState process_state() {
  ProcessState state;
  std::string handlers;
  for (int signal = 1; signal < 32; ++signal) {
    struct sigaction action = {};
    if (sigaction(signal, nullptr, &action) != 0) continue;
    handlers += fmt::format("{}={:x} ", signal, reinterpret_cast<std::uintptr_t>(action.sa_handler));
  }
  state.emplace_back("the signal handlers", handlers);
  sigset_t mask;
  sigprocmask(SIG_SETMASK, nullptr, &mask);
  std::string blocked;
  for (int signal = 1; signal < 32; ++signal) blocked += sigismember(&mask, signal) == 1 ? '1' : '0';
  state.emplace_back("the signal mask", blocked);
  state.emplace_back("the locale", std::setlocale(LC_ALL, nullptr));
  state.emplace_back("the rounding mode", std::to_string(fegetround()));
#if defined(__x86_64__)
  state.emplace_back("the floating-point control register (MXCSR)", fmt::format("{:#x}", _mm_getcsr() & ~0x3fu));
#endif
  std::string environment;
  for (char** variable = environ; variable != nullptr && *variable != nullptr; ++variable)
    environment += std::string(*variable) + "\n";
  state.emplace_back("the environment", environment);
  std::error_code error;
  state.emplace_back("the current folder", std::filesystem::current_path(error).string());
  const mode_t umask_now = umask(0);
  umask(umask_now);
  state.emplace_back("the file mode mask", fmt::format("{:o}", umask_now));
  std::string standard;
  for (int descriptor = 0; descriptor < 3; ++descriptor) {
    struct stat status = {};
    standard += fstat(descriptor, &status) == 0 ? fmt::format("{}:{} ", status.st_dev, status.st_ino) : "closed ";
  }
  state.emplace_back("standard input, output and error", standard);
  return state;
}

std::string open_files() {
  std::vector<std::string> files;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd", error)) {
    std::error_code ignored;
    const std::string target = std::filesystem::read_symlink(entry.path(), ignored).string();
    if (target.find("/proc/") == 0) continue;  // the listing itself
    files.push_back(entry.path().filename().string() + " " + target);
  }
  std::ranges::sort(files);
  std::string text;
  for (const std::string& file : files) text += file + "\n";
  return text;
}

unsigned thread_count() {
  std::error_code error;
  unsigned count = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator("/proc/self/task", error)) ++count;
  return count;
}

unsigned long long resident_bytes() {
  std::ifstream file("/proc/self/statm");
  unsigned long long total = 0, resident = 0;
  file >> total >> resident;
  return resident * static_cast<unsigned long long>(sysconf(_SC_PAGESIZE));
}

void expect_same_state(const ProcessState& before, const std::string& when) {
  const ProcessState after = process_state();
  for (std::size_t i = 0; i < before.size(); ++i) {
    if (before[i].second == after[i].second) continue;
    fail(fmt::format("{} of the process stay as they were {}", before[i].first, when),
         fmt::format("'{}' became '{}'", before[i].second, after[i].second));
  }
}

void expect_threads(unsigned most, const std::string& when) {
  unsigned count = thread_count();
  for (int i = 0; i < 200 && count > most; ++i) {
    usleep(10'000);
    count = thread_count();
  }
  expect(count <= most, fmt::format("{} thread(s) {}", most, when), fmt::format("{} threads", count));
}

}  // namespace crucible::conformance
