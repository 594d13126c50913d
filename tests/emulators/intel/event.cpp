// Events: signalled by a command or by the host, waited for by commands and by the host, reset by hand. Pools have
// kernel time stamps.
#include <chrono>
#include <thread>

#include "tests/emulators/intel/machine.hpp"

using namespace crucible_intel::ze;
using crucible::emulator::machine;
using crucible::emulator::now_ns;
using crucible::emulator::present_state;

namespace crucible::emulator {

void signal(crucible_intel::ze::Event event, std::uint64_t start_ns) {
  event->start = start_ns;
  event->end = now_ns();
  event->end.notify_all();
}

void wait_for(const std::vector<crucible_intel::ze::Event>& events) {
  // Looked at again and again, because losing the device signals nothing.
  for (crucible_intel::ze::Event event : events) {
    while (event->end == 0 && !machine()->is_lost) std::this_thread::sleep_for(std::chrono::microseconds(50));
  }
}

}  // namespace crucible::emulator

extern "C" {

Result zeEventPoolCreate(Context, const EventPoolDesc* description, std::uint32_t, Device*, EventPool* pool) {
  if (description->type != Structure::kEventPoolDesc || (description->flags & kKernelTimestamp) == 0)
    return Result::kInvalidArgument;
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

Result zeEventHostSignal(Event event) {
  crucible::emulator::signal(event, now_ns());
  return Result::kSuccess;
}

Result zeEventHostReset(Event event) {
  event->end = event->start = 0;
  return Result::kSuccess;
}

Result zeEventQueryStatus(Event event) {
  if (event->end != 0) return Result::kSuccess;
  return machine()->is_lost ? Result::kDeviceLost : Result::kNotReady;
}

Result zeEventHostSynchronize(Event event, std::uint64_t timeout_ns) {
  const std::uint64_t start = now_ns();
  while (event->end == 0 && !machine()->is_lost) {
    if (now_ns() - start >= timeout_ns) return Result::kNotReady;
    std::this_thread::sleep_for(std::chrono::microseconds(50));
  }
  return present_state();
}

Result zeEventQueryKernelTimestamp(Event event, KernelTimestamp* stamp) {
  if (event->end == 0) return Result::kNotReady;
  *stamp = {event->start, event->end, event->start, event->end};
  return Result::kSuccess;
}

Result zeCommandListAppendBarrier(List, Event, std::uint32_t, Event*);  // list.cpp

Result zeCommandListAppendSignalEvent(List list, Event event) {
  return event == nullptr ? Result::kInvalidArgument : zeCommandListAppendBarrier(list, event, 0, nullptr);
}

Result zeCommandListAppendWaitOnEvents(List list, std::uint32_t count, Event* events) {
  return count == 0 ? Result::kInvalidArgument : zeCommandListAppendBarrier(list, nullptr, count, events);
}

}  // extern "C"
