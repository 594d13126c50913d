// posix_spawn: a host with gigabytes of memory and many threads must not be copied to ask one question.
#include "plugins/loader/child.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <iterator>
#include <string_view>
#include <utility>

namespace crucible::backend {
namespace {

using Clock = std::chrono::steady_clock;
constexpr std::size_t kMostOutput = 1 << 20;
constexpr int kFirstFree = 16;  // our ends are moved above the numbers that the child gets

class Descriptor {
 public:
  Descriptor() = default;
  explicit Descriptor(int number) : number_(number) {}
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  ~Descriptor() { reset(); }
  int get() const { return number_; }
  void reset(int number = -1) {
    if (number_ >= 0) close(number_);
    number_ = number;
  }

 private:
  int number_ = -1;
};

struct Pipe {
  Descriptor read, write;
  bool open() {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) return false;
    read.reset(ends[0]);
    write.reset(fcntl(ends[1], F_DUPFD_CLOEXEC, kFirstFree));
    close(ends[1]);
    fcntl(read.get(), F_SETFL, O_NONBLOCK);
    return write.get() >= 0;
  }
};

/// Takes what is there. False at the end of the stream.
bool drain(int descriptor, std::string& into) {
  std::array<char, 16384> bytes;
  for (;;) {
    const ssize_t got = read(descriptor, bytes.data(), bytes.size());
    if (got > 0) into.append(bytes.data(), static_cast<std::size_t>(got));
    if (got == 0) return false;
    if (got < 0 && errno != EINTR) return errno == EAGAIN;
    if (into.size() > kMostOutput) return true;
  }
}

/// The variables that the child gets: what programs, drivers and their loaders are configured by. Others are not a
/// plugin's that is only asked; among them are what a user's shell keeps secret.
constexpr std::string_view kPassedOn[] = {"HOME", "LANG", "LOGNAME", "PATH", "PWD",  "SHELL",
                                          "TEMP", "TMP",  "TMPDIR",  "TZ",   "USER", "DISPLAY"};
constexpr std::string_view kPassedOnFrom[] = {
    "AMD_",   "ASAN_", "CL_",  "CRUCIBLE_", "CUBLAS", "CUDA",   "CUDNN", "DNNL_",  "EMU_",       "GLIBC_",  "GOMP_",
    "GPU_",   "HIP",   "HSA_", "IGC_",      "INTEL",  "KMP_",   "LC_",   "LD_",    "LEVEL_ZERO", "LLVM_",   "LSAN_",
    "MIOPEN", "MKL_",  "MPI",  "NCCL_",     "NEO",    "NV",     "OCL_",  "OMP_",   "ONEAPI",     "ONEDNN_", "OPENCL_",
    "POCL_",  "RCCL_", "ROC",  "SYCL_",     "TBB",    "TORCH_", "TSAN_", "UBSAN_", "VK_",        "XDG_",    "ZE"};

std::vector<char*> environment_of_child() {
  std::vector<char*> passed;
  for (char** variable = environ; *variable != nullptr; ++variable) {
    const std::string_view text = *variable, name = text.substr(0, text.find('='));
    const bool is_passed =
        std::ranges::find(kPassedOn, name) != std::end(kPassedOn) ||
        std::ranges::any_of(kPassedOnFrom, [&](std::string_view from) { return name.starts_with(from); });
    if (is_passed) passed.push_back(*variable);
  }
  passed.push_back(nullptr);
  return passed;
}

int spawn(const std::vector<std::string>& arguments, const std::array<Pipe, 3>& pipes, int file, pid_t& child) {
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&actions, pipes[1].write.get(), 1);
  posix_spawn_file_actions_adddup2(&actions, pipes[2].write.get(), 2);
  posix_spawn_file_actions_adddup2(&actions, pipes[0].write.get(), 3);
  posix_spawn_file_actions_adddup2(&actions, file, 4);
  posix_spawn_file_actions_addclosefrom_np(&actions,
                                           5);  // what the host has open is none of a plugin's that is only asked
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  sigset_t none, all;
  sigemptyset(&none);
  sigfillset(&all);
  posix_spawnattr_setsigmask(&attributes, &none);  // the host's blocked and ignored signals are not the child's
  posix_spawnattr_setsigdefault(&attributes, &all);
  posix_spawnattr_setpgroup(&attributes, 0);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
  std::vector<char*> argv;
  for (const std::string& argument : arguments) argv.push_back(const_cast<char*>(argument.c_str()));
  argv.push_back(nullptr);
  const int error = posix_spawn(&child, argv[0], &actions, &attributes, argv.data(), environment_of_child().data());
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&actions);
  return error;
}

/// Collects output until the child has ended, the time is over or it writes too much.
void collect(const std::array<Pipe, 3>& pipes, int ended, Clock::time_point deadline, ChildResult& result) {
  std::array<std::string*, 3> texts = {&result.answers, &result.output, &result.errors};
  std::array<pollfd, 4> waiting = {{{pipes[0].read.get(), POLLIN, 0},
                                    {pipes[1].read.get(), POLLIN, 0},
                                    {pipes[2].read.get(), POLLIN, 0},
                                    {ended, POLLIN, 0}}};
  for (;;) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now()).count();
    if (left <= 0) return void(result.timed_out = true);
    if (poll(waiting.data(), waiting.size(), static_cast<int>(left)) < 0 && errno != EINTR) return;
    // The end is looked at before the last output is taken, so that nothing written before it is lost.
    const bool over = (waiting[3].revents & POLLIN) != 0;
    for (std::size_t i = 0; i < texts.size(); ++i) {
      if (waiting[i].fd >= 0 && !drain(waiting[i].fd, *texts[i])) waiting[i].fd = -1;
      if (texts[i]->size() > kMostOutput) return void(result.wrote_too_much = true);
    }
    if (over) return;
    const bool all_closed = waiting[0].fd < 0 && waiting[1].fd < 0 && waiting[2].fd < 0;
    if (ended < 0 && all_closed) return;  // a kernel without pidfd: the end of all streams is the end
  }
}

}  // namespace

Result<ChildResult> run_child(const std::vector<std::string>& arguments, int file,
                              std::chrono::milliseconds time_limit) {
  std::array<Pipe, 3> pipes;
  const Descriptor passed(fcntl(file, F_DUPFD_CLOEXEC, kFirstFree));
  for (Pipe& pipe : pipes) {
    if (!pipe.open() || passed.get() < 0) {
      return Error{ErrorCode::kUnavailable,
                   fmt::format("{} cannot be started: {}", arguments[0], std::strerror(errno))};
    }
  }
  const Clock::time_point deadline = Clock::now() + time_limit;
  ChildResult result;
  pid_t child = -1;
  if (const int error = spawn(arguments, pipes, passed.get(), child); error != 0) {
    return Error{ErrorCode::kUnavailable, fmt::format("{} cannot be started: {}", arguments[0], std::strerror(error))};
  }
  for (Pipe& pipe : pipes) pipe.write.reset();
  // By its number: the header of glibc 2.36 forgets that it may be read by C++.
  const Descriptor ended(static_cast<int>(syscall(SYS_pidfd_open, child, 0)));
  collect(pipes, ended.get(), deadline, result);
  kill(-child, SIGKILL);  // also what it started; its number is not free before wait4
  pid_t waited;
  do {
    waited = wait4(child, &result.status, 0, &result.usage);
  } while (waited < 0 && errno == EINTR);
  result.status_known = waited == child;
  return result;
}

}  // namespace crucible::backend
