// Reading /sys and /proc: see host_health.hpp. Paths are those of the kernel's Documentation/ABI.
#include "backends/cpu/host_health.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <functional>
#include <string_view>

namespace crucible_cpu {
namespace {

namespace fs = std::filesystem;
using crucible::sdk::HealthReport;

std::optional<std::uint64_t> read_number(const fs::path& path) {
  std::ifstream file(path);
  std::uint64_t number = 0;
  if (!(file >> number)) return std::nullopt;
  return number;
}

std::string read_word(const fs::path& path) {
  std::ifstream file(path);
  std::string word;
  file >> word;
  return word;
}

/// Each entry of a folder whose name begins so, and goes on with digits; nothing where there is no such folder.
void for_each(const fs::path& folder, std::string_view prefix, const std::function<void(const fs::path&)>& visit) {
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    const bool is_one = name.starts_with(prefix) && name.size() > prefix.size() &&
                        name.find_first_not_of("0123456789", prefix.size()) == std::string::npos;
    if (is_one) visit(entry->path());
  }
}

void keep_largest(std::optional<std::uint64_t>& largest, std::optional<std::uint64_t> value) {
  if (value && (!largest || *value > *largest)) largest = value;
}

struct Temperatures {
  std::optional<std::uint64_t> hottest, slowdown;  // thousandths of a degree
};

/// The processors' own sensors (coretemp, k10temp and their kin); their tempN_crit is where they slow down.
Temperatures sensors(const fs::path& root) {
  Temperatures found;
  for_each(root / "sys/class/hwmon", "hwmon", [&](const fs::path& chip) {
    const std::string name = read_word(chip / "name");
    if (name != "coretemp" && name != "k10temp" && name != "zenpower" && name != "cpu_thermal") return;
    constexpr int kMost = 256;
    for (int i = 1; i <= kMost; ++i) {
      const std::string sensor = "temp" + std::to_string(i);
      keep_largest(found.hottest, read_number(chip / (sensor + "_input")));
      const auto critical = read_number(chip / (sensor + "_crit"));
      if (critical && (!found.slowdown || *critical < *found.slowdown)) found.slowdown = critical;
    }
  });
  if (found.hottest) return found;
  for_each(root / "sys/class/thermal", "thermal_zone",
           [&](const fs::path& zone) { keep_largest(found.hottest, read_number(zone / "temp")); });
  return found;
}

void read_temperatures(const fs::path& root, HealthReport& report) {
  const Temperatures found = sensors(root);
  if (found.hottest) {
    report.number("temperature_celsius", *found.hottest / 1000);
  } else {
    report.absent("temperature_celsius", "this machine shows no sensor in /sys/class/hwmon or /sys/class/thermal");
  }
  if (found.slowdown) report.number("temperature_slowdown_celsius", *found.slowdown / 1000);
}

void read_processors(const fs::path& root, HealthReport& report) {
  std::optional<std::uint64_t> now, most, cores, packages;
  for_each(root / "sys/devices/system/cpu", "cpu", [&](const fs::path& cpu) {
    keep_largest(now, read_number(cpu / "cpufreq/scaling_cur_freq"));
    keep_largest(most, read_number(cpu / "cpufreq/cpuinfo_max_freq"));
    if (const auto events = read_number(cpu / "thermal_throttle/core_throttle_count"))
      cores = cores.value_or(0) + *events;
    keep_largest(
        packages,
        read_number(cpu / "thermal_throttle/package_throttle_count"));  // all processors of a package tell the same
  });
  if (now) {
    report.number("clock_hz", *now * 1000);
  } else {
    report.absent("clock_hz", "this machine shows no cpufreq in /sys/devices/system/cpu");
  }
  if (most) report.number("clock_max_hz", *most * 1000);
  if (cores || packages) {
    report.number("throttle_events", cores.value_or(0) + packages.value_or(0));
  } else {
    report.absent("throttle_events", "this machine counts none in /sys/devices/system/cpu/cpu*/thermal_throttle");
  }
}

/// RAPL's packages: intel-rapl:N, on AMD's processors too. Their parts (intel-rapl:N:M) are contained in them.
void read_energy(const fs::path& root, EnergyMeter& meter, std::uint64_t now_ns, HealthReport& report) {
  bool is_there = false, is_read = false;
  int refusal = 0;
  for_each(root / "sys/class/powercap", "intel-rapl:", [&](const fs::path& zone) {
    if (!read_word(zone / "name").starts_with("package")) return;
    is_there = true;
    errno = 0;
    const auto reading = read_number(zone / "energy_uj");
    if (!reading) {
      refusal = errno;
      return;
    }
    is_read = true;
    meter.read(zone.filename().string(), *reading, read_number(zone / "max_energy_range_uj").value_or(0));
  });
  if (!is_there) return report.absent("energy_microjoule", "this machine shows no RAPL package in /sys/class/powercap");
  if (!is_read) {
    const bool is_denied = refusal == EACCES || refusal == EPERM;
    return report.absent(
        "energy_microjoule",
        is_denied ? "/sys/class/powercap/*/energy_uj is not permitted: ask as root, or have the administrator allow it"
                  : "/sys/class/powercap/*/energy_uj cannot be read: " + std::string(std::strerror(refusal)));
  }
  report.number("energy_microjoule", meter.microjoules());
  if (const auto milliwatt = meter.milliwatt(now_ns)) {
    report.number("power_milliwatt", *milliwatt);
  } else {
    report.absent("power_milliwatt", "it is the energy between two samples: known from the second on");
  }
}

/// What programs could not get: caches that the kernel gives back are not in use.
void read_memory(const fs::path& root, HealthReport& report) {
  std::ifstream file(root / "proc/meminfo");
  std::optional<std::uint64_t> total, available;
  std::string key, unit;
  for (std::uint64_t kib = 0; file >> key >> kib; std::getline(file, unit)) {
    if (key == "MemTotal:") total = kib << 10;
    if (key == "MemAvailable:") available = kib << 10;
  }
  if (!total || !available) return report.absent("memory_used_bytes", "/proc/meminfo does not tell it");
  report.number("memory_used_bytes", *total - std::min(*available, *total));
  report.number("memory_total_bytes", *total);
}

void read_memory_errors(const fs::path& root, HealthReport& report) {
  std::optional<std::uint64_t> corrected, uncorrected;
  for_each(root / "sys/devices/system/edac/mc", "mc", [&](const fs::path& controller) {
    if (const auto count = read_number(controller / "ce_count")) corrected = corrected.value_or(0) + *count;
    if (const auto count = read_number(controller / "ue_count")) uncorrected = uncorrected.value_or(0) + *count;
  });
  if (!corrected && !uncorrected)
    return report.absent("ecc_errors", "this machine shows no memory controller in /sys/devices/system/edac");
  report.number("ecc_errors", uncorrected.value_or(0));
  report.number("ecc_corrected", corrected.value_or(0));
}

}  // namespace

void EnergyMeter::read(const std::string& zone, std::uint64_t reading, std::uint64_t range) {
  const auto [entry, is_new] = zones_.try_emplace(zone);
  if (!is_new && reading < entry->second.last) entry->second.turned += range;
  entry->second.last = reading;
}

std::uint64_t EnergyMeter::microjoules() const {
  std::uint64_t sum = 0;
  for (const auto& [name, zone] : zones_) sum += zone.turned + zone.last;
  return sum;
}

std::optional<std::uint64_t> EnergyMeter::milliwatt(std::uint64_t now_ns) {
  const std::uint64_t now = microjoules();
  std::optional<std::uint64_t> power;
  // Microjoules in a nanosecond are kilowatts.
  if (last_ns_ && now_ns > *last_ns_ && now >= *last_microjoules_)
    power = static_cast<std::uint64_t>(static_cast<double>(now - *last_microjoules_) * 1e6 /
                                       static_cast<double>(now_ns - *last_ns_));
  last_ns_ = now_ns;
  last_microjoules_ = now;
  return power;
}

HealthReport read_host_health(const fs::path& root, EnergyMeter& meter, std::uint64_t now_ns) {
  HealthReport report;
  read_temperatures(root, report);
  read_processors(root, report);
  read_energy(root, meter, now_ns, report);
  read_memory(root, report);
  read_memory_errors(root, report);
  return report;
}

}  // namespace crucible_cpu
