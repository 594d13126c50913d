// Events: signalled by a command or by the host, waited for by commands and by the host, reset by hand. Pools have
// kernel time stamps.
#include <chrono>
#include <thread>

#include "tests/emulators/intel/machine.hpp"

using crucible::emulator::machine;
using crucible::emulator::now_ns;
using crucible::emulator::present_state;

namespace crucible::emulator {

void signal(ze_event_handle_t event, std::uint64_t start_ns) {
  event->start = start_ns;
  event->end = now_ns();
  event->end.notify_all();
}

void wait_for(const std::vector<ze_event_handle_t>& events) {
  // Looked at again and again, because losing the device signals nothing.
  for (ze_event_handle_t event : events) {
    while (event->end == 0 && !machine()->is_lost) std::this_thread::sleep_for(std::chrono::microseconds(50));
  }
}

}  // namespace crucible::emulator

extern "C" {

ze_result_t zeEventPoolCreate(ze_context_handle_t, const ze_event_pool_desc_t* description, std::uint32_t,
                              ze_device_handle_t*, ze_event_pool_handle_t* pool) {
  if (description->stype != ZE_STRUCTURE_TYPE_EVENT_POOL_DESC ||
      (description->flags & ZE_EVENT_POOL_FLAG_KERNEL_TIMESTAMP) == 0)
    return ZE_RESULT_ERROR_INVALID_ARGUMENT;
  *pool = new _ze_event_pool_handle_t{description->count};
  return present_state();
}

ze_result_t zeEventPoolDestroy(ze_event_pool_handle_t pool) {
  delete pool;
  return ZE_RESULT_SUCCESS;
}

ze_result_t zeEventCreate(ze_event_pool_handle_t pool, const ze_event_desc_t* description, ze_event_handle_t* event) {
  if (description->stype != ZE_STRUCTURE_TYPE_EVENT_DESC || description->index >= pool->count)
    return ZE_RESULT_ERROR_INVALID_ARGUMENT;
  *event = new _ze_event_handle_t;
  return ZE_RESULT_SUCCESS;
}

ze_result_t zeEventDestroy(ze_event_handle_t event) {
  delete event;
  return ZE_RESULT_SUCCESS;
}

ze_result_t zeEventHostSignal(ze_event_handle_t event) {
  crucible::emulator::signal(event, now_ns());
  return ZE_RESULT_SUCCESS;
}

ze_result_t zeEventHostReset(ze_event_handle_t event) {
  event->end = event->start = 0;
  return ZE_RESULT_SUCCESS;
}

ze_result_t zeEventQueryStatus(ze_event_handle_t event) {
  if (event->end != 0) return ZE_RESULT_SUCCESS;
  return machine()->is_lost ? ZE_RESULT_ERROR_DEVICE_LOST : ZE_RESULT_NOT_READY;
}

ze_result_t zeEventHostSynchronize(ze_event_handle_t event, std::uint64_t timeout_ns) {
  const std::uint64_t start = now_ns();
  while (event->end == 0 && !machine()->is_lost) {
    if (now_ns() - start >= timeout_ns) return ZE_RESULT_NOT_READY;
    std::this_thread::sleep_for(std::chrono::microseconds(50));
  }
  return present_state();
}

ze_result_t zeEventQueryKernelTimestamp(ze_event_handle_t event, ze_kernel_timestamp_result_t* stamp) {
  if (event->end == 0) return ZE_RESULT_NOT_READY;
  stamp->global = stamp->context = {event->start, event->end};
  return ZE_RESULT_SUCCESS;
}

ze_result_t zeCommandListAppendSignalEvent(ze_command_list_handle_t list, ze_event_handle_t event) {
  return event == nullptr ? ZE_RESULT_ERROR_INVALID_ARGUMENT : zeCommandListAppendBarrier(list, event, 0, nullptr);
}

ze_result_t zeCommandListAppendWaitOnEvents(ze_command_list_handle_t list, std::uint32_t count,
                                            ze_event_handle_t* events) {
  return count == 0 ? ZE_RESULT_ERROR_INVALID_ARGUMENT : zeCommandListAppendBarrier(list, nullptr, count, events);
}

}  // extern "C"
