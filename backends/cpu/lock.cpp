// Locks of the open file (F_OFD_SETLK), not of the process: they hold between threads too, compilers do not inherit
// them, and they are unlocked by name because a fork of the host may have the file open for longer.
#include "backends/cpu/lock.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>

namespace crucible_cpu {
namespace {

constexpr std::size_t kDigitsOfPlace = 15;  // of the key; two kernels at one place would wait for each other, no more

struct flock range(short type, off_t start, off_t length) {
  struct flock range = {};
  range.l_type = type;
  range.l_whence = SEEK_SET;
  range.l_start = start;
  range.l_len = length;
  return range;
}

}  // namespace

KernelLocks::KernelLocks(const std::filesystem::path& file)
    : file_(file.empty() ? -1 : open(file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600)) {}

KernelLocks::~KernelLocks() {
  unlock_all();
  if (file_ >= 0) close(file_);
}

bool KernelLocks::try_lock(const std::string& key) {
  if (file_ < 0) return true;
  const auto place = static_cast<off_t>(std::strtoull(key.substr(0, kDigitsOfPlace).c_str(), nullptr, 16));
  struct flock one = range(F_WRLCK, place, 1);
  return fcntl(file_, F_OFD_SETLK, &one) == 0 || (errno != EAGAIN && errno != EACCES);
}

void KernelLocks::unlock_all() {
  struct flock all = range(F_UNLCK, 0, 0);
  if (file_ >= 0) fcntl(file_, F_OFD_SETLK, &all);
}

}  // namespace crucible_cpu
