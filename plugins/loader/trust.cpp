#include "plugins/loader/trust.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/auxv.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <span>
#include <system_error>
#include <utility>

#include "core/base/file_owners.hpp"
#include "core/base/hash.hpp"
#include "plugins/loader/sealed.hpp"

namespace crucible::backend {
namespace {

bool same_file(const struct stat& a, const struct stat& b) {
  return a.st_dev == b.st_dev && a.st_ino == b.st_ino && a.st_size == b.st_size &&
         a.st_mtim.tv_sec == b.st_mtim.tv_sec && a.st_mtim.tv_nsec == b.st_mtim.tv_nsec &&
         // Who writes into a file can set its time of modification back, and not this one.
         a.st_ctim.tv_sec == b.st_ctim.tv_sec && a.st_ctim.tv_nsec == b.st_ctim.tv_nsec;
}

}  // namespace

Result<OpenFile> OpenFile::open(const std::filesystem::path& path) {
  std::error_code error;
  OpenFile file;
  file.path_ = std::filesystem::canonical(path, error);
  if (error) {
    return Error{ErrorCode::kUnavailable,
                 fmt::format("plugin {} cannot be loaded: {}", path.string(), error.message())};
  }
  // O_NONBLOCK: opening a pipe must not wait for somebody to write. O_NOFOLLOW: the links have been resolved.
  file.descriptor_ = ::open(file.path_.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW);
  if (file.descriptor_ < 0 || fstat(file.descriptor_, &file.status_) != 0) {
    return Error{ErrorCode::kUnavailable,
                 fmt::format("plugin {} cannot be loaded: {}", file.path_.string(), std::strerror(errno))};
  }
  if (!S_ISREG(file.status_.st_mode)) {
    return Error{ErrorCode::kBadInput,
                 fmt::format("plugin {} cannot be loaded: it is not a file", file.path_.string())};
  }
  return file;
}

OpenFile::OpenFile(OpenFile&& other) noexcept
    : descriptor_(std::exchange(other.descriptor_, -1)), status_(other.status_), path_(std::move(other.path_)) {}

OpenFile& OpenFile::operator=(OpenFile&& other) noexcept {
  std::swap(descriptor_, other.descriptor_);
  std::swap(status_, other.status_);
  std::swap(path_, other.path_);
  return *this;
}

OpenFile::~OpenFile() {
  if (descriptor_ >= 0) close(descriptor_);
}

bool OpenFile::is_current() const {
  struct stat named = {}, held = {};
  if (lstat(path_.c_str(), &named) != 0 || !same_file(named, status_)) return false;
  return is_sealed(descriptor_) || (fstat(descriptor_, &held) == 0 && same_file(held, status_));
}

Result<void> OpenFile::seal() {
  const Result<int> copy = sealed_copy(descriptor_, static_cast<std::size_t>(status_.st_size));
  if (!copy) return Error{copy.error().code, fmt::format("plugin {} {}", path_.string(), copy.error().message)};
  close(std::exchange(descriptor_, *copy));
  return {};
}

std::vector<std::string> trust_problems(const OpenFile& file) {
  // The open file is looked at itself, what stands above it by name.
  std::vector<std::string> problems;
  add_doubts(file.status(), false, "the file", problems);
  for (std::string& doubt : doubts_about(file.path(), "the file")) {
    if (std::ranges::find(problems, doubt) == problems.end()) problems.push_back(std::move(doubt));
  }
  return problems;
}

Result<std::string> file_digest(const OpenFile& file) {
  std::vector<std::byte> content(static_cast<std::size_t>(file.status().st_size));
  std::size_t have = 0;
  while (have < content.size()) {
    const ssize_t got =
        pread(file.descriptor(), content.data() + have, content.size() - have, static_cast<off_t>(have));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) {
      return Error{ErrorCode::kUnavailable, fmt::format("plugin {} cannot be read: {}", file.path().string(),
                                                        got == 0 ? "it has become shorter" : std::strerror(errno))};
    }
    have += static_cast<std::size_t>(got);
  }
  return sha256(content).hex();
}

bool is_privileged() { return getauxval(AT_SECURE) != 0 || geteuid() != getuid() || getegid() != getgid(); }

}  // namespace crucible::backend
