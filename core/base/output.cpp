#include "core/base/output.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <string>

namespace crucible {
namespace {

Error cannot_write(const std::filesystem::path& path, std::string_view why) {
  return {ErrorCode::kBadInput, fmt::format("cannot write {}: {}", path.string(), why)};
}

std::string why(int reason) {
  if (reason == ELOOP || reason == EMLINK) return "it is a link: remove it, or name the file that it leads to";
  if (reason == ENOENT) return std::string(std::strerror(reason)) + "; create the folder first";
  if (reason == ENOSPC || reason == EDQUOT)
    return std::string(std::strerror(reason)) + "; free some space or write to another disk";
  if (reason == EFBIG) return std::string(std::strerror(reason)) + "; raise the file size limit (ulimit -f)";
  return std::strerror(reason);
}

/// Names that the system itself gives to what is open already.
bool is_of_the_system(const std::filesystem::path& path) {
  const std::string text = path.lexically_normal().string();
  return text == "/dev/stdout" || text == "/dev/stderr" || text.starts_with("/dev/fd/") ||
         text.starts_with("/proc/self/fd/");
}

int open_without_following(const std::filesystem::path& path, int flags, mode_t mode = 0666) {
  const int follow = is_of_the_system(path) ? 0 : O_NOFOLLOW;
  for (;;) {
    const int descriptor = open(path.c_str(), flags | O_CLOEXEC | follow, mode);
    if (descriptor >= 0 || errno != EINTR) return descriptor;
  }
}

/// 0, or the error number.
int write_all(int descriptor, std::string_view text) {
  while (!text.empty()) {
    const ssize_t count = write(descriptor, text.data(), text.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return errno;
    text.remove_prefix(static_cast<std::size_t>(count));
  }
  return 0;
}

/// Closes too. 0, or the error number.
int finish(int descriptor, std::string_view text) {
  const int reason = write_all(descriptor, text);
  const int closed = close(descriptor) == 0 ? 0 : errno;
  return reason != 0 ? reason : closed;
}

/// Devices and pipes are not replaced.
Result<void> write_in_place(const std::filesystem::path& path, std::string_view text) {
  const int descriptor = open_without_following(path, O_WRONLY);
  if (descriptor < 0) return cannot_write(path, why(errno));
  if (const int reason = finish(descriptor, text); reason != 0) return cannot_write(path, why(reason));
  return {};
}

}  // namespace

std::string_view fault_of_open_file(int descriptor) {
  struct stat status = {};
  if (fstat(descriptor, &status) != 0) return "it cannot be looked at";
  if (S_ISREG(status.st_mode) && status.st_nlink > 1)
    return "the file has other names too (hard links): remove this one";
  return "";
}

Result<int> open_to_append(const std::filesystem::path& path, mode_t mode) {
  const int descriptor = open_without_following(path, O_WRONLY | O_APPEND | O_CREAT, mode);
  if (descriptor < 0) return cannot_write(path, why(errno));
  if (const std::string_view fault = is_of_the_system(path) ? "" : fault_of_open_file(descriptor); !fault.empty()) {
    close(descriptor);
    return cannot_write(path, fault);
  }
  return descriptor;
}

Result<void> write_output(const std::filesystem::path& path, std::string_view text, mode_t mode) {
  struct stat status = {};
  const bool is_there = lstat(path.c_str(), &status) == 0;
  if (is_of_the_system(path)) return write_in_place(path, text);
  if (is_there && S_ISLNK(status.st_mode)) return cannot_write(path, why(ELOOP));
  if (is_there && S_ISDIR(status.st_mode)) return cannot_write(path, why(EISDIR));
  if (is_there && !S_ISREG(status.st_mode)) return write_in_place(path, text);
  static std::atomic<unsigned> counter{0};
  const std::filesystem::path fresh = fmt::format("{}.{}-{}.part", path.string(), getpid(), counter++);
  (void)unlink(fresh.c_str());  // left over from a process that was killed
  const int descriptor = open_without_following(fresh, O_WRONLY | O_CREAT | O_EXCL, mode);
  if (descriptor < 0) return cannot_write(path, why(errno));
  // A file that is replaced keeps its mode: what its owner hid stays hidden.
  if (is_there) (void)fchmod(descriptor, status.st_mode & 0777);
  int reason = finish(descriptor, text);
  if (reason == 0 && rename(fresh.c_str(), path.c_str()) != 0) reason = errno;
  if (reason == 0) return {};
  (void)unlink(fresh.c_str());
  return cannot_write(path, why(reason));
}

}  // namespace crucible
