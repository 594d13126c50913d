// Health table: what NVML measures of a device. Where there is no NVML, nothing is measured and that is said.
#include <vector>

#include "backends/nvidia/device.hpp"
#include "backends/nvidia/nvml.hpp"
#include "backends/nvidia/nvml_sample.hpp"
#include "backends/nvidia/tables.hpp"
#include "plugins/sdk/error.hpp"
#include "plugins/sdk/text.hpp"

namespace crucible_nvidia {
namespace {

using namespace crucible;

/// Null when the device is lost to NVML: `lost` is set then.
nvmlDevice_t find(const Nvml& nvml, const DeviceFacts& facts, bool& lost) {
  nvmlDevice_t device = nullptr;
  const auto found = [&](nvmlReturn_t code) {
    lost |= code == NVML_ERROR_GPU_IS_LOST;
    return code == NVML_SUCCESS;
  };
  if (nvml.nvmlDeviceGetHandleByUUID != nullptr && found(nvml.nvmlDeviceGetHandleByUUID(facts.uuid.c_str(), &device)))
    return device;
  if (nvml.nvmlDeviceGetHandleByPciBusId_v2 != nullptr &&
      found(nvml.nvmlDeviceGetHandleByPciBusId_v2(facts.pci.c_str(), &device)))
    return device;
  if (lost) return nullptr;
  throw sdk::Failure(CRUCIBLE_E_UNAVAILABLE, "NVML does not know " + facts.id + " (" + facts.uuid + ", " + facts.pci +
                                                 "): compare its release with the driver's");
}

NvmlSample take_sample(const Nvml& nvml, const DeviceFacts& facts) {
  bool is_lost = false;
  nvmlDevice_t const device = find(nvml, facts, is_lost);
  if (device != nullptr) return sample_nvml(nvml, device);
  NvmlSample sample;
  sample.is_lost = is_lost;
  return sample;
}

crucible_status sample(crucible_str device_id, crucible_kv_sink sink, void* user) {
  return sdk::guard([&] {
    sdk::require(sink != nullptr, "health.sample: no function to report to");
    const DeviceFacts facts = find_device(cuda(), device_id);
    const Nvml* const library = nvml();
    if (library == nullptr) return sdk::report(sink, user, {sdk::text_item("note", nvml_refusal())});
    take_sample(*library, facts).report.send(sink, user);
  });
}

struct Opinion {
  std::uint32_t state = CRUCIBLE_STATE_OK;
  std::string reason = "nothing to complain of";
};

Opinion opinion_on(const NvmlSample& sample) {
  const sdk::HealthReport& report = sample.report;
  if (sample.is_lost) return {CRUCIBLE_STATE_LOST, "the driver calls the device lost"};
  if (sample.needs_reset) return {CRUCIBLE_STATE_DEGRADED, "the driver wants the device to be reset"};
  if (const auto errors = report.number_of("ecc_errors"); errors != 0)
    return {CRUCIBLE_STATE_DEGRADED, std::to_string(errors) + " uncorrected errors of the memory"};
  if (report.number_of("repair_failed") != 0)
    return {CRUCIBLE_STATE_DEGRADED, "a row of the memory could not be replaced"};
  if (report.number_of("device_errors") != 0) return {CRUCIBLE_STATE_DEGRADED, report.text_of("driver_events")};
  if (const std::string slow = report.text_of("throttle_reason"); !slow.empty())
    return {CRUCIBLE_STATE_DEGRADED, "clocks are slow: " + slow};
  return {};
}

crucible_status state(crucible_str device_id, std::uint32_t* out, crucible_kv_sink why, void* user) {
  return sdk::guard([&] {
    sdk::require(out != nullptr, "health.state: no place for the answer");
    const DeviceFacts facts = find_device(cuda(), device_id);
    const Nvml* const library = nvml();
    const Opinion opinion = library != nullptr ? opinion_on(take_sample(*library, facts))
                                               : Opinion{CRUCIBLE_STATE_OK, "the driver answers; " + nvml_refusal()};
    if (why != nullptr) sdk::report(why, user, {sdk::text_item("reason", opinion.reason)});
    *out = opinion.state;
  });
}

}  // namespace

const crucible_if_health kHealthTable = {sizeof(crucible_if_health), CRUCIBLE_ABI_MINOR, sample, state};

}  // namespace crucible_nvidia
