// Command lists, queues and events. What is appended captures its arguments; a queue is a thread, so that a missing wait shows.
#include <chrono>
#include <cstring>
#include <thread>

#include "tests/emulators/intel/machine.hpp"

using namespace crucible_intel::ze;
// Not the whole of the core's namespace: it has events of its own.
using crucible::emulator::act;
using crucible::emulator::Action;
using crucible::emulator::faults;
using crucible::emulator::Machine;
using crucible::emulator::machine;
using crucible::emulator::now_ns;
using crucible::emulator::present_state;
using crucible::emulator::Site;

namespace {

/// Appends the command, or runs it at once on an immediate list, all of which are synchronous here.
Result append(List list, Event event, std::function<void()> command) {
  if (list->is_closed) {
    faults().note("a command is appended to a closed list");
    return Result::kInvalidArgument;
  }
  auto timed = [event, command = std::move(command)] {
    const std::uint64_t start = now_ns();
    if (!machine()->is_lost) command();
    if (event == nullptr) return;
    event->start = start;
    event->end = now_ns();
  };
  if (!list->is_immediate) {
    list->commands->push_back(std::move(timed));
    return Result::kSuccess;
  }
  timed();
  return present_state();
}

void copy(void* to, const void* from, std::size_t size) {
  if (const auto rule = faults().hit(Site::kCopy)) {
    act(*rule);
    if (rule->action == Action::kFail) machine()->is_lost = true;
    if (rule->action == Action::kSlow && rule->gigabytes_per_second > 0)
      std::this_thread::sleep_for(std::chrono::duration<double>(static_cast<double>(size) / (rule->gigabytes_per_second * 1e9)));
  }
  if (!machine()->is_lost) std::memmove(to, from, size);
}

/// A kernel with the arguments that it had when the launch was appended.
void launch(const KernelObject& kernel, GroupCount groups) {
  const auto rule = faults().hit(Site::kLaunch, kernel.name);
  if (rule) act(*rule);
  Machine& cl = *machine();
  if (rule && rule->action == Action::kFail) cl.is_lost = true;
  if (cl.is_lost) return;
  const std::lock_guard lock(cl.mutex);
  cl_int code = CL_SUCCESS;
  for (cl_uint i = 0; i < kernel.parameters.size() && code == CL_SUCCESS; ++i) {
    const std::uint64_t bits = *kernel.arguments[i];
    code = kernel.parameters[i].is_pointer ? cl.clSetKernelArgSVMPointer(kernel.kernel, i, reinterpret_cast<const void*>(bits))
                                           : cl.clSetKernelArg(kernel.kernel, i, kernel.parameters[i].size, &bits);
  }
  const std::size_t local[3] = {kernel.group[0], kernel.group[1], kernel.group[2]};
  const std::size_t global[3] = {local[0] * groups.x, local[1] * groups.y, local[2] * groups.z};
  if (code == CL_SUCCESS) code = cl.clEnqueueNDRangeKernel(cl.queue, kernel.kernel, 3, nullptr, global, local, 0, nullptr, nullptr);
  if (code == CL_SUCCESS) code = cl.clFinish(cl.queue);
  if (code != CL_SUCCESS) {
    faults().note("launch of " + kernel.name + ": OpenCL error " + std::to_string(code));
    cl.is_lost = true;
  }
  if (!rule || rule->action != Action::kFlip || rule->arg >= kernel.parameters.size() || !kernel.parameters[rule->arg].is_pointer) return;
  reinterpret_cast<unsigned char*>(*kernel.arguments[rule->arg])[rule->byte] ^= static_cast<unsigned char>(1u << (rule->bit & 7));
}

}  // namespace

extern "C" {

Result zeCommandListCreate(Context, Device, const ListDesc* description, List* list) {
  if (description->type != Structure::kListDesc || description->ordinal != 0) return Result::kInvalidArgument;
  *list = new ListObject;
  return present_state();
}

Result zeCommandListCreateImmediate(Context, Device, const QueueDesc* description, List* list) {
  if (description->type != Structure::kQueueDesc || description->mode != kSynchronous) return Result::kUnsupportedFeature;
  *list = new ListObject;
  (*list)->is_immediate = true;
  return present_state();
}

Result zeCommandListDestroy(List list) {
  delete list;
  return Result::kSuccess;
}

Result zeCommandListClose(List list) {
  if (const auto rule = faults().hit(Site::kRecord)) act(*rule);
  list->is_closed = true;
  return present_state();
}

Result zeCommandListAppendBarrier(List list, Event event, std::uint32_t, Event*) {
  return append(list, event, [] {});
}

Result zeCommandListAppendMemoryCopy(List list, void* to, const void* from, std::size_t size, Event event, std::uint32_t, Event*) {
  if (to == nullptr || from == nullptr) return Result::kInvalidArgument;
  return append(list, event, [=] { copy(to, from, size); });
}

Result zeCommandListAppendMemoryFill(List list, void* to, const void* pattern, std::size_t pattern_size, std::size_t size, Event event, std::uint32_t,
                                     Event*) {
  if (to == nullptr || pattern == nullptr || pattern_size == 0 || size % pattern_size != 0) return Result::kInvalidArgument;
  const std::string bytes(static_cast<const char*>(pattern), pattern_size);
  return append(list, event, [=] {
    for (std::size_t i = 0; i < size; ++i) static_cast<char*>(to)[i] = bytes[i % bytes.size()];
  });
}

Result zeCommandListAppendLaunchKernel(List list, Kernel kernel, const GroupCount* groups, Event event, std::uint32_t, Event*) {
  for (std::size_t i = 0; i < kernel->arguments.size(); ++i) {
    if (kernel->arguments[i]) continue;
    faults().note("argument " + std::to_string(i) + " of " + kernel->name + " was never set");
    return Result::kInvalidArgument;
  }
  return append(list, event, [captured = *kernel, count = *groups] { launch(captured, count); });
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
    if (!lists[i]->is_closed) {
      faults().note("a list is executed before it is closed");
      return Result::kInvalidArgument;
    }
    queue->stream.push([commands = lists[i]->commands] {
      for (const auto& command : *commands) command();
    });
  }
  return present_state();
}

Result zeCommandQueueSynchronize(Queue queue, std::uint64_t) {
  if (const auto rule = faults().hit(Site::kSync)) act(*rule);
  queue->stream.synchronize();
  return present_state();
}

Result zeEventPoolCreate(Context, const EventPoolDesc* description, std::uint32_t, Device*, EventPool* pool) {
  if (description->type != Structure::kEventPoolDesc || (description->flags & kKernelTimestamp) == 0) return Result::kInvalidArgument;
  *pool = new EventPoolObject{description->count};
  return present_state();
}

Result zeEventPoolDestroy(EventPool pool) {
  delete pool;
  return Result::kSuccess;
}

Result zeEventCreate(EventPool pool, const EventDesc* description, Event* event) {
  if (description->type != Structure::kEventDesc || description->index >= pool->count) return Result::kInvalidArgument;
  *event = new EventObject;
  return Result::kSuccess;
}

Result zeEventDestroy(Event event) {
  delete event;
  return Result::kSuccess;
}

Result zeEventQueryKernelTimestamp(Event event, KernelTimestamp* stamp) {
  if (event->end == 0) return Result::kNotReady;
  *stamp = {event->start, event->end, event->start, event->end};
  return Result::kSuccess;
}

}  // extern "C"
