// Sums over the steps of a plan: see fit.hpp.
#include "runtime/plan/fit.hpp"

#include <algorithm>
#include <set>

namespace crucible::runtime {
namespace {

std::uint64_t rounded(const memory::Buffer& buffer) {
  return (buffer.size_bytes + kAlignment - 1) / kAlignment * kAlignment;
}

/// Parameters, buffers, optimizer states and constants at home; the new value of one that cannot be written in place is
/// not.
bool is_carried(const graph::Program& program, const PlanRoles& roles, std::size_t buffer) {
  const std::uint32_t value = roles.value_of[buffer];
  if (value == graph::kNone || program.values[value].kind == graph::ValueKind::kTemporary) return false;
  return roles.buffers[buffer] != Role::kInput && roles.buffers[buffer] != Role::kGradient;
}

/// Of the buffers that are not carried: does it grow with the batch?
bool grows(const graph::Program& program, const PlanRoles& roles, std::size_t buffer) {
  const Role role = roles.buffers[buffer];
  if (role != Role::kTemporary) return role == Role::kActivation || role == Role::kInput || role == Role::kWorkspace;
  const std::uint32_t source = roles.values[roles.value_of[buffer]].source;
  return source >= program.sources.size() || program.sources[source].phase != graph::Phase::kOptimizer;
}

/// The most bytes beside those that are carried which one step reads, writes or scratches, and the step.
std::pair<std::uint64_t, std::uint32_t> largest_step(const graph::Program& program, const kernel::Schedule& schedule,
                                                     const Placement& placement, const PlanRoles& roles) {
  std::pair<std::uint64_t, std::uint32_t> largest = {0, 0};
  for (std::uint32_t step = 0; step < schedule.steps.size(); ++step) {
    std::set<std::uint32_t> touched;
    for (const kernel::BufferArgument& argument : schedule.steps[step].buffers)
      touched.insert(placement.buffer_of[argument.value]);
    if (step < placement.scratch_of.size()) touched.insert(placement.scratch_of[step]);
    std::uint64_t bytes = 0;
    for (const std::uint32_t buffer : touched) {
      if (buffer != graph::kNone && !is_carried(program, roles, buffer)) bytes += rounded(placement.buffers[buffer]);
    }
    if (bytes > largest.first) largest = {bytes, step};
  }
  return largest;
}

/// The largest batch whose bytes are within `usable` at every step.
std::uint64_t estimate_batch(const Fit& fit, const graph::Program& program, const Placement& placement,
                             const PlanRoles& roles, std::size_t steps) {
  Placement growing;
  for (std::size_t buffer = 0; buffer < placement.buffers.size(); ++buffer) {
    if (grows(program, roles, buffer)) growing.buffers.push_back(placement.buffers[buffer]);
  }
  const std::vector<std::uint64_t> all = live_bytes(placement, steps), scaled = live_bytes(growing, steps);
  const std::uint64_t lost = placement.plan.peak_bytes - placement.plan.lower_bound_bytes;  // between buffers
  double factor = -1;
  for (std::size_t step = 0; step < all.size(); ++step) {
    const std::uint64_t fixed = all[step] - scaled[step] + lost;
    if (fixed > fit.usable_bytes) return 0;
    if (scaled[step] == 0) continue;
    const double here = static_cast<double>(fit.usable_bytes - fixed) / static_cast<double>(scaled[step]);
    factor = factor < 0 ? here : std::min(factor, here);
  }
  return factor < 0 ? 0 : static_cast<std::uint64_t>(factor * static_cast<double>(fit.batch));
}

}  // namespace

Fit fit(const hardware::DeviceProfile& device, const graph::Program& program, const kernel::Schedule& schedule,
        const Placement& placement, const PlanRoles& roles, std::uint64_t batch) {
  Fit fit;
  fit.usable_bytes = device.usable_bytes();
  fit.peak_bytes = placement.plan.peak_bytes;
  fit.fits = fit.peak_bytes <= fit.usable_bytes;
  fit.missing_bytes = fit.fits ? 0 : fit.peak_bytes - fit.usable_bytes;
  for (std::size_t buffer = 0; buffer < placement.buffers.size(); ++buffer) {
    if (is_carried(program, roles, buffer)) fit.carried_bytes += rounded(placement.buffers[buffer]);
  }
  for (const std::uint32_t buffer : placement.plan.witness) {
    if (is_carried(program, roles, buffer)) continue;
    const Role role = role_at(roles.turns[buffer], placement.plan.lower_bound_time);
    std::uint64_t& sum = role == Role::kActivation ? fit.activation_bytes
                         : role == Role::kGradient ? fit.gradient_bytes
                                                   : fit.rest_bytes;
    sum += rounded(placement.buffers[buffer]);
  }
  const auto [bytes, step] = largest_step(program, schedule, placement, roles);
  fit.floor_bytes = fit.carried_bytes + bytes;
  fit.floor_step = step;
  fit.batch = batch;
  if (batch > 0) fit.largest_batch = estimate_batch(fit, program, placement, roles, schedule.steps.size());
  return fit;
}

}  // namespace crucible::runtime
