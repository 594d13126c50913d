// The rule of core/base/file_owners, for plugins, which link nothing of core.
#include "plugins/sdk/own_folder.hpp"

#include <grp.h>
#include <pwd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <system_error>
#include <vector>

namespace crucible::sdk {
namespace {

constexpr int kMostLinks = 40;  // as many as the kernel follows

/// The user's own group, in which nobody else is: Debian gives each user one, and a umask that lets it write.
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

std::string doubt_of(const std::filesystem::path& folder, bool sticky_is_enough) {
  struct stat status = {};
  if (stat(folder.c_str(), &status) != 0) return folder.string() + ": " + std::strerror(errno);
  if (status.st_uid != 0 && status.st_uid != geteuid()) return folder.string() + " belongs to another user";
  if (sticky_is_enough && (status.st_mode & S_ISVTX) != 0) return "";
  const bool by_group = (status.st_mode & S_IWGRP) != 0 && status.st_gid != 0 && !is_private_group(status.st_gid);
  return by_group || (status.st_mode & S_IWOTH) != 0 ? folder.string() + " can be written by other users" : "";
}

void push(std::vector<std::string>& rest, const std::filesystem::path& path) {
  const std::vector<std::filesystem::path> parts(path.begin(), path.end());
  for (auto part = parts.rbegin(); part != parts.rend(); ++part) {
    if (!part->empty() && *part != "." && *part != "/") rest.push_back(part->string());
  }
}

}  // namespace

std::string doubt_about_folder(const std::filesystem::path& folder) {
  std::error_code error;
  std::filesystem::path at = "/";
  std::vector<std::string> rest;  // parts that are still to be gone through, the next one last
  push(rest, std::filesystem::absolute(folder, error));
  for (int links = 0; !rest.empty();) {
    const std::string part = rest.back();
    rest.pop_back();
    if (part == "..") {
      at = at.parent_path();
      continue;
    }
    if (std::string doubt = doubt_of(at, true); !doubt.empty()) return doubt;
    const std::filesystem::path next = at / part;
    struct stat status = {};
    if (lstat(next.c_str(), &status) != 0) return next.string() + ": " + std::strerror(errno);
    if (!S_ISLNK(status.st_mode)) {
      at = next;
      continue;
    }
    const std::filesystem::path target = std::filesystem::read_symlink(next, error);
    if (error || ++links > kMostLinks) return next.string() + " is a link that cannot be followed";
    if (status.st_uid != 0 && status.st_uid != geteuid()) return next.string() + " is a link of another user";
    if (target.is_absolute()) at = "/";
    push(rest, target);
  }
  return doubt_of(at, false);
}

}  // namespace crucible::sdk
