#include "core/base/file_owners.hpp"

#include <fmt/format.h>
#include <grp.h>
#include <pwd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <system_error>

namespace crucible {
namespace {

constexpr int kMostLinks = 40;  // as many as the kernel follows

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

void add_once(std::string doubt, std::vector<std::string>& doubts) {
  if (std::ranges::find(doubts, doubt) == doubts.end()) doubts.push_back(std::move(doubt));
}

/// One walk from the root: each part is looked at before it is gone through, so that a link counts with the folder that
/// it lies in, and not only with what it leads to.
class Walk {
 public:
  Walk(const std::string& name, std::vector<std::string>& doubts) : name_(name), doubts_(doubts) {}

  void to(const std::filesystem::path& path) {
    push(path);
    while (!rest_.empty()) {
      const std::string part = rest_.back();
      rest_.pop_back();
      if (part == "." || part.empty()) continue;
      if (part == "..") {
        at_ = at_.parent_path();
        continue;
      }
      const bool is_own_folder =
          std::ranges::all_of(rest_, [](const std::string& next) { return next.empty() || next == "."; });
      look_at_folder(is_own_folder);
      if (!step(part, is_own_folder)) return;
    }
  }

 private:
  void push(const std::filesystem::path& path) {
    if (path.is_absolute()) at_ = "/";
    const std::filesystem::path relative = path.relative_path();
    const std::vector<std::filesystem::path> parts(relative.begin(), relative.end());
    for (auto part = parts.rbegin(); part != parts.rend(); ++part) rest_.push_back(part->string());
  }

  void look_at_folder(bool is_own_folder) {
    struct stat status = {};
    const std::string what = fmt::format("its folder {}", at_.string());
    if (lstat(at_.c_str(), &status) != 0)
      return add_once(fmt::format("{} cannot be looked at: {}", what, std::strerror(errno)), doubts_);
    add_doubts(status, !is_own_folder, what, doubts_);
  }

  /// Goes into `part` of the folder; false where there is nothing to go into.
  bool step(const std::string& part, bool is_last) {
    const std::filesystem::path next = at_ / part;
    struct stat status = {};
    if (lstat(next.c_str(), &status) != 0) {
      add_once(fmt::format("{} cannot be looked at: {}", next.string(), std::strerror(errno)), doubts_);
      return false;
    }
    if (!S_ISLNK(status.st_mode)) {
      if (is_last) add_doubts(status, false, name_, doubts_);
      at_ = next;
      return true;
    }
    if (status.st_uid != 0 && status.st_uid != geteuid()) {
      add_once(fmt::format("the link {} belongs to user {}, not to root or to user {}", next.string(), status.st_uid,
                           geteuid()),
               doubts_);
    }
    std::error_code error;
    const std::filesystem::path target = std::filesystem::read_symlink(next, error);
    if (error || ++links_ > kMostLinks) {
      add_once(fmt::format("the link {} cannot be followed", next.string()), doubts_);
      return false;
    }
    push(target);
    return true;
  }

  const std::string& name_;
  std::vector<std::string>& doubts_;
  std::filesystem::path at_ = "/";
  std::vector<std::string> rest_;  // the parts that are still to be gone through, the next one last
  int links_ = 0;
};

}  // namespace

void add_doubts(const struct stat& status, bool sticky_is_enough, const std::string& what,
                std::vector<std::string>& doubts) {
  if (status.st_uid != 0 && status.st_uid != geteuid()) {
    add_once(fmt::format("{} belongs to user {}, not to root or to user {}", what, status.st_uid, geteuid()), doubts);
  }
  if (sticky_is_enough && (status.st_mode & S_ISVTX) != 0) return;
  if ((status.st_mode & S_IWOTH) != 0) add_once(fmt::format("all users can write {}", what), doubts);
  if ((status.st_mode & S_IWGRP) != 0 && status.st_gid != 0 && !is_private_group(status.st_gid)) {
    add_once(fmt::format("group {} can write {}", status.st_gid, what), doubts);
  }
}

std::vector<std::string> doubts_about(const std::filesystem::path& path, const std::string& name) {
  std::vector<std::string> doubts;
  std::error_code error;
  Walk(name, doubts).to(path.is_absolute() ? path : std::filesystem::current_path(error) / path);
  return doubts;
}

}  // namespace crucible
