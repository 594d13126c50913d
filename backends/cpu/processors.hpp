// The processors that this process may use: its affinity mask, the quotas of the control groups around it, which of
// them share a core, and how many others want them now.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

namespace crucible_cpu {

struct Processors {
  int allowed = 1;               // by the affinity mask
  int cores = 1;                 // of those, that share no core with one before them
  std::optional<double> quota;   // processors' worth of time that the control groups allow
  /// How many threads can run at the same time for long: at least 1.
  int usable() const;
  /// "2 of 8 allowed, 2 cores, a quota of 1.5"
  std::string in_words() const;
};

/// As the system says now. `root` is "/" but in tests.
Processors find_processors(const std::filesystem::path& root = "/");

/// The least quota of the control groups that `cgroup_file` (/proc/self/cgroup) names and those around them, versions 1
/// and 2 below `mount`; nothing where there is none.
std::optional<double> find_quota(const std::filesystem::path& cgroup_file, const std::filesystem::path& mount);

/// Threads of the whole machine that run or want to, the caller among them, by `loadavg` (/proc/loadavg); 0 where it
/// does not say.
int count_running(const std::filesystem::path& loadavg = "/proc/loadavg");

/// What Processors::usable() says of this process, looked up once.
int usable_processors();

}  // namespace crucible_cpu
