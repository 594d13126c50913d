// Intel's OpenCL driver, and what faults do: see machine.hpp.
#include "tests/emulators/intel/machine.hpp"

#include <dlfcn.h>

#include <chrono>
#include <cstdlib>
#include <thread>

namespace crucible::emulator {
namespace {

std::unique_ptr<Machine> make() {
  if (settings().timing == Timing::kRoofline) {
    give_up(
        "CRUCIBLE_EMU_TIMING=roofline: kernels run inside Intel's own OpenCL driver, in which nothing can be counted; "
        "emulated NVIDIA "
        "devices have the model, for Intel's leave it off");
  }
  if (settings().races)
    give_up(
        "CRUCIBLE_EMU_RACES=on: kernels run inside Intel's own OpenCL driver, where accesses cannot be seen; leave it "
        "off for Intel's devices");
  const char* path = std::getenv("CRUCIBLE_INTEL_OPENCL");
  void* library = path == nullptr ? nullptr : dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    faults().note(path == nullptr ? "CRUCIBLE_INTEL_OPENCL is not set" : "CRUCIBLE_INTEL_OPENCL cannot be loaded");
    return nullptr;
  }
  auto made = std::make_unique<Machine>();
  bool is_whole = true;
#define CRUCIBLE_EMULATOR_CL_FIND(name)                                    \
  made->name = reinterpret_cast<decltype(&::name)>(dlsym(library, #name)); \
  is_whole = is_whole && made->name != nullptr;
  CRUCIBLE_EMULATOR_CL_FUNCTIONS(CRUCIBLE_EMULATOR_CL_FIND)
#undef CRUCIBLE_EMULATOR_CL_FIND
  cl_platform_id platform = nullptr;
  cl_int code = CL_SUCCESS;
  if (!is_whole || made->clGetPlatformIDs(1, &platform, nullptr) != CL_SUCCESS ||
      made->clGetDeviceIDs(platform, CL_DEVICE_TYPE_CPU, 1, &made->device, nullptr) != CL_SUCCESS) {
    faults().note("CRUCIBLE_INTEL_OPENCL is no OpenCL driver with a processor");
    return nullptr;
  }
  made->context = made->clCreateContext(nullptr, 1, &made->device, nullptr, nullptr, &code);
  if (code == CL_SUCCESS)
    made->queue = made->clCreateCommandQueueWithProperties(made->context, made->device, nullptr, &code);
  if (code != CL_SUCCESS) return nullptr;
  made->memory = std::make_unique<Memory>(static_cast<unsigned>(settings().devices), settings().memory_mib << 20,
                                          settings().guard_at_end);
  return made;
}

}  // namespace

Machine* machine() {
  static Machine* const made = make().release();  // as a driver's: until the process ends
  return made;
}

ze_result_t present_state() { return machine()->is_lost ? ZE_RESULT_ERROR_DEVICE_LOST : ZE_RESULT_SUCCESS; }

void act(const Rule& rule) {
  if (rule.wait_ms) std::this_thread::sleep_for(std::chrono::duration<double, std::milli>(*rule.wait_ms));
  while (rule.action == Action::kHang && !rule.wait_ms && !machine()->is_lost)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  if (rule.action == Action::kLost || rule.action == Action::kTrap) machine()->is_lost = true;
}

std::uint64_t now_ns() {
  return static_cast<std::uint64_t>(
      std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
          .count());
}

}  // namespace crucible::emulator
