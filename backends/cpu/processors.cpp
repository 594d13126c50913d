#include "backends/cpu/processors.hpp"

#include <sched.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <fstream>
#include <sstream>
#include <set>
#include <thread>
#include <vector>

namespace crucible_cpu {
namespace {

std::string first_line(const std::filesystem::path& file) {
  std::string line;
  std::ifstream in(file);
  std::getline(in, line);
  return line;
}

std::optional<double> number(const std::string& text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || !std::isfinite(value)) return std::nullopt;
  return value;
}

/// `quota` microseconds of each `period`; "max" and -1 are no limit.
std::optional<double> share(const std::string& quota, const std::string& period) {
  const auto part = number(quota), whole = number(period);
  if (!part || !whole || *part <= 0 || *whole <= 0) return std::nullopt;
  return *part / *whole;
}

std::optional<double> quota_of(const std::filesystem::path& folder) {
  std::istringstream both(first_line(folder / "cpu.max"));  // version 2: "50000 100000", "max 100000"
  std::string quota, period;
  if (both >> quota >> period) return share(quota, period);
  return share(first_line(folder / "cpu.cfs_quota_us"), first_line(folder / "cpu.cfs_period_us"));
}

/// The least of the group and those around it, up to the mount. A container may see a path that is not below its mount:
/// the mount counts then.
std::optional<double> least_quota(const std::filesystem::path& mount, const std::string& path) {
  std::optional<double> least;
  std::filesystem::path folder = (mount / std::filesystem::path(path).relative_path()).lexically_normal();
  const std::string top = mount.lexically_normal().string();
  if (!folder.string().starts_with(top)) folder = mount;
  for (;; folder = folder.parent_path()) {
    if (const auto found = quota_of(folder)) least = std::min(least.value_or(*found), *found);
    if (folder.string().size() <= top.size()) return least;
  }
}

bool has_cpu(const std::string& controllers) {
  std::istringstream list(controllers);
  for (std::string name; std::getline(list, name, ',');) {
    if (name == "cpu") return true;
  }
  return false;
}

std::vector<int> allowed_processors() {
  std::vector<int> result;
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof(set), &set) == 0) {
    for (int i = 0; i < CPU_SETSIZE; ++i) {
      if (CPU_ISSET(i, &set)) result.push_back(i);
    }
  }
  // More processors than the mask has room for, or a system that does not say.
  for (int i = 0; result.empty() && i < std::max(1, static_cast<int>(std::thread::hardware_concurrency())); ++i)
    result.push_back(i);
  return result;
}

}  // namespace

int Processors::usable() const {
  if (!quota) return std::max(1, allowed);
  return std::clamp(static_cast<int>(std::ceil(std::min(*quota, 1e6))), 1, std::max(1, allowed));
}

std::string Processors::in_words() const {
  std::string words = std::to_string(allowed) + (allowed == 1 ? " processor" : " processors") + " allowed";
  if (cores < allowed) words += ", " + std::to_string(cores) + (cores == 1 ? " core" : " cores");
  if (quota) {
    std::ostringstream text;
    text << *quota;
    words += ", a quota of " + text.str();
  }
  return words;
}

std::optional<double> find_quota(const std::filesystem::path& cgroup_file, const std::filesystem::path& mount) {
  std::optional<double> least;
  std::ifstream file(cgroup_file);
  for (std::string line; std::getline(file, line);) {  // "0::/path" of version 2, "4:cpu,cpuacct:/path" of version 1
    const std::size_t first = line.find(':'), second = first == std::string::npos ? first : line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1), path = line.substr(second + 1);
    std::vector<std::filesystem::path> mounts;
    if (controllers.empty()) mounts = {mount, mount / "unified"};
    if (has_cpu(controllers)) mounts = {mount / controllers, mount / "cpu"};
    for (const std::filesystem::path& top : mounts) {
      if (const auto found = least_quota(top, path)) least = std::min(least.value_or(*found), *found);
    }
  }
  return least;
}

Processors find_processors(const std::filesystem::path& root) {
  Processors result;
  const std::vector<int> allowed = allowed_processors();
  result.allowed = static_cast<int>(allowed.size());
  std::set<std::string> cores;
  for (const int index : allowed) {
    const std::string siblings =
        first_line(root / "sys/devices/system/cpu" / ("cpu" + std::to_string(index)) / "topology/thread_siblings_list");
    cores.insert(siblings.empty() ? std::to_string(index) : siblings);
  }
  result.cores = static_cast<int>(cores.size());
  result.quota = find_quota(root / "proc/self/cgroup", root / "sys/fs/cgroup");
  return result;
}

int count_running(const std::filesystem::path& loadavg) {
  std::istringstream line(first_line(loadavg));  // "0.20 0.18 0.12 1/80 11206"
  std::string word;
  for (int i = 0; i < 4; ++i) line >> word;
  int running = 0;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), running);
  return error == std::errc() && end != word.data() + word.size() && *end == '/' ? running : 0;
}

int usable_processors() {
  static const int usable = find_processors().usable();
  return usable;
}

}  // namespace crucible_cpu
