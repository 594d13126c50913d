// What the functions of a device table have in common: finding a device by its name, giving one back, waiting for its
// queues, a score.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "plugins/sdk/error.hpp"
#include "plugins/sdk/mathematics.hpp"
#include "plugins/sdk/queue_table.hpp"
#include "plugins/sdk/text.hpp"
#include "plugins/sdk/watchdog.hpp"

namespace crucible::sdk {

/// Of the devices that there are, whose facts have an `id` and a `name`; "" is the first. Errors: UNAVAILABLE naming
/// them all.
template <class Facts>
Facts find_device(std::vector<Facts> all, crucible_str device_id) {
  std::string known;
  for (Facts& facts : all) {
    if (view(device_id).empty() || view(device_id) == facts.id) return std::move(facts);
    known += (known.empty() ? "" : ", ") + facts.id + " (" + facts.name + ")";
  }
  throw Failure(CRUCIBLE_E_UNAVAILABLE, "there is no device '" + to_string(device_id) + "', only " + known);
}

/// device.close of a device that derives from QueueOwner; where it has a `watchdog` that suspects it, it is abandoned.
template <class Device>
crucible_status close_device(Device* device) {
  return guard([&] {
    require(device != nullptr, "device.close: no device");
    device->ledger.report_leaks("device");
    if constexpr (requires { device->watchdog; }) {
      if (device->watchdog.is_suspect()) return abandon(device);
    }
    delete device;
  });
}

/// device.wait_idle of a device that derives from QueueOwner.
template <class Device>
crucible_status wait_for_device(Device* device, std::uint64_t timeout_ns) {
  return guard([&] {
    require(device != nullptr, "device.wait_idle: no device");
    if (device->wait_for_queues(timeout_ns)) return;
    throw Failure(CRUCIBLE_E_CANCELLED,
                  "device.wait_idle: a queue had work after " + std::to_string(timeout_ns) + " ns");
  });
}

/// The number of a score's workload that is called so; 0 where the host does not tell it.
inline std::uint64_t workload_number(const crucible_kv* workload, std::uint32_t count, std::string_view key) {
  for (std::uint32_t i = 0; i < count; ++i) {
    if (view(workload[i].key) == key) return workload[i].u;
  }
  return 0;
}

struct Score {
  std::uint64_t points = 0;  // GFLOP/s times 1000
  std::string reason;
};

/// Of a device whose units do `lanes` multiply-adds a cycle each; `units_name` is what its vendor calls them. Facts are
/// GraphFacts and the like.
template <class Facts>
Score score_of_peak(const Facts& facts, std::uint64_t lanes, const std::string& units_name, std::uint64_t peak_bytes) {
  if (peak_bytes > facts.memory_bytes) {
    return {0, "the program needs " + std::to_string(peak_bytes) + " bytes, the device has " +
                   std::to_string(facts.memory_bytes)};
  }
  const std::uint64_t megahertz = std::max<std::uint64_t>(facts.kilohertz / 1000, 1);
  return {facts.units * lanes * 2 * megahertz,
          std::to_string(facts.units) + " " + units_name + " at " + std::to_string(megahertz) + " MHz"};
}

/// Of a device that gives less than the workload needs in one buffer.
inline Score score_of_too_little(std::uint64_t peak_bytes, std::uint64_t largest_bytes) {
  return {0, "the program needs " + std::to_string(peak_bytes) + " bytes, the device gives at most " +
                 std::to_string(largest_bytes) + " in one piece"};
}

/// Of a device whose units do `per_cycle` operations a cycle each.
inline Score score_of_cycles(std::uint64_t units, const std::string& units_name, std::uint64_t megahertz,
                             std::uint64_t per_cycle) {
  const std::uint64_t clock = std::max<std::uint64_t>(megahertz, 1);
  return {units * clock * per_cycle, std::to_string(units) + " " + units_name + " at " + std::to_string(clock) +
                                         " MHz, " + std::to_string(per_cycle) + " operations a cycle"};
}

/// device.score: `ask` gives a Score of the peak bytes that the workload needs.
template <class Ask>
crucible_status tell_score(const crucible_kv* workload, std::uint32_t count, std::uint64_t* out, crucible_kv_sink why,
                           void* user, const Ask& ask) {
  return guard([&] {
    require(out != nullptr && (workload != nullptr || count == 0),
            "device.score: no place for the score or no workload");
    const Score score = ask(workload_number(workload, count, "peak_bytes"));
    if (why != nullptr) report(why, user, {text_item("reason", score.reason)});
    *out = score.points;
  });
}

/// What is known of a device before it is opened.
struct DeviceFacts {
  std::string id, name, kind;
  std::uint64_t threads = 1, memory_bytes = 0;
  bool emulated = false;
};

/// A device table of a device that derives from QueueOwner. `Own` has `Device` and static functions:
///   std::vector<DeviceFacts> find()                                           in a fixed order; opens nothing
///   std::unique_ptr<Device> open(const DeviceFacts&)
///   void properties(const Device&, crucible_kv_sink, void* user)
///   void capabilities(const DeviceFacts&, crucible_kv_sink, void* user)
template <class Own>
struct DeviceFunctions {
  using Device = typename Own::Device;

  static crucible_status enumerate(crucible_kv_sink sink, void* user) {
    return guard([&] {
      require(sink != nullptr, "device.enumerate: no function to report to");
      for (const DeviceFacts& facts : Own::find()) {
        report(sink, user,
               {text_item("id", facts.id), text_item("name", facts.name), text_item("kind", facts.kind),
                number_item("threads", facts.threads), number_item("memory_bytes", facts.memory_bytes),
                number_item("emulated", facts.emulated ? 1 : 0)});
      }
    });
  }

  static crucible_status open(crucible_str id, Device** out) {
    return guard([&] {
      require(out != nullptr, "device.open: no place for the device");
      *out = Own::open(find_device(Own::find(), id)).release();
    });
  }

  static crucible_status properties(Device* device, crucible_kv_sink sink, void* user) {
    return guard([&] {
      require(device != nullptr && sink != nullptr, "device.properties: no device or no function to report to");
      report(sink, user, {math_item()});
      Own::properties(*device, sink, user);
    });
  }

  static crucible_status capabilities(crucible_str id, crucible_kv_sink sink, void* user) {
    return guard([&] {
      require(sink != nullptr, "device.capabilities: no function to report to");
      Own::capabilities(find_device(Own::find(), id), sink, user);
    });
  }
};

template <class Own>
constexpr crucible_if_device make_device_table() {
  using Functions = DeviceFunctions<Own>;
  return {.struct_size = sizeof(crucible_if_device),
          .if_minor = CRUCIBLE_ABI_MINOR,
          .enumerate = Functions::enumerate,
          .open = Functions::open,
          .close = close_device,
          .properties = Functions::properties,
          .capabilities = Functions::capabilities,
          .score = nullptr,
          .wait_idle = wait_for_device,
          .self_test = nullptr};
}

}  // namespace crucible::sdk
