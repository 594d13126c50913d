// Finding the functions of each kind: see memory_kind.hpp.
#include "backends/opencl/memory_kind.hpp"

#include <string>

#include "backends/opencl/device.hpp"
#include "plugins/sdk/error.hpp"

namespace crucible_opencl {

using namespace crucible;

namespace {

constexpr const char* kUnifiedMemory = "cl_intel_unified_shared_memory";

template <class Function>
void find(const Functions& cl, const DeviceFacts& facts, const char* name, Function& function, std::string& missing) {
  function = reinterpret_cast<Function>(cl.clGetExtensionFunctionAddressForPlatform(facts.platform, name));
  if (function == nullptr) missing += std::string(missing.empty() ? "" : ", ") + name;
}

/// Why not, or "".
std::string find_usm(const Functions& cl, const DeviceFacts& facts, DeviceMemory& memory) {
  if (!facts.has(kUnifiedMemory)) return std::string("the driver has no ") + kUnifiedMemory;
  cl_bitfield can = 0;
  cl.clGetDeviceInfo(facts.device, CL_DEVICE_DEVICE_MEM_CAPABILITIES_INTEL, sizeof(can), &can, nullptr);
  if ((can & CL_UNIFIED_SHARED_MEMORY_ACCESS_INTEL) == 0 || cl.clSetKernelExecInfo == nullptr)
    return "the device has no unified memory of its own";
  std::string missing;
  find(cl, facts, "clDeviceMemAllocINTEL", memory.alloc, missing);
  find(cl, facts, "clMemFreeINTEL", memory.free, missing);
  find(cl, facts, "clSetKernelArgMemPointerINTEL", memory.set_pointer, missing);
  find(cl, facts, "clEnqueueMemFillINTEL", memory.fill, missing);
  find(cl, facts, "clEnqueueMemcpyINTEL", memory.copy, missing);
  return missing.empty() ? "" : "the driver lacks " + missing;
}

std::string find_svm(const Functions& cl, const DeviceFacts& facts) {
  if ((facts.shared_memory & CL_DEVICE_SVM_COARSE_GRAIN_BUFFER) == 0) return "the device has no shared virtual memory";
  std::string missing;
#define CRUCIBLE_OPENCL_MISSING(name) \
  if (cl.name == nullptr) missing += std::string(missing.empty() ? "" : ", ") + #name;
  CRUCIBLE_OPENCL_OPTIONAL_FUNCTIONS(CRUCIBLE_OPENCL_MISSING)
#undef CRUCIBLE_OPENCL_MISSING
  return missing.empty() ? "" : "the library lacks " + missing;
}

}  // namespace

std::string_view name(MemoryKind kind) {
  switch (kind) {
    case MemoryKind::kBuffers:
      return "buffers";
    case MemoryKind::kUsm:
      return "usm";
    case MemoryKind::kSvm:
      return "svm";
  }
  return "";
}

DeviceMemory choose_memory(const Functions& cl, const DeviceFacts& facts, std::string_view option) {
  DeviceMemory memory;
  // Measured (README): a launch takes a processor's driver longer with pointers than with buffers.
  if (option == "buffers" || (option == "auto" && facts.is_processor())) return memory;
  const std::string why_not = option == "svm" ? find_svm(cl, facts) : find_usm(cl, facts, memory);
  if (why_not.empty()) {
    memory.kind = option == "svm" ? MemoryKind::kSvm : MemoryKind::kUsm;
    return memory;
  }
  if (option == "auto") return {};
  throw sdk::Failure(CRUCIBLE_E_UNAVAILABLE,
                     "memory = " + std::string(option) + " cannot be had on " + facts.id + " (" + facts.name + ", " +
                         facts.platform_name + "): " + why_not + "; set memory to auto",
                     {{"where", "memory"}});
}

Allocation::~Allocation() {
  if (pointer_ == nullptr) return;
  if (of_.kind == MemoryKind::kUsm) {
    of_.free(context_, pointer_);
  } else {
    cl_.clSVMFree(context_, pointer_);
  }
}

}  // namespace crucible_opencl
