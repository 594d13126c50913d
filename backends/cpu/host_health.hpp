// What Linux says of the machine's processors and memory: /sys and /proc, read below a root, so that tests have trees
// of their own.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>

#include "plugins/sdk/health_report.hpp"

namespace crucible_cpu {

/// Turns counters that begin again at 0 (RAPL's, every few minutes to hours) into ones that only grow, as long as each
/// is read at least once per turn. Threads: one.
class EnergyMeter {
 public:
  /// The counter `zone` stands at `reading` of `range` microjoules.
  void read(const std::string& zone, std::uint64_t reading, std::uint64_t range);
  /// Of all zones together.
  std::uint64_t microjoules() const;
  /// Of all zones, since the last call with a later time; nothing at the first.
  std::optional<std::uint64_t> milliwatt(std::uint64_t now_ns);

 private:
  struct Zone {
    std::uint64_t last = 0, turned = 0;
  };
  std::map<std::string, Zone> zones_;
  std::optional<std::uint64_t> last_ns_, last_microjoules_;
};

/// Threads: one at a time per meter. Never fails: what is not there, or not permitted, is an absent value with its
/// reason.
crucible::sdk::HealthReport read_host_health(const std::filesystem::path& root, EnergyMeter& meter,
                                             std::uint64_t now_ns);

}  // namespace crucible_cpu
