// The three kinds of memory that OpenCL has, behind one set of commands: buffers (all versions), unified shared memory
// (cl_intel_unified_shared_memory) and shared virtual memory (2.0). Of the last two, addresses are pointers that
// kernels take as they are; the host never follows one, so coarse-grained shared memory will do and nothing is mapped.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>

#include "backends/opencl/opencl.hpp"

namespace crucible_opencl {

struct DeviceFacts;

enum class MemoryKind : std::uint8_t { kBuffers, kUsm, kSvm };
std::string_view name(MemoryKind kind);

struct DeviceMemory {
  MemoryKind kind = MemoryKind::kBuffers;
  // kUsm
  clDeviceMemAllocINTEL_fn alloc = nullptr;
  clMemFreeINTEL_fn free = nullptr;
  clSetKernelArgMemPointerINTEL_fn set_pointer = nullptr;
  clEnqueueMemFillINTEL_fn fill = nullptr;
  clEnqueueMemcpyINTEL_fn copy = nullptr;
};

/// As the option says: auto, buffers, usm or svm. Threads: any. Errors: UNAVAILABLE when the device has not what was
/// asked for.
DeviceMemory choose_memory(const Functions& cl, const DeviceFacts& facts, std::string_view option);

/// Memory on a device, given back at the end.
class Allocation {
 public:
  Allocation(const Functions& cl, Memory memory) : cl_(cl), memory_(std::move(memory)) {}
  Allocation(const Functions& cl, const DeviceMemory& of, cl_context context, void* pointer)
      : cl_(cl), of_(of), context_(context), pointer_(pointer) {}
  Allocation(const Allocation&) = delete;
  Allocation& operator=(const Allocation&) = delete;
  ~Allocation();
  cl_mem memory() const { return memory_.get(); }  // kBuffers
  char* pointer() const { return static_cast<char*>(pointer_); }
  std::uint64_t address() const { return reinterpret_cast<std::uint64_t>(pointer_); }  // kBuffers: 0

 private:
  const Functions& cl_;
  Memory memory_;
  DeviceMemory of_;
  cl_context context_ = nullptr;
  void* pointer_ = nullptr;
};

}  // namespace crucible_opencl
