// Asking the runtime for its devices: see device.hpp.
#include "backends/amd/device.hpp"
#include "plugins/sdk/device_table.hpp"
#include "plugins/sdk/error.hpp"

namespace crucible_amd {

using namespace crucible;

namespace {

int attribute(const Hip& hip, int device, int which) {
  int value = 0;
  return hip.hipDeviceGetAttribute(&value, which, device) == hipSuccess ? value : 0;
}

std::uint64_t at_least_one(int value) { return value > 0 ? static_cast<std::uint64_t>(value) : 1; }

DeviceFacts facts_of(const Hip& hip, int index) {
  DeviceFacts facts;
  facts.id = "amd:" + std::to_string(index);
  facts.device = index;
  char name[256] = {}, pci[64] = {};
  if (hip.hipDeviceGetName(name, sizeof(name) - 1, index) == hipSuccess) facts.name = name;
  if (hip.hipDeviceGetPCIBusId(pci, sizeof(pci) - 1, index) == hipSuccess) facts.pci = pci;
  facts.compute_mode = attribute(hip, index, hipDeviceAttributeComputeMode);
  facts.units = at_least_one(attribute(hip, index, hipDeviceAttributeMultiprocessorCount));
  facts.wave = at_least_one(attribute(hip, index, hipDeviceAttributeWarpSize));
  facts.kilohertz = at_least_one(attribute(hip, index, hipDeviceAttributeClockRate));
  std::size_t bytes = 0;
  if (hip.hipDeviceTotalMem(&bytes, index) == hipSuccess) facts.memory_bytes = bytes;
  return facts;
}

}  // namespace

std::vector<DeviceFacts> list_devices(const Hip& hip) {
  int count = 0;
  const hipError_t code = hip.hipGetDeviceCount(&count);
  if (code != hipErrorNoDevice) check(hip, code, "hipGetDeviceCount");
  if (count == 0) {
    throw sdk::Failure(CRUCIBLE_E_UNAVAILABLE,
                       "the HIP runtime (" + hip.file +
                           ") shows no device: there is none, or HIP_VISIBLE_DEVICES or ROCR_VISIBLE_DEVICES hides it");
  }
  std::vector<DeviceFacts> all;
  for (int i = 0; i < count; ++i) all.push_back(facts_of(hip, i));
  return all;
}

DeviceFacts find_device(const Hip& hip, crucible_str device_id) {
  return sdk::find_device(list_devices(hip), device_id);
}

}  // namespace crucible_amd
