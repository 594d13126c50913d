#include "core/trace/own_recordings.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <optional>
#include <string>
#include <vector>

#include "core/base/output.hpp"

namespace crucible::trace {
namespace {

constexpr std::size_t kRemembered = 4096;

std::filesystem::path state_folder() {
  if (const char* const xdg = std::getenv("XDG_STATE_HOME"); xdg != nullptr && *xdg == '/')
    return std::filesystem::path(xdg) / "crucible";
  if (const char* const home = std::getenv("HOME"); home != nullptr && *home == '/')
    return std::filesystem::path(home) / ".local/state/crucible";
  return {};
}

/// Device, inode, size and both times: "0 12 4096 1700000000.5 1700000000.5". Nothing for what is no file of this user.
std::optional<std::string> mark_of(const std::filesystem::path& file) {
  struct stat status = {};
  if (stat(file.c_str(), &status) != 0 || !S_ISREG(status.st_mode) || status.st_uid != geteuid()) return std::nullopt;
  return fmt::format("{} {} {} {}.{} {}.{}", status.st_dev, status.st_ino, status.st_size, status.st_mtim.tv_sec,
                     status.st_mtim.tv_nsec, status.st_ctim.tv_sec, status.st_ctim.tv_nsec);
}

std::vector<std::string> marks_in(const std::filesystem::path& list) {
  std::vector<std::string> marks;
  struct stat status = {};
  if (lstat(list.c_str(), &status) != 0 || !S_ISREG(status.st_mode) || status.st_uid != geteuid() ||
      (status.st_mode & 022) != 0)
    return marks;
  std::ifstream stream(list);
  for (std::string line; std::getline(stream, line);) marks.push_back(std::move(line));
  return marks;
}

}  // namespace

void remember_recording(const std::filesystem::path& file) {
  const std::filesystem::path folder = state_folder();
  const std::optional<std::string> mark = mark_of(file);
  if (folder.empty() || !mark) return;
  std::error_code ignored;
  std::filesystem::create_directories(folder.parent_path(), ignored);
  mkdir(folder.c_str(), 0700);
  // Two recorders that end together would each leave out the other's.
  const int lock = open((folder / "recorded.lock").c_str(), O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (lock < 0) return;
  flock(lock, LOCK_EX);
  std::vector<std::string> marks = marks_in(folder / "recorded");
  std::string text;
  for (std::size_t i = marks.size() < kRemembered ? 0 : marks.size() - kRemembered + 1; i < marks.size(); ++i)
    text += marks[i] + "\n";
  if (write_output(folder / "recorded", text + *mark + "\n")) chmod((folder / "recorded").c_str(), 0600);
  close(lock);
}

bool is_own_recording(const std::filesystem::path& file) {
  const std::filesystem::path folder = state_folder();
  const std::optional<std::string> mark = mark_of(file);
  if (folder.empty() || !mark) return false;
  for (const std::string& known : marks_in(folder / "recorded")) {
    if (known == *mark) return true;
  }
  return false;
}

}  // namespace crucible::trace
