// The emulated machine behind the Level Zero functions of this folder: its devices are Intel's OpenCL driver for
// processors, which takes SPIR-V as a device of Intel's does. It is found by CRUCIBLE_INTEL_OPENCL. Memory, faults,
// settings and streams are those of tests/emulators/core.
#pragma once

#define CL_TARGET_OPENCL_VERSION 300
#include <CL/cl.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "backends/intel/vendor_headers.hpp"
#include "tests/emulators/core/faults.hpp"
#include "tests/emulators/core/memory.hpp"
#include "tests/emulators/core/settings.hpp"
#include "tests/emulators/core/stream.hpp"

namespace crucible::emulator {

#define CRUCIBLE_EMULATOR_CL_FUNCTIONS(X)                                                                        \
  X(clGetPlatformIDs)                                                                                            \
  X(clGetDeviceIDs)                                                                                              \
  X(clCreateContext) X(clCreateCommandQueueWithProperties) X(clCreateProgramWithIL) X(clCreateProgramWithBinary) \
      X(clGetProgramInfo) X(clBuildProgram) X(clGetProgramBuildInfo) X(clReleaseProgram) X(clCreateKernel)       \
          X(clReleaseKernel) X(clSetKernelArg) X(clSetKernelArgSVMPointer) X(clEnqueueNDRangeKernel) X(clFinish)

/// One per process; made by zeInit.
struct Machine {
#define CRUCIBLE_EMULATOR_CL_MEMBER(name) decltype(&::name) name = nullptr;
  CRUCIBLE_EMULATOR_CL_FUNCTIONS(CRUCIBLE_EMULATOR_CL_MEMBER)
#undef CRUCIBLE_EMULATOR_CL_MEMBER
  cl_device_id device = nullptr;
  cl_context context = nullptr;
  cl_command_queue queue = nullptr;
  std::mutex mutex;  // of the OpenCL objects above
  std::unique_ptr<Memory> memory;
  std::atomic<bool> is_lost = false;
};

/// Null when there is no driver: the log says why.
Machine* machine();

/// Lost from the moment when a fault or a failed launch lost the device.
ze_result_t present_state();
/// What a fired rule does besides failing: waits, loses the device.
void act(const Rule& rule);
std::uint64_t now_ns();
/// Waits until all are signalled or the device is lost. event.cpp
void wait_for(const std::vector<ze_event_handle_t>& events);
/// event.cpp
void signal(ze_event_handle_t event, std::uint64_t start_ns);

/// What a device has launched.
struct DoneWork {
  std::atomic<std::uint64_t> work_items = 0, launches = 0;
};
/// list.cpp
DoneWork& done_work(ze_device_handle_t device);

/// What a kernel takes, as its SPIR-V says.
struct KernelParameter {
  bool is_pointer = false;
  std::uint32_t size = 8;
};

}  // namespace crucible::emulator

// What the handles of the interface point to.
struct _ze_driver_handle_t {};
struct _ze_device_handle_t {
  unsigned number = 0;
};
struct _ze_context_handle_t {};
struct _ze_event_pool_handle_t {
  std::uint32_t count = 0;
};
/// Signalled when `end` is not 0.
struct _ze_event_handle_t {
  std::atomic<std::uint64_t> start = 0, end = 0;
};
struct _ze_module_build_log_handle_t {
  std::string text;
};
struct _ze_module_handle_t {
  cl_program program = nullptr;
  std::string spirv;
  std::map<std::string, std::vector<crucible::emulator::KernelParameter>> kernels;
};
struct _ze_kernel_handle_t {
  std::string name;
  cl_kernel kernel = nullptr;
  std::vector<crucible::emulator::KernelParameter> parameters;
  std::vector<std::optional<std::uint64_t>> arguments;
  std::uint32_t group[3] = {1, 1, 1};
};

namespace crucible::emulator {

/// A launch with the arguments that its kernel had when it was appended, or was given since.
struct Launch {
  _ze_kernel_handle_t kernel;
  ze_group_count_t groups;
};
/// What a queue runs; it may outlive the list.
struct Commands {
  std::vector<std::function<void()>> all;
  std::atomic<int> running = 0;
};
enum class ListState { kOpen, kClosed, kChanged };  // changed: to be closed again before it is executed

}  // namespace crucible::emulator

struct _ze_command_list_handle_t {
  std::shared_ptr<crucible::emulator::Commands> commands = std::make_shared<crucible::emulator::Commands>();
  crucible::emulator::ListState state = crucible::emulator::ListState::kOpen;
  bool is_immediate = false, is_mutable = false;
  ze_device_handle_t device = nullptr;
  std::map<std::uint64_t, std::shared_ptr<crucible::emulator::Launch>>
      launches;               // by their numbers; null: handed out, not appended yet
  std::uint64_t next_id = 0;  // handed out for the command that comes next
};
struct _ze_command_queue_handle_t {
  crucible::emulator::Stream stream;
};
