// A layer of the OpenCL loader that lets calls fail as CRUCIBLE_EMU_FAULTS says (core/faults.hpp); all others go to the
// real driver. Real devices neither vanish nor hang on demand; this is how a plugin is tested for it. No emulator:
// nothing is computed here.
#include <CL/cl_layer.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <string>
#include <thread>

#include "tests/emulators/core/faults.hpp"

namespace {

using crucible::emulator::Action;
using crucible::emulator::faults;
using crucible::emulator::Rule;
using crucible::emulator::Site;
using Clock = std::chrono::steady_clock;

cl_icd_dispatch target, layer;
std::atomic<bool> is_lost = false;
std::atomic<std::int64_t> hung_until_ns = 0;  // of Clock; INT64_MAX: for ever

bool is_hung() { return Clock::now().time_since_epoch().count() < hung_until_ns; }

/// What the call answers instead; CL_SUCCESS: what the driver answers.
cl_int fault_at(Site site, std::string_view name = "") {
  if (is_lost) return CL_DEVICE_NOT_AVAILABLE;
  const std::optional<Rule> rule = faults().hit(site, name);
  if (!rule) return CL_SUCCESS;
  const auto wait = std::chrono::duration_cast<std::chrono::nanoseconds>(
      std::chrono::duration<double, std::milli>(rule->wait_ms.value_or(0)));
  switch (rule->action) {
    case Action::kLost:
      is_lost = true;
      return CL_DEVICE_NOT_AVAILABLE;
    case Action::kOom:
      return CL_MEM_OBJECT_ALLOCATION_FAILURE;
    case Action::kFail:
      return site == Site::kCompile ? CL_BUILD_PROGRAM_FAILURE : CL_OUT_OF_RESOURCES;
    case Action::kHang:
      hung_until_ns = rule->wait_ms ? (Clock::now() + wait).time_since_epoch().count() : INT64_MAX;
      return CL_SUCCESS;
    case Action::kSlow:
      std::this_thread::sleep_for(wait);
      return CL_SUCCESS;
    default:  // no such thing is here to go wrong
      return CL_SUCCESS;
  }
  return CL_SUCCESS;
}

bool is_hung_for_ever() { return hung_until_ns == INT64_MAX; }

/// The same for what gives a queue work. What the real driver was given before is over when the device is lost or
/// hangs: PoCL compiles a kernel when it is launched, on a thread of its own, and aborts when the process ends
/// meanwhile. Devices that are lost in earnest have no such thread.
cl_int fault_at_launch(cl_command_queue queue, std::string_view name) {
  const bool was_well = !is_lost && !is_hung();
  const cl_int code = fault_at(Site::kLaunch, name);
  if (was_well && (is_lost || is_hung_for_ever())) target.clFinish(queue);
  return code;
}

/// Of work that a device which hangs for ever does not do.
cl_int never_done(cl_command_queue queue, cl_event* event) {
  if (event == nullptr) return CL_SUCCESS;
  cl_context context = nullptr;
  cl_int code = target.clGetCommandQueueInfo(queue, CL_QUEUE_CONTEXT, sizeof(context), &context, nullptr);
  if (code == CL_SUCCESS) *event = target.clCreateUserEvent(context, &code);
  return code;
}

std::string name_of(cl_kernel kernel) {
  char name[256] = {};
  return target.clGetKernelInfo(kernel, CL_KERNEL_FUNCTION_NAME, sizeof(name) - 1, name, nullptr) == CL_SUCCESS ? name
                                                                                                                : "";
}

cl_int CL_API_CALL get_platforms(cl_uint count, cl_platform_id* platforms, cl_uint* found) {
  if (!is_lost && fault_at(Site::kInit, "clGetPlatformIDs") != CL_SUCCESS) return CL_PLATFORM_NOT_FOUND_KHR;
  return target.clGetPlatformIDs(count, platforms, found);
}

cl_context CL_API_CALL create_context(const cl_context_properties* properties, cl_uint count,
                                      const cl_device_id* devices,
                                      void(CL_CALLBACK* notify)(const char*, const void*, std::size_t, void*),
                                      void* user, cl_int* out_code) {
  if (fault_at(Site::kInit, "clCreateContext") == CL_SUCCESS)
    return target.clCreateContext(properties, count, devices, notify, user, out_code);
  if (out_code != nullptr) *out_code = CL_DEVICE_NOT_AVAILABLE;
  return nullptr;
}

cl_mem CL_API_CALL create_buffer(cl_context context, cl_mem_flags flags, std::size_t size, void* host,
                                 cl_int* out_code) {
  const cl_int code = fault_at(Site::kAlloc);
  if (code == CL_SUCCESS) return target.clCreateBuffer(context, flags, size, host, out_code);
  if (out_code != nullptr) *out_code = code;
  return nullptr;
}

cl_int CL_API_CALL write(cl_command_queue queue, cl_mem memory, cl_bool blocking, std::size_t offset, std::size_t size,
                         const void* data, cl_uint count, const cl_event* waits, cl_event* event) {
  if (const cl_int code = fault_at(Site::kCopy, "h2d")) return code;
  return target.clEnqueueWriteBuffer(queue, memory, blocking, offset, size, data, count, waits, event);
}

cl_int CL_API_CALL read(cl_command_queue queue, cl_mem memory, cl_bool blocking, std::size_t offset, std::size_t size,
                        void* data, cl_uint count, const cl_event* waits, cl_event* event) {
  if (const cl_int code = fault_at(Site::kCopy, "d2h")) return code;
  return target.clEnqueueReadBuffer(queue, memory, blocking, offset, size, data, count, waits, event);
}

cl_int CL_API_CALL copy(cl_command_queue queue, cl_mem from, cl_mem to, std::size_t from_offset, std::size_t to_offset,
                        std::size_t size, cl_uint count, const cl_event* waits, cl_event* event) {
  if (const cl_int code = fault_at(Site::kCopy, "d2d")) return code;
  return target.clEnqueueCopyBuffer(queue, from, to, from_offset, to_offset, size, count, waits, event);
}

cl_int CL_API_CALL build(cl_program program, cl_uint count, const cl_device_id* devices, const char* options,
                         void(CL_CALLBACK* notify)(cl_program, void*), void* user) {
  if (const cl_int code = fault_at(Site::kCompile)) return code;
  return target.clBuildProgram(program, count, devices, options, notify, user);
}

/// A driver that fails says why.
cl_int CL_API_CALL build_info(cl_program program, cl_device_id device, cl_program_build_info what, std::size_t size,
                              void* value, std::size_t* out_size) {
  static constexpr char kLog[] = "error: a fault was asked for";
  std::size_t real = 0;
  if (what != CL_PROGRAM_BUILD_LOG ||
      (target.clGetProgramBuildInfo(program, device, what, 0, nullptr, &real) == CL_SUCCESS && real > 1))
    return target.clGetProgramBuildInfo(program, device, what, size, value, out_size);
  if (out_size != nullptr) *out_size = sizeof(kLog);
  if (value != nullptr && size < sizeof(kLog)) return CL_INVALID_VALUE;
  if (value != nullptr) std::memcpy(value, kLog, sizeof(kLog));
  return CL_SUCCESS;
}

cl_int CL_API_CALL launch(cl_command_queue queue, cl_kernel kernel, cl_uint dimensions, const std::size_t* offset,
                          const std::size_t* global, const std::size_t* local, cl_uint count, const cl_event* waits,
                          cl_event* event) {
  if (const cl_int code = fault_at_launch(queue, name_of(kernel))) return code;
  if (is_hung_for_ever()) return never_done(queue, event);
  return target.clEnqueueNDRangeKernel(queue, kernel, dimensions, offset, global, local, count, waits, event);
}

cl_int CL_API_CALL finish(cl_command_queue queue) {
  if (const cl_int code = fault_at(Site::kSync)) return code;
  while (is_hung() && !is_lost) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  return target.clFinish(queue);
}

cl_int CL_API_CALL event_info(cl_event event, cl_event_info what, std::size_t size, void* value,
                              std::size_t* out_size) {
  if (what != CL_EVENT_COMMAND_EXECUTION_STATUS) return target.clGetEventInfo(event, what, size, value, out_size);
  if (const cl_int code = fault_at(Site::kSync)) return code;
  if (!is_hung() || value == nullptr || size < sizeof(cl_int))
    return target.clGetEventInfo(event, what, size, value, out_size);
  const cl_int submitted = CL_SUBMITTED;
  std::memcpy(value, &submitted, sizeof(submitted));
  if (out_size != nullptr) *out_size = sizeof(submitted);
  return CL_SUCCESS;
}

/// A device of another age.
cl_int CL_API_CALL device_info(cl_device_id device, cl_device_info what, std::size_t size, void* value,
                               std::size_t* out_size) {
  static constexpr char kOld[] = "OpenCL 1.1 as a fault asked for";
  if (what != CL_DEVICE_VERSION || !faults().hit(Site::kQuery, "clGetDeviceInfo"))
    return target.clGetDeviceInfo(device, what, size, value, out_size);
  if (out_size != nullptr) *out_size = sizeof(kOld);
  if (value != nullptr && size < sizeof(kOld)) return CL_INVALID_VALUE;
  if (value != nullptr) std::memcpy(value, kOld, sizeof(kOld));
  return CL_SUCCESS;
}

using EnqueueCommands = cl_int(CL_API_CALL*)(cl_uint, cl_command_queue*, void*, cl_uint, const cl_event*, cl_event*);
std::atomic<EnqueueCommands> real_commands = nullptr;

/// Of cl_khr_command_buffer, whose functions no dispatch table has.
cl_int CL_API_CALL enqueue_commands(cl_uint queue_count, cl_command_queue* queues, void* commands, cl_uint count,
                                    const cl_event* waits, cl_event* event) {
  if (const cl_int code = fault_at_launch(queues[0], "commands")) return code;
  if (is_hung_for_ever()) return never_done(queues[0], event);
  return real_commands.load()(queue_count, queues, commands, count, waits, event);
}

void* CL_API_CALL extension(cl_platform_id platform, const char* name) {
  void* const found = target.clGetExtensionFunctionAddressForPlatform(platform, name);
  if (found == nullptr || std::string_view(name) != "clEnqueueCommandBufferKHR") return found;
  real_commands = reinterpret_cast<EnqueueCommands>(found);
  return reinterpret_cast<void*>(&enqueue_commands);
}

}  // namespace

extern "C" {

__attribute__((visibility("default"))) CL_API_ENTRY cl_int CL_API_CALL clGetLayerInfo(cl_layer_info what,
                                                                                      std::size_t size, void* value,
                                                                                      std::size_t* out_size) {
  const cl_layer_api_version version = CL_LAYER_API_VERSION_100;
  static constexpr char kName[] = "crucible faults";
  const void* const from = what == CL_LAYER_API_VERSION ? static_cast<const void*>(&version) : kName;
  const std::size_t needed = what == CL_LAYER_API_VERSION ? sizeof(version) : sizeof(kName);
  if (what != CL_LAYER_API_VERSION && what != CL_LAYER_NAME) return CL_INVALID_VALUE;
  if (value != nullptr && size < needed) return CL_INVALID_VALUE;
  if (value != nullptr) std::memcpy(value, from, needed);
  if (out_size != nullptr) *out_size = needed;
  return CL_SUCCESS;
}

__attribute__((visibility("default"))) CL_API_ENTRY cl_int CL_API_CALL clInitLayer(cl_uint entries,
                                                                                   const cl_icd_dispatch* next,
                                                                                   cl_uint* out_entries,
                                                                                   const cl_icd_dispatch** out_layer) {
  if (next == nullptr || out_entries == nullptr || out_layer == nullptr || entries < sizeof(target) / sizeof(void*))
    return CL_INVALID_VALUE;
  target = *next;
  layer = *next;
  layer.clGetPlatformIDs = get_platforms;
  layer.clGetDeviceInfo = device_info;
  layer.clCreateContext = create_context;
  layer.clCreateBuffer = create_buffer;
  layer.clEnqueueWriteBuffer = write;
  layer.clEnqueueReadBuffer = read;
  layer.clEnqueueCopyBuffer = copy;
  layer.clBuildProgram = build;
  layer.clGetProgramBuildInfo = build_info;
  layer.clEnqueueNDRangeKernel = launch;
  layer.clFinish = finish;
  layer.clGetEventInfo = event_info;
  layer.clGetExtensionFunctionAddressForPlatform = extension;
  *out_entries = sizeof(layer) / sizeof(void*);
  *out_layer = &layer;
  return CL_SUCCESS;
}
}
