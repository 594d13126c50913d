// Finding and calling the extensions' functions: see command_buffer.hpp.
#include "backends/opencl/command_buffer.hpp"

#include <utility>
#include <vector>

#include "backends/opencl/device.hpp"
#include "plugins/sdk/error.hpp"

namespace crucible_opencl {

using namespace crucible;

namespace {

constexpr const char *kExtension = "cl_khr_command_buffer", *kMutable = "cl_khr_command_buffer_mutable_dispatch";
constexpr cl_version kWithPointers = CL_MAKE_VERSION(0, 9, 4), kWithProperties = CL_MAKE_VERSION(0, 9, 5),
                     kWithArrays = CL_MAKE_VERSION(0, 9, 2);
constexpr cl_device_info kRequiredQueue = 0x12AA, kSupportedQueue = 0x129A, kMutableCapabilities = 0x12B0;
constexpr cl_ulong kFlags = 0x1293, kMutableFlag = 2;             // of a command buffer
constexpr cl_ulong kUpdatableFields = 0x12B1, kArguments = 8;     // of a launch

struct Argument {
  cl_uint index = 0;
  std::size_t size = 0;
  const void* value = nullptr;
};
/// Before 0.9.2 a type and a link stand before it.
struct LaunchChange {
  MutableCommand command = nullptr;
  cl_uint argument_count = 0, pointer_count = 0, info_count = 0, dimensions = 0;
  const Argument *arguments = nullptr, *pointers = nullptr;
  const void* infos = nullptr;
  const std::size_t *offset = nullptr, *global_size = nullptr, *local_size = nullptr;
};
struct ChainedChange {
  cl_uint type = 1;
  const void* next = nullptr;
  LaunchChange change;
};
struct ChainedChanges {
  cl_uint type = 0;
  const void* next = nullptr;
  cl_uint count = 0;
  const ChainedChange* changes = nullptr;
};

template <class Function>
void find(const Functions& cl, const DeviceFacts& facts, const char* name, Function& function, std::string& missing) {
  function = reinterpret_cast<Function>(cl.clGetExtensionFunctionAddressForPlatform(facts.platform, name));
  if (function == nullptr) missing += std::string(missing.empty() ? "" : ", ") + name;
}

/// Why the plugin's queue, in order and with profiling, cannot take command buffers, or "".
std::string queue_refusal(const Functions& cl, const DeviceFacts& facts) {
  cl_command_queue_properties required = 0, supported = CL_QUEUE_PROFILING_ENABLE;
  cl.clGetDeviceInfo(facts.device, kRequiredQueue, sizeof(required), &required, nullptr);
  cl.clGetDeviceInfo(facts.device, kSupportedQueue, sizeof(supported), &supported, nullptr);  // since 0.9.6
  if ((required & ~cl_command_queue_properties{CL_QUEUE_PROFILING_ENABLE}) != 0)
    return "the driver's command buffers need a queue without order";
  if ((supported & CL_QUEUE_PROFILING_ENABLE) == 0) return "the driver's command buffers take no queue with profiling";
  return "";
}

std::string find_changes(const Functions& cl, const DeviceFacts& facts, CommandBufferFunctions& functions) {
  if (!facts.has(kMutable)) return std::string("the driver has no ") + kMutable;
  functions.mutable_version = facts.version_of(cl, kMutable);
  cl_bitfield can = 0;
  cl.clGetDeviceInfo(facts.device, kMutableCapabilities, sizeof(can), &can, nullptr);
  if ((can & kArguments) == 0) return "the driver's command buffers do not change arguments";
  std::string missing;
  find(cl, facts, "clUpdateMutableCommandsKHR", functions.update, missing);
  return missing.empty() ? "" : "the driver lacks " + missing;
}

/// The parameter list of a recording function: with the version's list of properties behind the queue, or without.
template <class... Arguments>
cl_int record(void* function, bool has_properties, CommandBufferHandle handle, Arguments... arguments) {
  using Old = cl_int (*)(CommandBufferHandle, cl_command_queue, Arguments..., cl_uint, const cl_uint*, cl_uint*,
                         MutableCommand*);
  using New = cl_int (*)(CommandBufferHandle, cl_command_queue, const cl_ulong*, Arguments..., cl_uint, const cl_uint*,
                         cl_uint*, MutableCommand*);
  if (has_properties)
    return reinterpret_cast<New>(function)(handle, nullptr, nullptr, arguments..., 0, nullptr, nullptr, nullptr);
  return reinterpret_cast<Old>(function)(handle, nullptr, arguments..., 0, nullptr, nullptr, nullptr);
}

void need_pointers(const CommandBufferFunctions& functions, const void* function, const char* what) {
  if (function != nullptr) return;
  throw sdk::Failure(
      CRUCIBLE_E_UNSUPPORTED,
      std::string("the driver's command buffers (") + kExtension + " " + version_text(functions.version) + ") do not " +
          what + " memory that is a pointer, which came with 0.9.4: set memory to buffers, or plans to auto or queue");
}

}  // namespace

std::string version_text(cl_version version) {
  return std::to_string(CL_VERSION_MAJOR(version)) + "." + std::to_string(CL_VERSION_MINOR(version)) + "." +
         std::to_string(CL_VERSION_PATCH(version));
}

CommandBufferFunctions find_command_buffers(const Functions& cl, const DeviceFacts& facts) {
  CommandBufferFunctions functions;
  if (!facts.has(kExtension)) {
    functions.why_not = std::string("the driver has no ") + kExtension;
    return functions;
  }
  functions.version = facts.version_of(cl, kExtension);
  if (functions.version == 0) {
    functions.why_not = std::string("the driver does not say which version of ") + kExtension +
                        " it has, on which its functions depend";
    return functions;
  }
  std::string missing;
  find(cl, facts, "clCreateCommandBufferKHR", functions.create, missing);
  find(cl, facts, "clFinalizeCommandBufferKHR", functions.finalize, missing);
  find(cl, facts, "clReleaseCommandBufferKHR", functions.release, missing);
  find(cl, facts, "clEnqueueCommandBufferKHR", functions.enqueue, missing);
  find(cl, facts, "clCommandNDRangeKernelKHR", functions.launch, missing);
  find(cl, facts, "clCommandCopyBufferKHR", functions.copy_buffer, missing);
  find(cl, facts, "clCommandFillBufferKHR", functions.fill_buffer, missing);
  std::string ignored;
  if (functions.version >= kWithPointers) {
    find(cl, facts, "clCommandSVMMemcpyKHR", functions.copy_pointer, ignored);
    find(cl, facts, "clCommandSVMMemFillKHR", functions.fill_pointer, ignored);
  }
  functions.why_not = missing.empty() ? queue_refusal(cl, facts) : "the driver lacks " + missing;
  functions.why_not_change = find_changes(cl, facts, functions);
  return functions;
}

CommandBuffer::CommandBuffer(const CommandBufferFunctions& functions, cl_command_queue queue) : functions_(&functions) {
  const cl_ulong flags[] = {kFlags, kMutableFlag, 0};
  cl_int code = CL_SUCCESS;
  handle_ = functions.create(1, &queue, functions.can_change() ? flags : nullptr, &code);
  check(code, "plan: clCreateCommandBufferKHR");
}

CommandBuffer::CommandBuffer(CommandBuffer&& other) noexcept
    : functions_(other.functions_), handle_(std::exchange(other.handle_, nullptr)) {}

CommandBuffer& CommandBuffer::operator=(CommandBuffer&& other) noexcept {
  std::swap(functions_, other.functions_);
  std::swap(handle_, other.handle_);
  return *this;
}

CommandBuffer::~CommandBuffer() {
  if (handle_ != nullptr) functions_->release(handle_);
}

bool CommandBuffer::has_properties() const { return functions_->version >= kWithProperties; }

void CommandBuffer::launch(cl_kernel kernel, std::size_t global_size, std::size_t local_size,
                           MutableCommand* out_changeable) {
  const cl_ulong properties[] = {kUpdatableFields, kArguments, 0};
  check(functions_->launch(handle_, nullptr, out_changeable != nullptr ? properties : nullptr, kernel, 1, nullptr,
                           &global_size, &local_size, 0, nullptr, nullptr, out_changeable),
        "plan: clCommandNDRangeKernelKHR");
}

void CommandBuffer::copy(cl_mem to, std::size_t to_offset, cl_mem from, std::size_t from_offset, std::size_t size) {
  check(record(functions_->copy_buffer, has_properties(), handle_, from, to, from_offset, to_offset, size),
        "plan: clCommandCopyBufferKHR of " + std::to_string(size) + " bytes");
}

void CommandBuffer::copy(void* to, const void* from, std::size_t size) {
  need_pointers(*functions_, functions_->copy_pointer, "copy");
  check(record(functions_->copy_pointer, has_properties(), handle_, to, from, size),
        "plan: clCommandSVMMemcpyKHR of " + std::to_string(size) + " bytes");
}

void CommandBuffer::fill(cl_mem memory, const void* pattern, std::size_t pattern_size, std::size_t offset,
                         std::size_t size) {
  check(record(functions_->fill_buffer, has_properties(), handle_, memory, pattern, pattern_size, offset, size),
        "plan: clCommandFillBufferKHR of " + std::to_string(size) + " bytes");
}

void CommandBuffer::fill(void* to, const void* pattern, std::size_t pattern_size, std::size_t size) {
  need_pointers(*functions_, functions_->fill_pointer, "fill");
  check(record(functions_->fill_pointer, has_properties(), handle_, to, pattern, pattern_size, size),
        "plan: clCommandSVMMemFillKHR of " + std::to_string(size) + " bytes");
}

void CommandBuffer::finalize() { check(functions_->finalize(handle_), "plan: clFinalizeCommandBufferKHR"); }

void CommandBuffer::enqueue() {
  check(functions_->enqueue(0, nullptr, handle_, 0, nullptr, nullptr), "queue.submit: clEnqueueCommandBufferKHR");
}

void CommandBuffer::change(std::span<const CommandChange> changes) {
  std::vector<Argument> arguments;
  arguments.reserve(changes.size());
  std::vector<ChainedChange> launches;
  for (const CommandChange& change : changes) {  // those of one launch stand together
    arguments.push_back({change.index, change.size, change.value});
    if (launches.empty() || launches.back().change.command != change.command) {
      ChainedChange& one = launches.emplace_back();
      one.change.command = change.command;
      one.change.arguments = &arguments.back();
    }
    ++launches.back().change.argument_count;
  }
  cl_int code = CL_SUCCESS;
  const auto count = static_cast<cl_uint>(launches.size());
  if (functions_->mutable_version >= kWithArrays) {
    const std::vector<cl_uint> types(launches.size(), 0);
    std::vector<const void*> configurations;
    for (const ChainedChange& one : launches) configurations.push_back(&one.change);
    using Update = cl_int (*)(CommandBufferHandle, cl_uint, const cl_uint*, const void**);
    code = reinterpret_cast<Update>(functions_->update)(handle_, count, types.data(), configurations.data());
  } else {
    ChainedChanges all;
    all.count = count;
    all.changes = launches.data();
    using Update = cl_int (*)(CommandBufferHandle, const ChainedChanges*);
    code = reinterpret_cast<Update>(functions_->update)(handle_, &all);
  }
  check(code, "plan.set_slots: clUpdateMutableCommandsKHR of " + std::to_string(changes.size()) + " arguments");
}

}  // namespace crucible_opencl
