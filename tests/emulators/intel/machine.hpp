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

#include "backends/intel/level_zero_types.hpp"
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

using crucible_intel::ze::Result;

/// kDeviceLost from the moment when a fault or a failed launch lost the device.
Result present_state();
/// What a fired rule does besides failing: waits, loses the device.
void act(const Rule& rule);
std::uint64_t now_ns();
/// Waits until all are signalled or the device is lost. event.cpp
void wait_for(const std::vector<crucible_intel::ze::Event>& events);
/// event.cpp
void signal(crucible_intel::ze::Event event, std::uint64_t start_ns);

/// What a device has launched.
struct DoneWork {
  std::atomic<std::uint64_t> work_items = 0, launches = 0;
};
/// list.cpp
DoneWork& done_work(crucible_intel::ze::Device device);

/// What a kernel takes, as its SPIR-V says.
struct KernelParameter {
  bool is_pointer = false;
  std::uint32_t size = 8;
};

}  // namespace crucible::emulator

namespace crucible_intel::ze {

struct DriverObject {};
struct DeviceObject {
  unsigned number = 0;
};
struct ContextObject {};
struct EventPoolObject {
  std::uint32_t count = 0;
};
/// Signalled when `end` is not 0.
struct EventObject {
  std::atomic<std::uint64_t> start = 0, end = 0;
};
struct BuildLogObject {
  std::string text;
};
struct ModuleObject {
  cl_program program = nullptr;
  std::string spirv;
  std::map<std::string, std::vector<crucible::emulator::KernelParameter>> kernels;
};
struct KernelObject {
  std::string name;
  cl_kernel kernel = nullptr;
  std::vector<crucible::emulator::KernelParameter> parameters;
  std::vector<std::optional<std::uint64_t>> arguments;
  std::uint32_t group[3] = {1, 1, 1};
};
/// A launch with the arguments that its kernel had when it was appended, or was given since.
struct Launch {
  KernelObject kernel;
  GroupCount groups;
};
/// What a queue runs; it may outlive the list.
struct Commands {
  std::vector<std::function<void()>> all;
  std::atomic<int> running = 0;
};
enum class ListState { kOpen, kClosed, kChanged };  // changed: to be closed again before it is executed
struct ListObject {
  std::shared_ptr<Commands> commands = std::make_shared<Commands>();
  ListState state = ListState::kOpen;
  bool is_immediate = false, is_mutable = false;
  Device device = nullptr;
  std::map<std::uint64_t, std::shared_ptr<Launch>> launches;  // by their numbers; null: handed out, not appended yet
  std::uint64_t next_id = 0;                                  // handed out for the command that comes next
};
struct QueueObject {
  crucible::emulator::Stream stream;
};

}  // namespace crucible_intel::ze
