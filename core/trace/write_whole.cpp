// pwrite until everything is there, with SIGXFSZ blocked in this thread meanwhile.
#include "core/trace/write_whole.hpp"

#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include <cerrno>
#include <ctime>

namespace crucible::trace {

namespace {

/// SIGXFSZ comes to the thread that writes: it is blocked, and taken off again if it came.
class HoldSizeSignal {
 public:
  HoldSizeSignal() {
    sigemptyset(&only_);
    sigaddset(&only_, SIGXFSZ);
    pthread_sigmask(SIG_BLOCK, &only_, &before_);
  }
  ~HoldSizeSignal() {
    if (sigismember(&before_, SIGXFSZ) == 0) {
      const timespec now{0, 0};
      if (came_) (void)sigtimedwait(&only_, nullptr, &now);
      pthread_sigmask(SIG_SETMASK, &before_, nullptr);
    }
  }
  HoldSizeSignal(const HoldSizeSignal&) = delete;
  HoldSizeSignal& operator=(const HoldSizeSignal&) = delete;
  void note_that_it_came() { came_ = true; }

 private:
  sigset_t only_{}, before_{};
  bool came_ = false;
};

}  // namespace

int write_whole(int descriptor, std::span<const std::byte> bytes, std::uint64_t offset) {
  HoldSizeSignal hold;
  while (!bytes.empty()) {
    const ssize_t written = pwrite(descriptor, bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) {
      const int reason = errno;
      if (reason == EFBIG) hold.note_that_it_came();
      return reason;
    }
    bytes = bytes.subspan(static_cast<std::size_t>(written));
    offset += static_cast<std::uint64_t>(written);
  }
  return 0;
}

const char* write_advice(int error_number) {
  switch (error_number) {
    case ENOSPC:
    case EDQUOT:
      return "free some space or write to another disk";
    case EFBIG:
      return "raise the file size limit (ulimit -f) or write fewer iterations";
    case ENOENT:
      return "create the folder first";
    case EACCES:
    case EPERM:
    case EROFS:
      return "choose a folder that you may write to";
    default:
      return "choose another path";
  }
}

}  // namespace crucible::trace
