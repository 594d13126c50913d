#include "frontends/replay/workload.hpp"

#include <algorithm>

#include "core/kernel/schedule.hpp"
#include "runtime/run/session.hpp"

namespace crucible::replay {

Result<Workload> workload_of(const graph::Program& program, bool fuse) {
  CRUCIBLE_TRY(const kernel::Schedule schedule, kernel::schedule(program, {.claims = nullptr, .fuse = fuse}));
  const std::vector<std::uint64_t> no_scratch(schedule.steps.size(), 0);
  CRUCIBLE_TRY(const runtime::Placement placement, runtime::place(program, schedule, no_scratch));
  Workload workload;
  workload.ops = program.ops.size();
  for (const kernel::Step& step : schedule.steps) workload.flops += step.flops, workload.bytes += step.bytes;
  workload.peak_bytes = placement.plan.peak_bytes;
  return workload;
}

Result<Workload> workload_of(const graph::Variants& variants, bool fuse) {
  const auto ops = [](const std::shared_ptr<const graph::Program>& program) { return program->ops.size(); };
  return workload_of(**std::ranges::max_element(variants.programs, {}, ops), fuse);
}

}  // namespace crucible::replay
