// Command lists and queues. What is appended captures its arguments; a queue is a thread, so that a missing wait shows.
#include <chrono>
#include <cstring>
#include <thread>
#include <utility>

#include "tests/emulators/intel/machine.hpp"

// Not the whole of the core's namespace: it has events of its own.
using crucible::emulator::act;
using crucible::emulator::Action;
using crucible::emulator::done_work;
using crucible::emulator::DoneWork;
using crucible::emulator::faults;
using crucible::emulator::Launch;
using crucible::emulator::ListState;
using crucible::emulator::Machine;
using crucible::emulator::machine;
using crucible::emulator::MemoryError;
using crucible::emulator::now_ns;
using crucible::emulator::present_state;
using crucible::emulator::signal;
using crucible::emulator::Site;
using crucible::emulator::wait_for;

namespace {

/// Appends the command, or runs it at once on an immediate list, all of which are synchronous here. It begins when all
/// of `waits` are signalled.
ze_result_t append(ze_command_list_handle_t list, ze_event_handle_t event, std::uint32_t wait_count,
                   ze_event_handle_t* waits, std::function<void()> command) {
  if (list->state != ListState::kOpen) {
    faults().note("a command is appended to a closed list");
    return ZE_RESULT_ERROR_INVALID_ARGUMENT;
  }
  if (wait_count != 0 && waits == nullptr) return ZE_RESULT_ERROR_INVALID_ARGUMENT;
  auto timed = [event, before = std::vector<ze_event_handle_t>(waits, waits + wait_count),
                command = std::move(command)] {
    wait_for(before);
    const std::uint64_t start = now_ns();
    if (!machine()->is_lost) command();
    if (event != nullptr) signal(event, start);
  };
  if (!list->is_immediate) {
    list->commands->all.push_back(std::move(timed));
    return ZE_RESULT_SUCCESS;
  }
  timed();
  return present_state();
}

/// False for bytes of a device's allocation that go past its end or were freed. Memory of the host is not known here.
bool is_whole(const void* address, std::size_t size) {
  const auto found = machine()->memory->check(reinterpret_cast<std::uint64_t>(address) | EMU_TAG, size);
  if (found || found.error() == MemoryError::kNotAllocated) return true;
  faults().note("a command of " + std::to_string(size) +
                " bytes goes past an allocation's end, or to one that was freed");
  return false;
}

void copy(void* to, const void* from, std::size_t size) {
  if (const auto rule = faults().hit(Site::kCopy)) {
    act(*rule);
    if (rule->action == Action::kFail) machine()->is_lost = true;
    if (rule->action == Action::kSlow && rule->gigabytes_per_second > 0)
      std::this_thread::sleep_for(
          std::chrono::duration<double>(static_cast<double>(size) / (rule->gigabytes_per_second * 1e9)));
  }
  if (!machine()->is_lost) std::memmove(to, from, size);
}

/// A kernel with the arguments that it had when the launch was appended.
void launch(ze_device_handle_t device, const _ze_kernel_handle_t& kernel, ze_group_count_t groups) {
  const auto rule = faults().hit(Site::kLaunch, kernel.name);
  if (rule) act(*rule);
  Machine& cl = *machine();
  if (rule && rule->action == Action::kFail) cl.is_lost = true;
  static const bool is_empty = crucible::emulator::settings().empty;
  if (cl.is_lost || is_empty) return;
  const std::lock_guard lock(cl.mutex);
  cl_int code = CL_SUCCESS;
  for (cl_uint i = 0; i < kernel.parameters.size() && code == CL_SUCCESS; ++i) {
    const std::uint64_t bits = *kernel.arguments[i];
    code = kernel.parameters[i].is_pointer
               ? cl.clSetKernelArgSVMPointer(kernel.kernel, i, reinterpret_cast<const void*>(bits))
               : cl.clSetKernelArg(kernel.kernel, i, kernel.parameters[i].size, &bits);
  }
  const std::size_t local[3] = {kernel.group[0], kernel.group[1], kernel.group[2]};
  DoneWork& done = done_work(device);
  done.work_items += std::uint64_t{kernel.group[0]} * kernel.group[1] * kernel.group[2] * groups.groupCountX *
                     groups.groupCountY * groups.groupCountZ;
  ++done.launches;
  const std::size_t global[3] = {local[0] * groups.groupCountX, local[1] * groups.groupCountY,
                                 local[2] * groups.groupCountZ};
  if (code == CL_SUCCESS)
    code = cl.clEnqueueNDRangeKernel(cl.queue, kernel.kernel, 3, nullptr, global, local, 0, nullptr, nullptr);
  if (code == CL_SUCCESS) code = cl.clFinish(cl.queue);
  if (code != CL_SUCCESS) {
    faults().note("launch of " + kernel.name + ": OpenCL error " + std::to_string(code));
    cl.is_lost = true;
  }
  if (!rule || rule->action != Action::kFlip || rule->arg >= kernel.parameters.size() ||
      !kernel.parameters[rule->arg].is_pointer)
    return;
  reinterpret_cast<unsigned char*>(*kernel.arguments[rule->arg])[rule->byte] ^=
      static_cast<unsigned char>(1u << (rule->bit & 7));
}

}  // namespace

namespace crucible::emulator {

DoneWork& done_work(ze_device_handle_t device) {
  static std::mutex& mutex = *new std::mutex;
  static auto& all = *new std::map<ze_device_handle_t, DoneWork>;
  const std::lock_guard lock(mutex);
  return all[device];
}

}  // namespace crucible::emulator

extern "C" {

ze_result_t zeCommandListCreate(ze_context_handle_t, ze_device_handle_t device,
                                const ze_command_list_desc_t* description, ze_command_list_handle_t* list) {
  if (description->stype != ZE_STRUCTURE_TYPE_COMMAND_LIST_DESC || description->commandQueueGroupOrdinal != 0)
    return ZE_RESULT_ERROR_INVALID_ARGUMENT;
  const auto* behind = static_cast<const ze_mutable_command_list_exp_desc_t*>(description->pNext);
  if (behind != nullptr && behind->stype != ZE_STRUCTURE_TYPE_MUTABLE_COMMAND_LIST_EXP_DESC)
    return ZE_RESULT_ERROR_INVALID_ARGUMENT;
  *list = new _ze_command_list_handle_t;
  (*list)->is_mutable = behind != nullptr;
  (*list)->device = device;
  return present_state();
}

ze_result_t zeCommandListCreateImmediate(ze_context_handle_t, ze_device_handle_t device,
                                         const ze_command_queue_desc_t* description, ze_command_list_handle_t* list) {
  if (description->stype != ZE_STRUCTURE_TYPE_COMMAND_QUEUE_DESC ||
      description->mode != ZE_COMMAND_QUEUE_MODE_SYNCHRONOUS)
    return ZE_RESULT_ERROR_UNSUPPORTED_FEATURE;
  *list = new _ze_command_list_handle_t;
  (*list)->is_immediate = true;
  (*list)->device = device;
  return present_state();
}

ze_result_t zeCommandListDestroy(ze_command_list_handle_t list) {
  delete list;
  return ZE_RESULT_SUCCESS;
}

ze_result_t zeCommandListClose(ze_command_list_handle_t list) {
  if (const auto rule = faults().hit(Site::kRecord)) act(*rule);
  list->state = ListState::kClosed;
  return present_state();
}

ze_result_t zeCommandListAppendBarrier(ze_command_list_handle_t list, ze_event_handle_t event, std::uint32_t count,
                                       ze_event_handle_t* waits) {
  return append(list, event, count, waits, [] {});
}

/// Also from one device to another: all of them have their memory in this process.
ze_result_t zeCommandListAppendMemoryCopy(ze_command_list_handle_t list, void* to, const void* from, std::size_t size,
                                          ze_event_handle_t event, std::uint32_t count, ze_event_handle_t* waits) {
  if (to == nullptr || from == nullptr || !is_whole(to, size) || !is_whole(from, size))
    return ZE_RESULT_ERROR_INVALID_ARGUMENT;
  return append(list, event, count, waits, [=] { copy(to, from, size); });
}

ze_result_t zeCommandListAppendMemoryFill(ze_command_list_handle_t list, void* to, const void* pattern,
                                          std::size_t pattern_size, std::size_t size, ze_event_handle_t event,
                                          std::uint32_t count, ze_event_handle_t* waits) {
  if (to == nullptr || pattern == nullptr || pattern_size == 0 || size % pattern_size != 0 || !is_whole(to, size))
    return ZE_RESULT_ERROR_INVALID_ARGUMENT;
  const std::string bytes(static_cast<const char*>(pattern), pattern_size);
  return append(list, event, count, waits, [=] {
    for (std::size_t i = 0; i < size; ++i) static_cast<char*>(to)[i] = bytes[i % bytes.size()];
  });
}

ze_result_t zeCommandListAppendLaunchKernel(ze_command_list_handle_t list, ze_kernel_handle_t kernel,
                                            const ze_group_count_t* groups, ze_event_handle_t event,
                                            std::uint32_t count, ze_event_handle_t* waits) {
  for (std::size_t i = 0; i < kernel->arguments.size(); ++i) {
    if (kernel->arguments[i]) continue;
    faults().note("argument " + std::to_string(i) + " of " + kernel->name + " was never set");
    return ZE_RESULT_ERROR_INVALID_ARGUMENT;
  }
  const auto captured = std::make_shared<Launch>(*kernel, *groups);
  const ze_result_t code = append(list, event, count, waits, [device = list->device, captured] {
    launch(device, captured->kernel, captured->groups);
  });
  if (code == ZE_RESULT_SUCCESS && list->next_id != 0) list->launches[std::exchange(list->next_id, 0)] = captured;
  return code;
}

ze_result_t zeCommandQueueCreate(ze_context_handle_t, ze_device_handle_t, const ze_command_queue_desc_t* description,
                                 ze_command_queue_handle_t* queue) {
  if (description->stype != ZE_STRUCTURE_TYPE_COMMAND_QUEUE_DESC || description->ordinal != 0)
    return ZE_RESULT_ERROR_INVALID_ARGUMENT;
  *queue = new _ze_command_queue_handle_t;
  return present_state();
}

ze_result_t zeCommandQueueDestroy(ze_command_queue_handle_t queue) {
  delete queue;
  return ZE_RESULT_SUCCESS;
}

ze_result_t zeCommandQueueExecuteCommandLists(ze_command_queue_handle_t queue, std::uint32_t count,
                                              ze_command_list_handle_t* lists, ze_fence_handle_t) {
  if (const auto rule = faults().hit(Site::kSubmit)) act(*rule);
  for (std::uint32_t i = 0; i < count; ++i) {
    if (lists[i]->state != ListState::kClosed) {
      faults().note("a list is executed before it is closed");
      return ZE_RESULT_ERROR_INVALID_ARGUMENT;
    }
    ++lists[i]->commands->running;
    queue->stream.push([commands = lists[i]->commands] {
      for (const auto& command : commands->all) command();
      --commands->running;
    });
  }
  return present_state();
}

ze_result_t zeCommandQueueSynchronize(ze_command_queue_handle_t queue, std::uint64_t timeout_ns) {
  if (const auto rule = faults().hit(Site::kSync)) act(*rule);
  const std::uint64_t start = now_ns();
  while (timeout_ns != UINT64_MAX && !queue->stream.idle()) {
    if (now_ns() - start >= timeout_ns) return ZE_RESULT_NOT_READY;
    std::this_thread::sleep_for(std::chrono::microseconds(100));
  }
  queue->stream.synchronize();
  return present_state();
}

}  // extern "C"
