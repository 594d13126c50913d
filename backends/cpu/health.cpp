// Profile and health tables: the host's own clock, and what Linux says of the machine (host_health.hpp). No counters:
// they would need rights that a plugin should not ask for.
#include <chrono>
#include <mutex>
#include <string>

#include "backends/cpu/device.hpp"
#include "backends/cpu/host_health.hpp"
#include "backends/cpu/sdk.hpp"
#include "backends/cpu/tables.hpp"

namespace crucible_cpu {
namespace {

std::uint64_t now_ns() {
  return static_cast<std::uint64_t>(std::chrono::steady_clock::now().time_since_epoch().count());
}

crucible_status clock_pair(crucible_device* device, std::uint64_t* out_device_ticks, std::uint64_t* out_host_ns,
                           std::uint64_t* out_ticks_per_second) {
  return guard([&] {
    require(
        device != nullptr && out_device_ticks != nullptr && out_host_ns != nullptr && out_ticks_per_second != nullptr,
        "profile.clock_pair: an argument is missing");
    *out_device_ticks = *out_host_ns = now_ns();  // the device is the host
    *out_ticks_per_second = 1'000'000'000;
  });
}

crucible_status counters(crucible_str device_id, crucible_kv_sink sink, void* user) {
  return guard([&] {
    require(sink != nullptr, "profile.counters: no function to report to");
    (void)user;
    require_device(device_id);
  });
}

crucible_status begin(crucible_device* device, const crucible_str* names, std::uint32_t count) {
  return guard([&] {
    require(device != nullptr && (names != nullptr || count == 0), "profile.begin: no device or no names");
    if (count != 0)
      throw Failure(CRUCIBLE_E_UNSUPPORTED, "there is no counter '" + to_string(names[0]) + "': this device has none");
  });
}

crucible_status read(crucible_device* device, crucible_kv_sink sink, void*) {
  return guard(
      [&] { require(device != nullptr && sink != nullptr, "profile.read: no device or no function to report to"); });
}

crucible_status end(crucible_device* device) {
  return guard([&] { require(device != nullptr, "profile.end: no device"); });
}

crucible_status sample(crucible_str device_id, crucible_kv_sink sink, void* user) {
  return guard([&] {
    require(sink != nullptr, "health.sample: no function to report to");
    require_device(device_id);
    static std::mutex& mutex = *new std::mutex;
    static EnergyMeter& meter = *new EnergyMeter;  // of the machine, for as long as the process runs
    const std::lock_guard lock(mutex);
    read_host_health("/", meter, now_ns()).send(sink, user);
  });
}

crucible_status state(crucible_str device_id, std::uint32_t* out, crucible_kv_sink why, void* user) {
  return guard([&] {
    require(out != nullptr, "health.state: no place for the answer");
    require_device(device_id);
    const crucible_kv item = text_item("reason", "a processor that runs this code is well");
    if (why != nullptr) why(user, &item, 1);
    *out = CRUCIBLE_STATE_OK;
  });
}

}  // namespace

const crucible_if_profile kProfileTable = {
    sizeof(crucible_if_profile), CRUCIBLE_ABI_MINOR, clock_pair, counters, begin, read, end};
const crucible_if_health kHealthTable = {sizeof(crucible_if_health), CRUCIBLE_ABI_MINOR, sample, state};

}  // namespace crucible_cpu
