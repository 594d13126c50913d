// The energy that the processor packages of this machine have used, where the kernel counts it (RAPL, below
// /sys/class/powercap). Everything that runs on the machine is in it: it says what a piece of work took only while
// nothing else runs.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace crucible::runtime {

class PackageEnergy {
 public:
  /// Opens every package's counter in `folder`. Never fails: where there is none, missing() says why and read() has no
  /// answer.
  static PackageEnergy open(const std::filesystem::path& folder = "/sys/class/powercap");

  /// Joules of all packages since open(), counters that began again at 0 included (they do after minutes: read more
  /// often than that). Nothing where a counter cannot be read. Threads: one at a time.
  std::optional<double> read();
  /// "" where energy is counted, else one sentence for the user.
  const std::string& missing() const { return missing_; }

 private:
  struct Counter {
    std::filesystem::path place;
    std::uint64_t range_uj = 0;  // the largest value before it begins again
    std::uint64_t last_uj = 0;
  };
  std::vector<Counter> counters_;
  std::uint64_t used_uj_ = 0;
  std::string missing_;
};

}  // namespace crucible::runtime
