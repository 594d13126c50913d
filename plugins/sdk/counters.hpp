// Counters of a device, which counts one set of them at a time: what the functions of the profile table check, keep and
// say. What there is to count, and how, is the plugin's.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "plugins/sdk/error.hpp"
#include "plugins/sdk/text.hpp"

namespace crucible::sdk {

struct Counter {
  std::string name, what;  // what it counts, in words
};

/// Counting that goes on until it is destroyed.
class Counting {
 public:
  Counting() = default;
  Counting(const Counting&) = delete;
  Counting& operator=(const Counting&) = delete;
  virtual ~Counting() = default;
  /// What has been counted since it began or was read last, in the order of the names.
  virtual std::vector<std::uint64_t> read() = 0;
};

/// What a device counts now. Threads: any.
class Counters {
 public:
  using Start = std::function<std::unique_ptr<Counting>(const std::vector<std::string>& names)>;

  /// No counter at all is nothing to start. Errors: UNSUPPORTED naming the first that is not among `known`, and why a
  /// device has none; INVALID_ARGUMENT when some are counted already; those of `start`.
  void begin(std::span<const crucible_str> names, const std::vector<Counter>& known, const std::string& why_none,
             const Start& start);
  /// Each counter with its value since begin(). Errors: INVALID_ARGUMENT when nothing was begun; those of Counting.
  void read(crucible_kv_sink sink, void* user);
  /// Errors: INVALID_ARGUMENT when nothing was begun.
  void end();
  bool is_counting() const;

 private:
  mutable std::mutex mutex_;
  bool is_begun_ = false;
  std::vector<std::string> names_;
  std::vector<std::uint64_t> totals_;
  std::unique_ptr<Counting> counting_;  // null: of no counter
};

struct ClockReading {
  std::uint64_t ticks = 0, ticks_per_second = 0;
};

/// `clock` reads the device's clock; `find` gives the facts of a device by its id; `known` its counters, or none and
/// why; `start` starts counting on an open device, whose member `counters` is a Counters.
template <class Device, class Facts, ClockReading (*clock)(Device&), Facts (*find)(crucible_str),
          std::vector<Counter> (*known)(const Facts&, std::string& why_none),
          std::unique_ptr<Counting> (*start)(Device&, const std::vector<std::string>&)>
struct ProfileFunctions {
  static crucible_status clock_pair(Device* device, std::uint64_t* out_device_ticks, std::uint64_t* out_host_ns,
                                    std::uint64_t* out_ticks_per_second) {
    return guard([&] {
      require(
          device != nullptr && out_device_ticks != nullptr && out_host_ns != nullptr && out_ticks_per_second != nullptr,
          "profile.clock_pair: an argument is missing");
      const ClockReading reading = clock(*device);
      *out_host_ns = static_cast<std::uint64_t>(
          std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
              .count());
      *out_device_ticks = reading.ticks;
      *out_ticks_per_second = reading.ticks_per_second;
    });
  }

  static crucible_status counters(crucible_str device_id, crucible_kv_sink sink, void* user) {
    return guard([&] {
      require(sink != nullptr, "profile.counters: no function to report to");
      std::string why_none;
      for (const Counter& counter : known(find(device_id), why_none))
        report(sink, user, {text_item(counter.name, counter.what)});
    });
  }

  static crucible_status begin(Device* device, const crucible_str* names, std::uint32_t count) {
    return guard([&] {
      require(device != nullptr && (names != nullptr || count == 0), "profile.begin: no device or no names");
      std::string why_none;
      const std::vector<Counter> all = known(device->facts, why_none);
      device->counters.begin({names, count}, all, why_none,
                             [&](const std::vector<std::string>& wanted) { return start(*device, wanted); });
    });
  }

  static crucible_status read(Device* device, crucible_kv_sink sink, void* user) {
    return guard([&] {
      require(device != nullptr && sink != nullptr, "profile.read: no device or no function to report to");
      device->counters.read(sink, user);
    });
  }

  static crucible_status end(Device* device) {
    return guard([&] {
      require(device != nullptr, "profile.end: no device");
      device->counters.end();
    });
  }
};

template <class Functions>
constexpr crucible_if_profile make_profile_table() {
  return {sizeof(crucible_if_profile), CRUCIBLE_ABI_MINOR, Functions::clock_pair, Functions::counters,
          Functions::begin,            Functions::read,    Functions::end};
}

}  // namespace crucible::sdk
