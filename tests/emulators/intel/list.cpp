// Command lists and queues. What is appended captures its arguments; a queue is a thread, so that a missing wait shows.
#include <chrono>
#include <cstring>
#include <thread>
#include <utility>

#include "tests/emulators/intel/machine.hpp"

using namespace crucible_intel::ze;
// Not the whole of the core's namespace: it has events of its own.
using crucible::emulator::act;
using crucible::emulator::Action;
using crucible::emulator::done_work;
using crucible::emulator::DoneWork;
using crucible::emulator::faults;
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
Result append(List list, Event event, std::uint32_t wait_count, Event* waits, std::function<void()> command) {
  if (list->state != ListState::kOpen) {
    faults().note("a command is appended to a closed list");
    return Result::kInvalidArgument;
  }
  if (wait_count != 0 && waits == nullptr) return Result::kInvalidArgument;
  auto timed = [event, before = std::vector<Event>(waits, waits + wait_count), command = std::move(command)] {
    wait_for(before);
    const std::uint64_t start = now_ns();
    if (!machine()->is_lost) command();
    if (event != nullptr) signal(event, start);
  };
  if (!list->is_immediate) {
    list->commands->all.push_back(std::move(timed));
    return Result::kSuccess;
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
void launch(Device device, const KernelObject& kernel, GroupCount groups) {
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
  done.work_items +=
      std::uint64_t{kernel.group[0]} * kernel.group[1] * kernel.group[2] * groups.x * groups.y * groups.z;
  ++done.launches;
  const std::size_t global[3] = {local[0] * groups.x, local[1] * groups.y, local[2] * groups.z};
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

DoneWork& done_work(crucible_intel::ze::Device device) {
  static std::mutex& mutex = *new std::mutex;
  static auto& all = *new std::map<crucible_intel::ze::Device, DoneWork>;
  const std::lock_guard lock(mutex);
  return all[device];
}

}  // namespace crucible::emulator

extern "C" {

Result zeCommandListCreate(Context, Device device, const ListDesc* description, List* list) {
  if (description->type != Structure::kListDesc || description->ordinal != 0) return Result::kInvalidArgument;
  const auto* behind = static_cast<const MutableListDesc*>(description->next);
  if (behind != nullptr && behind->type != Structure::kMutableListDesc) return Result::kInvalidArgument;
  *list = new ListObject;
  (*list)->is_mutable = behind != nullptr;
  (*list)->device = device;
  return present_state();
}

Result zeCommandListCreateImmediate(Context, Device device, const QueueDesc* description, List* list) {
  if (description->type != Structure::kQueueDesc || description->mode != kSynchronous)
    return Result::kUnsupportedFeature;
  *list = new ListObject;
  (*list)->is_immediate = true;
  (*list)->device = device;
  return present_state();
}

Result zeCommandListDestroy(List list) {
  delete list;
  return Result::kSuccess;
}

Result zeCommandListClose(List list) {
  if (const auto rule = faults().hit(Site::kRecord)) act(*rule);
  list->state = ListState::kClosed;
  return present_state();
}

Result zeCommandListAppendBarrier(List list, Event event, std::uint32_t count, Event* waits) {
  return append(list, event, count, waits, [] {});
}

/// Also from one device to another: all of them have their memory in this process.
Result zeCommandListAppendMemoryCopy(List list, void* to, const void* from, std::size_t size, Event event,
                                     std::uint32_t count, Event* waits) {
  if (to == nullptr || from == nullptr || !is_whole(to, size) || !is_whole(from, size)) return Result::kInvalidArgument;
  return append(list, event, count, waits, [=] { copy(to, from, size); });
}

Result zeCommandListAppendMemoryFill(List list, void* to, const void* pattern, std::size_t pattern_size,
                                     std::size_t size, Event event, std::uint32_t count, Event* waits) {
  if (to == nullptr || pattern == nullptr || pattern_size == 0 || size % pattern_size != 0 || !is_whole(to, size))
    return Result::kInvalidArgument;
  const std::string bytes(static_cast<const char*>(pattern), pattern_size);
  return append(list, event, count, waits, [=] {
    for (std::size_t i = 0; i < size; ++i) static_cast<char*>(to)[i] = bytes[i % bytes.size()];
  });
}

Result zeCommandListAppendLaunchKernel(List list, Kernel kernel, const GroupCount* groups, Event event,
                                       std::uint32_t count, Event* waits) {
  for (std::size_t i = 0; i < kernel->arguments.size(); ++i) {
    if (kernel->arguments[i]) continue;
    faults().note("argument " + std::to_string(i) + " of " + kernel->name + " was never set");
    return Result::kInvalidArgument;
  }
  const auto captured = std::make_shared<Launch>(*kernel, *groups);
  const Result code = append(list, event, count, waits,
                             [device = list->device, captured] { launch(device, captured->kernel, captured->groups); });
  if (code == Result::kSuccess && list->next_id != 0) list->launches[std::exchange(list->next_id, 0)] = captured;
  return code;
}

Result zeCommandQueueCreate(Context, Device, const QueueDesc* description, Queue* queue) {
  if (description->type != Structure::kQueueDesc || description->ordinal != 0) return Result::kInvalidArgument;
  *queue = new QueueObject;
  return present_state();
}

Result zeCommandQueueDestroy(Queue queue) {
  delete queue;
  return Result::kSuccess;
}

Result zeCommandQueueExecuteCommandLists(Queue queue, std::uint32_t count, List* lists, Fence) {
  if (const auto rule = faults().hit(Site::kSubmit)) act(*rule);
  for (std::uint32_t i = 0; i < count; ++i) {
    if (lists[i]->state != ListState::kClosed) {
      faults().note("a list is executed before it is closed");
      return Result::kInvalidArgument;
    }
    ++lists[i]->commands->running;
    queue->stream.push([commands = lists[i]->commands] {
      for (const auto& command : commands->all) command();
      --commands->running;
    });
  }
  return present_state();
}

Result zeCommandQueueSynchronize(Queue queue, std::uint64_t timeout_ns) {
  if (const auto rule = faults().hit(Site::kSync)) act(*rule);
  const std::uint64_t start = now_ns();
  while (timeout_ns != UINT64_MAX && !queue->stream.idle()) {
    if (now_ns() - start >= timeout_ns) return Result::kNotReady;
    std::this_thread::sleep_for(std::chrono::microseconds(100));
  }
  queue->stream.synchronize();
  return present_state();
}

}  // extern "C"
