#include "plugins/loader/trust.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <grp.h>
#include <pwd.h>
#include <sys/auxv.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <span>
#include <system_error>
#include <utility>

#include "core/base/hash.hpp"

namespace crucible::backend {
namespace {

/// True when group `id` is our user's own: named like the user and with no other member. Debian gives each user one,
/// and a umask that lets it write.
bool is_private_group(gid_t id) {
  std::array<char, 4096> user_space, group_space;
  passwd user_entry;
  passwd* user = nullptr;
  group group_entry;
  group* found = nullptr;
  if (getpwuid_r(geteuid(), &user_entry, user_space.data(), user_space.size(), &user) != 0 || user == nullptr)
    return false;
  if (getgrgid_r(id, &group_entry, group_space.data(), group_space.size(), &found) != 0 || found == nullptr)
    return false;
  if (user->pw_gid != id || std::strcmp(user->pw_name, found->gr_name) != 0) return false;
  for (char** member = found->gr_mem; *member != nullptr; ++member) {
    if (std::strcmp(*member, user->pw_name) != 0) return false;
  }
  return true;
}

/// What is wrong with the owner and the mode of one file or folder, as "all users can write <what>".
void look_at(const struct stat& status, bool sticky_is_enough, const std::string& what,
             std::vector<std::string>& problems) {
  if (status.st_uid != 0 && status.st_uid != geteuid()) {
    problems.push_back(fmt::format("{} belongs to user {}, not to root or to user {}", what, status.st_uid, geteuid()));
  }
  if (sticky_is_enough && (status.st_mode & S_ISVTX) != 0) return;
  if ((status.st_mode & S_IWOTH) != 0) problems.push_back(fmt::format("all users can write {}", what));
  if ((status.st_mode & S_IWGRP) != 0 && status.st_gid != 0 && !is_private_group(status.st_gid)) {
    problems.push_back(fmt::format("group {} can write {}", status.st_gid, what));
  }
}

bool same_file(const struct stat& a, const struct stat& b) {
  return a.st_dev == b.st_dev && a.st_ino == b.st_ino && a.st_size == b.st_size &&
         a.st_mtim.tv_sec == b.st_mtim.tv_sec && a.st_mtim.tv_nsec == b.st_mtim.tv_nsec;
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
  return lstat(path_.c_str(), &named) == 0 && fstat(descriptor_, &held) == 0 && same_file(named, status_) &&
         same_file(held, status_);
}

std::vector<std::string> trust_problems(const OpenFile& file) {
  std::vector<std::string> problems;
  look_at(file.status(), false, "the file", problems);
  bool own_folder = true;
  for (std::filesystem::path folder = file.path().parent_path();; folder = folder.parent_path()) {
    struct stat status = {};
    const std::string what = fmt::format("its folder {}", folder.string());
    if (stat(folder.c_str(), &status) != 0) {
      problems.push_back(fmt::format("{} cannot be looked at: {}", what, std::strerror(errno)));
    } else {
      look_at(status, !own_folder, what, problems);
    }
    if (folder == folder.root_path()) return problems;
    own_folder = false;
  }
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
