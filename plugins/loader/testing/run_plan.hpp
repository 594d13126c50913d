// For tests that build plans by the raw table: one run, as backend::Plan does it.
#pragma once

#include "plugins/loader/backend.hpp"

namespace crucible::backend {

/// Submits the plan to a queue of its own and waits for it. Errors: those of the device.
inline Result<void> run_plan(const Device& device, crucible_plan* plan) {
  const crucible_if_queue& table = device.backend().queue_table();
  crucible_queue* queue = nullptr;
  crucible_timeline* done = nullptr;
  CRUCIBLE_TRY_VOID(to_result(table.create(device.handle(), &queue), "queue.create"));
  CRUCIBLE_TRY_VOID(to_result(table.timeline_create(device.handle(), 0, &done), "queue.timeline_create"));
  const crucible_point end = {done, 1};
  Result<void> ran = to_result(table.submit(queue, plan, nullptr, 0, &end, 1), "queue.submit");
  if (ran) ran = to_result(table.timeline_wait(done, 1, UINT64_MAX), "queue.timeline_wait");
  CRUCIBLE_TRY_VOID(to_result(table.destroy(queue), "queue.destroy"));
  CRUCIBLE_TRY_VOID(to_result(table.timeline_destroy(done), "queue.timeline_destroy"));
  return ran;
}

}  // namespace crucible::backend
