// The schema of device profiles, and what is asked of one.
#include "core/hardware/device_profile.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

namespace crucible::hardware {
namespace {

constexpr std::array<std::string_view, 4> kLevels = {"l1", "l2", "llc", "dram"};

constexpr auto kKeys = std::to_array<FigureKey>({
    {"memory.size", Quantity::kBytes, true, "memory of one device as a program sees it, nominal"},
    {"memory.reserved", Quantity::kBytes, false, "what driver, context and libraries take of it"},
    {"level.l1.size", Quantity::kBytes, false, "first level caches of the whole device together"},
    {"level.l1.bandwidth", Quantity::kBytesPerSecond, false, "of all of them together, reads and writes"},
    {"level.l2.size", Quantity::kBytes, false, "second level"},
    {"level.l2.bandwidth", Quantity::kBytesPerSecond, false, "of it"},
    {"level.llc.size", Quantity::kBytes, false, "last level cache before the memory, where it is not the second"},
    {"level.llc.bandwidth", Quantity::kBytesPerSecond, false, "of it"},
    {"level.dram.bandwidth", Quantity::kBytesPerSecond, true, "of the memory"},
    {"peak.vector.f64", Quantity::kFlopsPerSecond, false, "vector units, a multiply-add counts two"},
    {"peak.vector.f32", Quantity::kFlopsPerSecond, true, ""},
    {"peak.vector.f16", Quantity::kFlopsPerSecond, false, ""},
    {"peak.vector.bf16", Quantity::kFlopsPerSecond, false, ""},
    {"peak.matrix.f64", Quantity::kFlopsPerSecond, false,
     "matrix units, dense; of a calibration: a large product by the library"},
    {"peak.matrix.f32", Quantity::kFlopsPerSecond, false, ""},
    {"peak.matrix.tf32", Quantity::kFlopsPerSecond, false, ""},
    {"peak.matrix.f16", Quantity::kFlopsPerSecond, false, "accumulated in f32"},
    {"peak.matrix.bf16", Quantity::kFlopsPerSecond, false, ""},
    {"peak.matrix.fp8", Quantity::kFlopsPerSecond, false, ""},
    {"peak.matrix.int8", Quantity::kFlopsPerSecond, false, "integer operations"},
    {"units.count", Quantity::kCount, false, "streaming multiprocessors, compute units, Xe cores, cores"},
    {"units.clock", Quantity::kHertz, false, "at which the peaks are counted"},
    {"units.registers", Quantity::kBytes, false, "of one unit"},
    {"units.shared_memory", Quantity::kBytes, false, "that one unit has for its work-groups"},
    {"sub_group.smallest", Quantity::kCount, false, "lanes; sizes are the powers of two between the two"},
    {"sub_group.largest", Quantity::kCount, false, ""},
    {"limits.work_group_size", Quantity::kCount, false, "work items"},
    {"limits.work_group_shared_memory", Quantity::kBytes, false, "that one work-group may ask for"},
    {"limits.grid", Quantity::kCount, false, "work-groups along the first axis"},
    {"cost.launch", Quantity::kSeconds, true, "one launch inside a plan"},
    {"cost.barrier", Quantity::kSeconds, false, "between two launches that depend on each other, beyond the launch"},
    {"health.warn_celsius", Quantity::kCount, false,
     "degrees from which crucible health warns; not there: by what the device tells"},
    {"health.sick_celsius", Quantity::kCount, false, "degrees from which it calls the device sick"},
    {"health.warn_corrected_errors", Quantity::kCount, false,
     "corrected errors of the memory since the driver started"},
    {"health.warn_retired_pages", Quantity::kCount, false, ""},
    {"health.sick_retired_pages", Quantity::kCount, false, ""},
    {"health.warn_memory_percent", Quantity::kCount, false, "of the memory in use"},
    {"host_link.bandwidth", Quantity::kBytesPerSecond, false,
     "to the host, one direction; not there where the memory is the host's"},
});

std::uint64_t whole(double value) {
  return value <= 0 ? 0 : static_cast<std::uint64_t>(std::min(std::round(value), 1.8e19));
}

struct Prefix {
  std::string_view text;
  double factor;
};

/// The largest prefix that leaves at least 1, of `prefixes` from large to small.
std::string with_prefix(double value, std::span<const Prefix> prefixes, std::string_view unit) {
  const auto found = std::ranges::find_if(prefixes, [&](const Prefix& prefix) { return value >= prefix.factor; });
  const Prefix& prefix = found == prefixes.end() ? prefixes.back() : *found;
  const double scaled = value / prefix.factor;
  return fmt::format("{} {}{}", scaled >= 1e5 ? fmt::format("{:.0f}", scaled) : fmt::format("{:.6g}", scaled),
                     prefix.text, unit);
}

constexpr Prefix kBinary[] = {{"Ti", 0x1p40}, {"Gi", 0x1p30}, {"Mi", 0x1p20}, {"Ki", 0x1p10}, {"", 1}};
constexpr Prefix kDecimal[] = {{"P", 1e15}, {"T", 1e12}, {"G", 1e9}, {"M", 1e6}, {"K", 1e3}, {"", 1}};
constexpr Prefix kGigaDown[] = {{"G", 1e9}, {"M", 1e6}, {"K", 1e3}, {"", 1}};
constexpr Prefix kSmall[] = {{"", 1}, {"m", 1e-3}, {"u", 1e-6}, {"n", 1e-9}};

}  // namespace

std::string_view name(Provenance provenance) {
  switch (provenance) {
    case Provenance::kDatasheet:
      return "datasheet";
    case Provenance::kCalibrated:
      return "calibrated";
    case Provenance::kGuessed:
      return "guessed";
  }
  return "";
}

std::string_view words(Quantity quantity) {
  switch (quantity) {
    case Quantity::kBytes:
      return "a size (B, KiB, MiB, GiB, TiB, KB, MB, GB, TB)";
    case Quantity::kBytesPerSecond:
      return "a bandwidth (MB/s, GB/s, TB/s)";
    case Quantity::kFlopsPerSecond:
      return "a rate of operations (MFLOP/s, GFLOP/s, TFLOP/s, PFLOP/s)";
    case Quantity::kSeconds:
      return "a time (ns, us, ms, s)";
    case Quantity::kHertz:
      return "a frequency (MHz, GHz)";
    case Quantity::kCount:
      return "a whole number without unit";
  }
  return "";
}

std::span<const FigureKey> figure_keys() { return kKeys; }

const FigureKey* find_figure_key(std::string_view name) {
  const auto found = std::ranges::find(kKeys, name, &FigureKey::name);
  return found == kKeys.end() ? nullptr : &*found;
}

std::span<const std::string_view> level_names() { return kLevels; }

std::string format_figure(Quantity quantity, double value) {
  switch (quantity) {
    case Quantity::kBytes: {
      // Sizes that are no round number of KiB are written as they are: nothing is lost by writing and reading.
      const bool is_round = std::fmod(value, 1024) == 0;
      return is_round ? with_prefix(value, kBinary, "B") : fmt::format("{:.0f} B", value);
    }
    case Quantity::kBytesPerSecond:
      return with_prefix(value, kGigaDown, "B/s");
    case Quantity::kFlopsPerSecond:
      return with_prefix(value, kDecimal, "FLOP/s");
    case Quantity::kSeconds:
      return with_prefix(value, kSmall, "s");
    case Quantity::kHertz:
      return with_prefix(value, kGigaDown, "Hz");
    case Quantity::kCount:
      return fmt::format("{:.0f}", value);
  }
  return "";
}

const Figure* DeviceProfile::find(std::string_view key) const {
  const auto found = figures.find(key);
  return found == figures.end() ? nullptr : &found->second;
}

double DeviceProfile::value(std::string_view key) const {
  const Figure* figure = find(key);
  return figure == nullptr ? 0 : figure->value;
}

std::uint64_t DeviceProfile::memory_bytes() const { return whole(value("memory.size")); }
std::uint64_t DeviceProfile::reserved_bytes() const { return whole(value("memory.reserved")); }
std::uint64_t DeviceProfile::usable_bytes() const {
  return memory_bytes() > reserved_bytes() ? memory_bytes() - reserved_bytes() : 0;
}
std::uint64_t DeviceProfile::memory_bytes_per_second() const { return whole(value("level.dram.bandwidth")); }
std::uint64_t DeviceProfile::f32_flops_per_second() const { return whole(value("peak.vector.f32")); }
std::uint64_t DeviceProfile::host_link_bytes_per_second() const { return whole(value("host_link.bandwidth")); }

std::vector<std::string> check(const DeviceProfile& profile) {
  std::vector<std::string> problems;
  for (const FigureKey& key : kKeys) {
    if (key.is_required && profile.find(key.name) == nullptr) {
      problems.push_back(
          fmt::format("{} is missing: {}", key.name, key.meaning.empty() ? words(key.quantity) : key.meaning));
    }
  }
  if (profile.memory_bytes() > 0 && profile.usable_bytes() == 0) {
    problems.push_back(fmt::format("memory.reserved keeps back {} of {} bytes: nothing is left",
                                   profile.reserved_bytes(), profile.memory_bytes()));
  }
  double bandwidth = 0;
  std::string_view nearer;
  for (const std::string_view level : kLevels) {
    const double own_bandwidth = profile.value(fmt::format("level.{}.bandwidth", level));
    if (own_bandwidth > 0 && bandwidth > 0 && own_bandwidth > bandwidth) {
      problems.push_back(
          fmt::format("level.{}.bandwidth is larger than level.{}.bandwidth, which is nearer", level, nearer));
    }
    if (own_bandwidth > 0) bandwidth = own_bandwidth, nearer = level;
  }
  if (profile.value("sub_group.smallest") > profile.value("sub_group.largest")) {
    problems.push_back("sub_group.smallest is larger than sub_group.largest");
  }
  if (profile.find("health.sick_celsius") != nullptr &&
      profile.value("health.warn_celsius") > profile.value("health.sick_celsius")) {
    problems.push_back("health.warn_celsius is larger than health.sick_celsius");
  }
  return problems;
}

const DeviceProfile* find_profile(std::span<const DeviceProfile> profiles, std::string_view name) {
  const auto found = std::ranges::find(profiles, name, &DeviceProfile::name);
  return found == profiles.end() ? nullptr : &*found;
}

const DeviceProfile* find_for_device(std::span<const DeviceProfile> profiles, std::string_view backend,
                                     std::string_view device, std::uint32_t threads) {
  const DeviceProfile* best = nullptr;
  const auto is_of_device = [&](const DeviceProfile& profile) {
    return std::ranges::find(profile.devices, device) != profile.devices.end();
  };
  for (const DeviceProfile& profile : profiles) {
    const bool same_threads = threads == 0 || profile.threads == 0 || profile.threads == threads;
    if (!profile.is_calibrated() || profile.backend != backend || !same_threads || !is_of_device(profile)) continue;
    if (best == nullptr || profile.date > best->date) best = &profile;
  }
  if (best != nullptr) return best;
  const auto named = std::ranges::find_if(profiles, [&](const DeviceProfile& profile) {
    return !profile.is_calibrated() && is_of_device(profile);
  });
  return named == profiles.end() ? nullptr : &*named;
}

}  // namespace crucible::hardware
