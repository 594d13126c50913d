// Health table: what NVML measures of a device. Where there is no NVML, nothing is measured and that is said.
#include <vector>

#include "backends/nvidia/device.hpp"
#include "backends/nvidia/nvml.hpp"
#include "backends/nvidia/tables.hpp"
#include "plugins/sdk/error.hpp"
#include "plugins/sdk/text.hpp"

namespace crucible_nvidia {
namespace {

using namespace crucible;

// Reasons for slow clocks that somebody should look at; the others are power limits and idleness.
struct Reason {
  unsigned long long bit;
  const char* name;
};
constexpr Reason kReasons[] = {
    {0x8, "hardware slowdown"}, {0x20, "too hot (software)"}, {0x40, "too hot (hardware)"}, {0x80, "power brake"}};

nvmlDevice_t find(const Nvml& nvml, const DeviceFacts& facts) {
  nvmlDevice_t device = nullptr;
  if (nvml.nvmlDeviceGetHandleByUUID != nullptr &&
      nvml.nvmlDeviceGetHandleByUUID(facts.uuid.c_str(), &device) == NVML_SUCCESS)
    return device;
  if (nvml.nvmlDeviceGetHandleByPciBusId_v2 != nullptr &&
      nvml.nvmlDeviceGetHandleByPciBusId_v2(facts.pci.c_str(), &device) == NVML_SUCCESS)
    return device;
  throw sdk::Failure(CRUCIBLE_E_UNAVAILABLE, "NVML does not know " + facts.id + " (" + facts.uuid + ", " + facts.pci +
                                                 "): compare its release with the driver's");
}

std::string slow_because(const Nvml& nvml, nvmlDevice_t device) {
  unsigned long long bits = 0;
  std::string text;
  if (nvml.nvmlDeviceGetCurrentClocksThrottleReasons == nullptr ||
      nvml.nvmlDeviceGetCurrentClocksThrottleReasons(device, &bits) != NVML_SUCCESS)
    return "";
  for (const Reason& reason : kReasons) {
    if ((bits & reason.bit) != 0) text += (text.empty() ? "" : ", ") + std::string(reason.name);
  }
  return text;
}

/// Uncorrected errors of the memory since the driver started; nothing where the device does not count.
bool ecc_errors(const Nvml& nvml, nvmlDevice_t device, unsigned long long& errors) {
  return nvml.nvmlDeviceGetTotalEccErrors != nullptr &&
         nvml.nvmlDeviceGetTotalEccErrors(device, NVML_MEMORY_ERROR_TYPE_UNCORRECTED, NVML_VOLATILE_ECC, &errors) == NVML_SUCCESS;
}

crucible_status sample(crucible_str device_id, crucible_kv_sink sink, void* user) {
  return sdk::guard([&] {
    sdk::require(sink != nullptr, "health.sample: no function to report to");
    const DeviceFacts facts = find_device(cuda(), device_id);
    const Nvml* const library = nvml();
    if (library == nullptr) return sdk::report(sink, user, {sdk::text_item("note", nvml_refusal())});
    const Nvml& nvml = *library;
    nvmlDevice_t const device = find(nvml, facts);
    std::vector<crucible_kv> items;
    unsigned number = 0;
    unsigned long long errors = 0;
    nvmlMemory_t memory = {};
    if (nvml.nvmlDeviceGetTemperature != nullptr &&
        nvml.nvmlDeviceGetTemperature(device, NVML_TEMPERATURE_GPU, &number) == NVML_SUCCESS)
      items.push_back(sdk::number_item("temperature_celsius", number));
    if (nvml.nvmlDeviceGetPowerUsage != nullptr && nvml.nvmlDeviceGetPowerUsage(device, &number) == NVML_SUCCESS)
      items.push_back(sdk::number_item("power_milliwatt", number));
    if (nvml.nvmlDeviceGetClockInfo != nullptr && nvml.nvmlDeviceGetClockInfo(device, NVML_CLOCK_SM, &number) == NVML_SUCCESS)
      items.push_back(sdk::number_item("clock_hz", std::uint64_t{number} * 1'000'000));
    if (nvml.nvmlDeviceGetMemoryInfo != nullptr && nvml.nvmlDeviceGetMemoryInfo(device, &memory) == NVML_SUCCESS)
      items.push_back(sdk::number_item("memory_used_bytes", memory.used));
    if (ecc_errors(nvml, device, errors)) items.push_back(sdk::number_item("ecc_errors", errors));
    const std::string reason = slow_because(nvml, device);
    if (!reason.empty()) items.push_back(sdk::text_item("throttle_reason", reason));
    sink(user, items.data(), static_cast<std::uint32_t>(items.size()));
  });
}

crucible_status state(crucible_str device_id, std::uint32_t* out, crucible_kv_sink why, void* user) {
  return sdk::guard([&] {
    sdk::require(out != nullptr, "health.state: no place for the answer");
    const DeviceFacts facts = find_device(cuda(), device_id);
    std::uint32_t state = CRUCIBLE_STATE_OK;
    std::string reason = "nothing to complain of";
    if (const Nvml* const library = nvml()) {
      nvmlDevice_t const device = find(*library, facts);
      unsigned long long errors = 0;
      const std::string slow = slow_because(*library, device);
      if (ecc_errors(*library, device, errors) && errors != 0) reason = std::to_string(errors) + " uncorrected errors of the memory";
      else if (!slow.empty()) reason = "clocks are slow: " + slow;
      if (errors != 0 || !slow.empty()) state = CRUCIBLE_STATE_DEGRADED;
    } else {
      reason = "the driver answers; " + nvml_refusal();
    }
    if (why != nullptr) sdk::report(why, user, {sdk::text_item("reason", reason)});
    *out = state;
  });
}

}  // namespace

const crucible_if_health kHealthTable = {sizeof(crucible_if_health), CRUCIBLE_ABI_MINOR, sample, state};

}  // namespace crucible_nvidia
