// Several devices: which may use each other's memory in kernels, and copies between them, which need no leave.
#include <algorithm>
#include <cstring>

#include "tests/emulators/nvidia/driver.hpp"

namespace crucible::emulators::nvidia {
namespace {

/// Whether kernels of a device may use memory of an address. What is no memory of the driver's is not judged here: it
/// faults by itself.
bool may_reach(const DeviceRecord& from, CUdeviceptr address) {
  const unsigned own = from.device.index();
  if (const auto found = driver().memory->check(address, 1))
    return found->device == own || (from.context.reached.load() >> found->device & 1) != 0;
  const std::lock_guard lock(driver().mutex);
  const auto& ranges = driver().ranges;
  const auto after = ranges.upper_bound(address);
  if (after == ranges.begin()) return true;
  const auto& [begin, range] = *std::prev(after);
  if (address - begin >= range.size) return true;
  if (range.kind == Range::Kind::kMapped) return (range.reached_by >> own & 1) != 0;
  return range.kind != Range::Kind::kModule || range.device == own ||
         (from.context.reached.load() >> range.device & 1) != 0;
}

/// The record of the context's device; null when it is no context, or the current one's own device.
const DeviceRecord* other_device(CUcontext current, CUcontext context) {
  for (const auto& record : driver().devices) {
    if (&record->context == context && context != current) return record.get();
  }
  return nullptr;
}

/// Both sides have to be memory of the devices that are named: a copy that names the wrong one is a mistake that a real
/// driver may not see.
CUresult check_sides(CUdeviceptr to, CUcontext to_context, CUdeviceptr from, CUcontext from_context) {
  for (const auto& [address, context] : {std::pair(to, to_context), std::pair(from, from_context)}) {
    if (std::ranges::none_of(driver().devices, [&](const auto& record) { return &record->context == context; }))
      return CUDA_ERROR_INVALID_CONTEXT;
    const auto found = driver().memory->check(address, 1);
    if (found && found->device != context->device->index()) return CUDA_ERROR_INVALID_VALUE;
  }
  return CUDA_SUCCESS;
}

}  // namespace

std::vector<char> reachable_arguments(const emulator::Device& device, const ptx::Kernel& kernel,
                                      std::vector<char> arguments) {
  if (driver().devices.size() < 2) return arguments;
  const auto record = std::ranges::find_if(driver().devices, [&](const auto& one) { return &one->device == &device; });
  for (const ptx::Parameter& parameter : kernel.parameters) {
    for (std::uint64_t at = parameter.offset; at + 8 <= parameter.offset + parameter.size; at += 8) {
      CUdeviceptr word = 0;
      std::memcpy(&word, arguments.data() + at, sizeof word);
      if (!emulator::is_device_address(word) || may_reach(**record, word)) continue;
      word |= emulator::kUnreachable;
      std::memcpy(arguments.data() + at, &word, sizeof word);
    }
  }
  return arguments;
}

}  // namespace crucible::emulators::nvidia

using namespace crucible::emulators::nvidia;

CUresult cuDeviceCanAccessPeer(int* can, CUdevice device, CUdevice peer) {
  if (const CUresult code = ready()) return code;
  if (record_of(device) == nullptr || record_of(peer) == nullptr) return CUDA_ERROR_INVALID_DEVICE;
  if (can == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *can = device != peer ? 1 : 0;
  return CUDA_SUCCESS;
}

CUresult cuDeviceGetP2PAttribute(int* value, CUdevice_P2PAttribute attribute, CUdevice from, CUdevice to) {
  if (const CUresult code = ready()) return code;
  if (record_of(from) == nullptr || record_of(to) == nullptr || from == to) return CUDA_ERROR_INVALID_DEVICE;
  if (value == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *value = attribute == CU_DEVICE_P2P_ATTRIBUTE_ACCESS_SUPPORTED ||
                   attribute == CU_DEVICE_P2P_ATTRIBUTE_NATIVE_ATOMIC_SUPPORTED
               ? 1
               : 0;
  return CUDA_SUCCESS;
}

CUresult cuCtxEnablePeerAccess(CUcontext peer, unsigned flags) {
  CUcontext context = nullptr;
  if (const CUresult code = ready(&context)) return code;
  if (flags != 0) return CUDA_ERROR_INVALID_VALUE;
  const DeviceRecord* const other = other_device(context, peer);
  if (other == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  const std::uint32_t bit = 1u << other->device.index();
  return (context->reached.fetch_or(bit) & bit) != 0 ? CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED : CUDA_SUCCESS;
}

CUresult cuCtxDisablePeerAccess(CUcontext peer) {
  CUcontext context = nullptr;
  if (const CUresult code = ready(&context)) return code;
  const DeviceRecord* const other = other_device(context, peer);
  if (other == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  context->device->synchronize();  // kernels that use it end first
  const std::uint32_t bit = 1u << other->device.index();
  return (context->reached.fetch_and(~bit) & bit) != 0 ? CUDA_SUCCESS : CUDA_ERROR_PEER_ACCESS_NOT_ENABLED;
}

CUresult cuMemcpyPeer(CUdeviceptr to, CUcontext to_context, CUdeviceptr from, CUcontext from_context,
                      std::size_t size) {
  if (const CUresult code = ready()) return code;
  if (const CUresult code = check_sides(to, to_context, from, from_context)) return code;
  return cuMemcpyDtoD(to, from, size);
}

CUresult cuMemcpyPeerAsync(CUdeviceptr to, CUcontext to_context, CUdeviceptr from, CUcontext from_context,
                           std::size_t size, CUstream stream) {
  if (const CUresult code = ready()) return code;
  if (const CUresult code = check_sides(to, to_context, from, from_context)) return code;
  return cuMemcpyDtoDAsync(to, from, size, stream);
}
