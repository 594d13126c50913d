// A device's counters, by the plugin's profile table: which there are, and counting with some of them.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "plugins/loader/backend.hpp"

namespace crucible::backend {

struct Counter {
  std::string name, what;  // what it counts, in words
};

struct CounterValue {
  std::string name;
  std::uint64_t value = 0;
};

/// None is no error: `why_none` says why then.
struct KnownCounters {
  std::vector<Counter> counters;
  std::string why_none;
};
/// Opens nothing. An error of the plugin's is a reason, for nothing else needs counters.
KnownCounters known_counters(const Backend& backend, const std::string& device_id);

/// Counting that goes on until it is destroyed. Keeps its device.
class Counting {
 public:
  /// Errors: the plugin's: want of rights, a counter that there is not, too many at once.
  static Result<Counting> begin(std::shared_ptr<Device> device, std::span<const std::string> names);
  Counting(Counting&& other) noexcept = default;
  Counting& operator=(Counting&& other) = delete;
  ~Counting();
  /// Each counter since the begin.
  Result<std::vector<CounterValue>> read();

 private:
  explicit Counting(std::shared_ptr<Device> device) : device_(std::move(device)) {}
  std::shared_ptr<Device> device_;  // shared: as everything that is made of a device; null when moved from
};

}  // namespace crucible::backend
