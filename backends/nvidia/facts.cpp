// Asking the driver for its devices: see device.hpp.
#include <cstdio>

#include "backends/nvidia/device.hpp"
#include "plugins/sdk/device_table.hpp"
#include "plugins/sdk/error.hpp"

namespace crucible_nvidia {

using namespace crucible;

namespace {

int attribute(const Cuda& cuda, CUdevice device, int which) {
  int value = 0;
  return cuda.cuDeviceGetAttribute(&value, which, device) == CUDA_SUCCESS ? value : 0;
}

/// As nvidia-smi writes it, and as NVML takes it.
std::string uuid_of(const Cuda& cuda, CUdevice device) {
  CUuuid uuid = {};
  if (cuda.cuDeviceGetUuid(&uuid, device) != CUDA_SUCCESS) return "";
  std::string text = "GPU-";
  for (int i = 0; i < 16; ++i) {
    char digits[3];
    std::snprintf(digits, sizeof(digits), "%02x", uuid.bytes[i]);
    text += i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "";
    text += digits;
  }
  return text;
}

DeviceFacts facts_of(const Cuda& cuda, int index) {
  DeviceFacts facts;
  facts.id = "nvidia:" + std::to_string(index);
  check(cuda, cuda.cuDeviceGet(&facts.device, index), "cuDeviceGet " + std::to_string(index));
  char text[256] = {};
  if (cuda.cuDeviceGetName(text, sizeof(text) - 1, facts.device) == CUDA_SUCCESS) facts.name = text;
  char pci[64] = {};
  if (cuda.cuDeviceGetPCIBusId(pci, sizeof(pci) - 1, facts.device) == CUDA_SUCCESS) facts.pci = pci;
  facts.uuid = uuid_of(cuda, facts.device);
  facts.capability = 10 * attribute(cuda, facts.device, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR) +
                     attribute(cuda, facts.device, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
  facts.compute_mode = attribute(cuda, facts.device, CU_DEVICE_ATTRIBUTE_COMPUTE_MODE);
  facts.has_ecc = attribute(cuda, facts.device, CU_DEVICE_ATTRIBUTE_ECC_ENABLED) != 0;
  const int most_pitch = attribute(cuda, facts.device, CU_DEVICE_ATTRIBUTE_MAX_PITCH);
  facts.most_pitch = most_pitch > 0 ? static_cast<std::uint64_t>(most_pitch) : std::uint64_t{1} << 30;
  const int multiprocessors = attribute(cuda, facts.device, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
  facts.units = multiprocessors > 0 ? static_cast<std::uint64_t>(multiprocessors) : 1;
  const int kilohertz = attribute(cuda, facts.device, CU_DEVICE_ATTRIBUTE_CLOCK_RATE);
  facts.kilohertz = kilohertz > 0 ? static_cast<std::uint64_t>(kilohertz) : 0;
  std::size_t bytes = 0;
  if (cuda.cuDeviceTotalMem(&bytes, facts.device) == CUDA_SUCCESS) facts.memory_bytes = bytes;
  return facts;
}

}  // namespace

std::vector<DeviceFacts> list_devices(const Cuda& cuda) {
  int count = 0;
  check(cuda, cuda.cuDeviceGetCount(&count), "cuDeviceGetCount");
  if (count == 0) {
    throw sdk::Failure(
        CRUCIBLE_E_UNAVAILABLE,
        "the NVIDIA driver (" + cuda.file + ") shows no device: there is none, or CUDA_VISIBLE_DEVICES hides it");
  }
  std::vector<DeviceFacts> all;
  for (int i = 0; i < count; ++i) all.push_back(facts_of(cuda, i));
  return all;
}

DeviceFacts find_device(const Cuda& cuda, crucible_str device_id) {
  return sdk::find_device(list_devices(cuda), device_id);
}

}  // namespace crucible_nvidia
