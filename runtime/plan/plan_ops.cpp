// Turns steps with values into ops with addresses.
#include "runtime/plan/plan_ops.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "runtime/plan/library_calls.hpp"

namespace crucible::runtime {
namespace {

crucible_scalar to_abi(const graph::Scalar& scalar) {
  crucible_scalar result{};
  result.slot = scalar.slot == graph::kNone ? CRUCIBLE_SLOT_NONE : scalar.slot;
  result.type = scalar.is_integer ? CRUCIBLE_SCALAR_I64 : CRUCIBLE_SCALAR_F64;
  result.bits = (scalar.is_integer ? graph::Number(scalar.integer) : graph::Number(scalar.real)).bits();
  return result;
}

}  // namespace

Result<PlanOps> PlanOps::build(const graph::Program& program, const kernel::Schedule& schedule,
                               const Placement& placement, std::uint64_t arena_address, const FindKernel& find_kernel,
                               bool poison, const StepRange& range) {
  PlanOps plan;
  const AddressOf address_of = [&](std::uint32_t buffer) {
    const bool is_outside = !range.outside.empty() && buffer >= placement.first_kept;
    if (is_outside) return range.outside[buffer - placement.first_kept];
    return arena_address + placement.plan.offsets[buffer] - (range.outside.empty() ? 0 : placement.kept_bytes);
  };
  const std::uint32_t end = std::min(range.end, static_cast<std::uint32_t>(schedule.steps.size()));
  std::vector<std::vector<std::uint32_t>> dying(schedule.steps.size());  // per step: buffers whose life ends with it
  for (std::uint32_t buffer = 0; buffer < placement.buffers.size(); ++buffer) {
    const std::uint32_t death = placement.buffers[buffer].end;
    if (poison && death > 0 && death <= dying.size()) dying[death - 1].push_back(buffer);
  }
  for (std::uint32_t step = range.begin; step < end; ++step) {
    CRUCIBLE_TRY_VOID(plan.add_step(schedule, placement, step, range.place, address_of, find_kernel));
    if (range.has_sizes) plan.add_sizes(program, schedule.steps[step]);
    for (const std::uint32_t buffer : dying[step]) {
      const std::uint64_t size = placement.buffers[buffer].size_bytes;
      if (size == 0) continue;
      plan.add_fill(address_of(buffer), size - placement.red_zone_bytes);
    }
  }
  for (const HomeCopy& copy : placement.home_copies) {
    if (!range.homes) break;
    if (copy.size_bytes == 0) continue;
    plan.add_copy(address_of(copy.to), address_of(copy.from), copy.size_bytes);
    plan.buffers_.back() = {copy.to, copy.from};
  }
  plan.link();
  return plan;
}

Result<void> PlanOps::add_step(const kernel::Schedule& schedule, const Placement& placement, std::uint32_t index,
                               std::uint32_t place, const AddressOf& address_of, const FindKernel& find_kernel) {
  const kernel::Step& step = schedule.steps[index];
  crucible_op op{};
  op.struct_size = sizeof op;
  std::vector<std::uint64_t> addresses;
  std::vector<std::uint32_t> buffers;
  for (const kernel::BufferArgument& argument : step.buffers)
    buffers.push_back(placement.buffer_at(argument.value, place));
  if (const std::uint32_t scratch = placement.scratch_of[index];
      step.kind == kernel::StepKind::kLibrary && scratch != graph::kNone) {
    buffers.push_back(scratch);
    op.scratch_bytes = placement.buffers[scratch].size_bytes - placement.red_zone_bytes;
  }
  for (const std::uint32_t buffer : buffers) addresses.push_back(address_of(buffer));
  std::vector<crucible_scalar> scalars;
  std::uint32_t description = graph::kNone;
  if (step.kind == kernel::StepKind::kLibrary) {
    op.kind = CRUCIBLE_OP_LIBRARY;
    CRUCIBLE_TRY(const crucible_library_desc desc, describe(step.library));
    description = static_cast<std::uint32_t>(descriptions_.size());
    descriptions_.push_back(desc);
  } else {
    op.kind = CRUCIBLE_OP_LAUNCH;
    if (step.kernel >= schedule.kernels.size()) {
      return Error{ErrorCode::kInternal,
                   fmt::format("step {} names kernel {} of {}", index, step.kernel, schedule.kernels.size())};
    }
    CRUCIBLE_TRY(op.kernel, find_kernel(schedule.kernels[step.kernel].name));
    for (const graph::Scalar& scalar : step.scalars) scalars.push_back(to_abi(scalar));
    op.grid = step.grid;
    op.grain = step.grain;
  }
  op_of_step_.push_back(static_cast<std::uint32_t>(ops_.size()));
  ops_.push_back(op);
  addresses_.push_back(std::move(addresses));
  buffers_.push_back(std::move(buffers));
  scalars_.push_back(std::move(scalars));
  description_of_.push_back(description);
  return {};
}

/// Of the step that was added last.
void PlanOps::add_sizes(const graph::Program& program, const kernel::Step& step) {
  if (step.kind != kernel::StepKind::kLaunch) return;
  for (const kernel::BufferArgument& argument : step.buffers) {
    const graph::Value& value = program.values[argument.value];
    scalars_.back().push_back(
        buffer_bytes(static_cast<std::uint64_t>(value.elements) * size_bytes(value.dtype), argument.written));
  }
}

void PlanOps::add_fill(std::uint64_t address, std::uint64_t size) {
  if (size == 0) return;
  crucible_op op{};
  op.struct_size = sizeof op;
  op.kind = CRUCIBLE_OP_FILL;
  op.size = size;
  op.pattern = kPoisonByte;
  ops_.push_back(op);
  addresses_.push_back({address});
  buffers_.emplace_back();
  scalars_.emplace_back();
  description_of_.push_back(graph::kNone);
}

void PlanOps::add_copy(std::uint64_t to, std::uint64_t from, std::uint64_t size) {
  if (size == 0) return;
  crucible_op op{};
  op.struct_size = sizeof op;
  op.kind = CRUCIBLE_OP_COPY;
  op.size = size;
  ops_.push_back(op);
  addresses_.push_back({to, from});
  buffers_.emplace_back();
  scalars_.emplace_back();
  description_of_.push_back(graph::kNone);
}

/// Pointers last: the arrays no longer move (their heap memory stays where it is when the PlanOps is moved).
void PlanOps::link() {
  for (std::size_t i = 0; i < ops_.size(); ++i) {
    ops_[i].buffers = addresses_[i].data();
    ops_[i].buffer_count = static_cast<std::uint32_t>(addresses_[i].size());
    ops_[i].scalars = scalars_[i].data();
    ops_[i].scalar_count = static_cast<std::uint32_t>(scalars_[i].size());
    if (description_of_[i] != graph::kNone) ops_[i].library = &descriptions_[description_of_[i]];
  }
}

}  // namespace crucible::runtime
