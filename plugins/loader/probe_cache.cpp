// One file per plugin: the checksum of the rest, then the identity of the plugin's file, then the lines of the probe.
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <span>
#include <string>
#include <system_error>

#include "core/base/hash.hpp"
#include "plugins/abi/crucible_plugin.h"
#include "plugins/loader/probe.hpp"

namespace crucible::backend {
namespace {

constexpr int kFormat = 2;  // grows when the probe checks or tells more than before
constexpr std::size_t kLargestEntry = 1 << 20;

std::uint64_t hash(std::string_view text) { return checksum64(std::as_bytes(std::span(text))); }

std::filesystem::path folder_of(const LoadPolicy& policy) {
  if (!policy.cache_folder.empty()) return policy.cache_folder / "probe";
  if (is_privileged()) return {};
  const char* const cache = std::getenv("XDG_CACHE_HOME");
  if (cache != nullptr && *cache == '/') return std::filesystem::path(cache) / "crucible" / "probe";
  const char* const home = std::getenv("HOME");
  if (home != nullptr && *home == '/') return std::filesystem::path(home) / ".cache" / "crucible" / "probe";
  return {};
}

std::filesystem::path entry_of(const std::filesystem::path& folder, const OpenFile& file) {
  return folder / fmt::format("{}-{:016x}", file.path().filename().string(), hash(file.path().string()));
}

/// Everything that must be equal for an answer to count.
std::string identity_of(const OpenFile& file) {
  const struct stat& status = file.status();
  return fmt::format("{} {} {} {} {}.{:09} {}.{:09} host {}.{} probe {}\n", file.path().string(), status.st_dev,
                     status.st_ino, status.st_size, status.st_mtim.tv_sec, status.st_mtim.tv_nsec,
                     status.st_ctim.tv_sec, status.st_ctim.tv_nsec, CRUCIBLE_ABI_MAJOR, CRUCIBLE_ABI_MINOR, kFormat);
}

/// The content of a file that is ours and that nobody else can write; nothing for any other.
std::optional<std::string> read_own_file(const std::filesystem::path& path) {
  const int descriptor = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
  if (descriptor < 0) return std::nullopt;
  struct stat status = {};
  std::optional<std::string> content;
  if (fstat(descriptor, &status) == 0 && S_ISREG(status.st_mode) && status.st_uid == geteuid() &&
      (status.st_mode & (S_IWGRP | S_IWOTH)) == 0 && static_cast<std::size_t>(status.st_size) <= kLargestEntry) {
    content.emplace(static_cast<std::size_t>(status.st_size), '\0');
    const ssize_t got = read(descriptor, content->data(), content->size());
    if (got != status.st_size) content.reset();
  }
  close(descriptor);
  return content;
}

bool write_file(const std::filesystem::path& path, const std::string& content) {
  const int descriptor = open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (descriptor < 0) return false;
  const bool whole = write(descriptor, content.data(), content.size()) == static_cast<ssize_t>(content.size());
  return close(descriptor) == 0 && whole;
}

bool depends_on_file_alone(const ProbeAnswer& answer) {
  for (const ProbeStep& step : answer.steps) {
    if (step.outcome == Outcome::kRefused && !step.only_of_the_file) return false;
  }
  return answer.finished;
}

}  // namespace

std::optional<ProbeAnswer> remembered_answer(const OpenFile& file, const LoadPolicy& policy) {
  const std::filesystem::path folder = folder_of(policy);
  if (folder.empty()) return std::nullopt;
  const auto content = read_own_file(entry_of(folder, file));
  if (!content || content->size() < 17) return std::nullopt;
  std::string_view rest = std::string_view(*content).substr(17);
  if (content->substr(0, 17) != fmt::format("{:016x}\n", hash(rest))) return std::nullopt;
  const std::string identity = identity_of(file);
  if (!rest.starts_with(identity)) return std::nullopt;
  rest.remove_prefix(identity.size());
  ProbeAnswer answer;
  while (!rest.empty()) {
    const std::size_t end = rest.find('\n');
    if (end == std::string_view::npos || !take_line(rest.substr(0, end), answer)) return std::nullopt;
    rest.remove_prefix(end + 1);
  }
  if (!answer.finished) return std::nullopt;
  return answer;
}

void remember_answer(const OpenFile& file, const LoadPolicy& policy, const ProbeAnswer& answer) {
  const std::filesystem::path folder = folder_of(policy);
  if (folder.empty() || !depends_on_file_alone(answer)) return;
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  std::string content = identity_of(file);
  for (const ProbeStep& step : answer.steps) content += step_line(step) + "\n";
  if (answer.facts) content += facts_line(*answer.facts) + "\n";
  content += finished_line() + "\n";
  content.insert(0, fmt::format("{:016x}\n", hash(content)));
  // A name of its own, then a rename: readers see the old entry or the new one, never half of one.
  static std::atomic<unsigned> counter{0};
  const std::filesystem::path entry = entry_of(folder, file);
  const std::filesystem::path fresh = fmt::format("{}.{}.{}", entry.string(), getpid(), counter++);
  if (write_file(fresh, content)) std::filesystem::rename(fresh, entry, error);
  std::filesystem::remove(fresh, error);
}

}  // namespace crucible::backend
