// PathLock: flock on PATH.lock. The lock file is removed while the lock is still held, and whoever gets a lock makes
// sure that its file is still the one under that name, so that a removed file never guards anything.
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <span>
#include <system_error>
#include <utility>

#include "core/trace/trace_file.hpp"
#include "core/trace/write_whole.hpp"

namespace crucible::trace {

namespace {

bool still_named(int descriptor, const std::filesystem::path& path) {
  struct stat ours{}, named{};
  return fstat(descriptor, &ours) == 0 && lstat(path.c_str(), &named) == 0 && ours.st_dev == named.st_dev &&
         ours.st_ino == named.st_ino;
}

/// Why what stands at the lock file's name is none of ours: a file of the user's that has this name too, or something
/// else than a lock's one line.
std::string_view fault_of_lock(int descriptor) {
  struct stat status{};
  if (fstat(descriptor, &status) != 0 || !S_ISREG(status.st_mode)) return "it is no file";
  if (status.st_nlink > 1) return "it is another file's name too (a hard link)";
  char text[32] = {};
  if (status.st_size >= static_cast<off_t>(sizeof text)) return "it is longer than a lock file";
  const ssize_t size = pread(descriptor, text, sizeof text, 0);
  const std::string_view line(text, size < 0 ? 0 : static_cast<std::size_t>(size));
  return line.find_first_not_of("0123456789\n") == std::string_view::npos
             ? ""
             : "it holds something else than a process number";
}

std::string holder(int descriptor) {
  char text[32] = {};
  const ssize_t size = pread(descriptor, text, sizeof text - 1, 0);
  std::string digits;
  for (ssize_t i = 0; i < size && text[i] >= '0' && text[i] <= '9'; ++i) digits += text[i];
  return digits.empty() ? "another process" : "process " + digits;
}

}  // namespace

Result<PathLock> PathLock::acquire(const std::filesystem::path& path) {
  std::filesystem::path lock_path = path;
  lock_path += ".lock";
  for (;;) {
    // O_NOFOLLOW: the folder may be somebody else's, and the process number is not written into what a link leads to.
    const int descriptor = ::open(lock_path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0666);
    if (descriptor < 0) {
      const int reason = errno;
      if (reason == ELOOP) {
        return Error{ErrorCode::kBadInput,
                     fmt::format("cannot create the lock file {}: a link of that name stands there; remove it",
                                 lock_path.string())};
      }
      return Error{ErrorCode::kBadInput,
                   fmt::format("cannot create the lock file {}: {}; {}", lock_path.string(), std::strerror(reason),
                               reason == ENOENT ? "create the folder first" : "choose a folder that you may write to")};
    }
    PathLock lock(descriptor, lock_path);
    if (flock(descriptor, LOCK_EX | LOCK_NB) != 0) {
      const int reason = errno;
      lock.lock_path_.clear();  // not ours to remove
      if (reason == EINTR) continue;
      if (reason != EWOULDBLOCK) {
        return Error{ErrorCode::kBadInput, fmt::format("cannot lock {}: {}; choose another folder", lock_path.string(),
                                                       std::strerror(reason))};
      }
      return Error{ErrorCode::kBadInput,
                   fmt::format("another recording ({}) is writing to {}: wait for it or choose another path",
                               holder(descriptor), path.string())};
    }
    if (!still_named(descriptor, lock_path)) {
      lock.lock_path_.clear();
      continue;  // the previous holder removed it between our open and our lock
    }
    if (const std::string_view fault = fault_of_lock(descriptor); !fault.empty()) {
      lock.lock_path_.clear();  // not ours to remove either
      return Error{ErrorCode::kBadInput,
                   fmt::format("cannot use {} as the lock file: {}; remove it", lock_path.string(), fault)};
    }
    const std::string number = fmt::format("{}\n", getpid());
    if (ftruncate(descriptor, 0) == 0) (void)write_whole(descriptor, std::as_bytes(std::span(number)), 0);
    return lock;
  }
}

bool PathLock::held_here(const std::filesystem::path& path) {
  std::filesystem::path lock_path = path;
  lock_path += ".lock";
  std::error_code error;
  for (std::filesystem::directory_iterator entry("/proc/self/fd", error), end; !error && entry != end;
       entry.increment(error)) {
    const int descriptor = std::atoi(entry->path().filename().c_str());
    // Locking once more through the descriptor that has the lock succeeds; through any other it does not.
    if (still_named(descriptor, lock_path) && flock(descriptor, LOCK_EX | LOCK_NB) == 0) return true;
  }
  return false;
}

PathLock::PathLock(int descriptor, std::filesystem::path lock_path)
    : descriptor_(descriptor), lock_path_(std::move(lock_path)), owner_(getpid()) {}

PathLock::PathLock(PathLock&& other) noexcept
    : descriptor_(std::exchange(other.descriptor_, -1)),
      lock_path_(std::exchange(other.lock_path_, {})),
      owner_(other.owner_) {}

PathLock& PathLock::operator=(PathLock&& other) noexcept {
  PathLock taken(std::move(other));  // ours goes with it when this ends
  std::swap(descriptor_, taken.descriptor_);
  std::swap(lock_path_, taken.lock_path_);
  std::swap(owner_, taken.owner_);
  return *this;
}

PathLock::~PathLock() {
  if (descriptor_ < 0) return;
  // A forked child shares the lock: it must neither remove the file nor unlock, only let go of its copy.
  if (owner_ == getpid() && !lock_path_.empty()) {
    if (still_named(descriptor_, lock_path_)) (void)unlink(lock_path_.c_str());
    (void)flock(descriptor_, LOCK_UN);
  }
  close(descriptor_);
}

}  // namespace crucible::trace
