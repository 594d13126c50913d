#include "runtime/run/small_run.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "runtime/plan/library_calls.hpp"
#include "runtime/plan/plan_ops.hpp"

namespace crucible::runtime {

Result<SmallRun> SmallRun::make(const std::shared_ptr<backend::Device>& device, graph::Program program,
                                kernel::Numerics numerics, const Options& wanted) {
  SmallRun made;
  LibraryClaims claims(device);
  kernel::Options options;
  options.numerics = numerics;
  options.fuse = wanted.fuse;
  options.device = shape_of(*device);
  options.device.cut = wanted.cut;
  if (wanted.by_library) options.claims = [&claims](const kernel::LibraryCall& call) { return claims.takes(call); };
  const auto shared = std::make_shared<const graph::Program>(std::move(program));
  CRUCIBLE_TRY(kernel::Schedule schedule, kernel::schedule(*shared, options));
  const auto scratch_of = [&claims](const kernel::Step& step) {
    return step.kind == kernel::StepKind::kLibrary ? claims.scratch_bytes(step.library) : 0;
  };
  CRUCIBLE_TRY(made.arranged_, arrange(shared, std::move(schedule), scratch_of, {.inputs_ahead = false}));
  std::vector<backend::KernelSource> kernels;
  for (const kernel::Kernel& kernel : made.arranged_.schedule.kernels)
    kernels.push_back({kernel.name, kernel.opaque, kernel.ir});
  if (!kernels.empty()) {
    CRUCIBLE_TRY(backend::Module module, backend::Module::compile(device, kernels));
    made.module_.emplace(std::move(module));
  }
  const std::uint64_t size = std::max(made.arranged_.placement.plan.peak_bytes, kAlignment);
  CRUCIBLE_TRY(backend::Buffer arena, backend::Buffer::allocate(device, size, kAlignment));
  made.arena_.emplace(std::move(arena));
  const FindKernel find = [&made](std::string_view name) -> Result<crucible_kernel*> {
    if (!made.module_) return Error{ErrorCode::kInternal, fmt::format("kernel {} was not compiled", name)};
    return made.module_->kernel(name);
  };
  CRUCIBLE_TRY(const PlanOps ops, PlanOps::build(*made.arranged_.program, made.arranged_.schedule,
                                                 made.arranged_.placement, made.arena_->address(), find, false));
  CRUCIBLE_TRY(backend::Plan plan, backend::Plan::build(device, ops.ops(), 0));
  made.plan_.emplace(std::move(plan));
  return made;
}

std::uint64_t SmallRun::offset_of(graph::ValueId value) const {
  return arranged_.placement.plan.offsets[arranged_.placement.buffer_of[value]];
}

std::uint64_t SmallRun::size_of(graph::ValueId value) const {
  const graph::Value& of = arranged_.program->values[value];
  return static_cast<std::uint64_t>(of.elements) * size_bytes(of.dtype);
}

Result<void> SmallRun::write(graph::ValueId value, std::span<const std::byte> bytes) {
  if (bytes.size() != size_of(value))
    return Error{ErrorCode::kInternal,
                 fmt::format("value {} has {} bytes, not {}", value, size_of(value), bytes.size())};
  if (arranged_.placement.buffer_of[value] == graph::kNone) return {};  // nothing reads it
  return arena_->write(offset_of(value), bytes);
}

Result<void> SmallRun::run() { return plan_->replay(); }

Result<std::vector<std::byte>> SmallRun::read(graph::ValueId value) const {
  std::vector<std::byte> bytes(size_of(value));
  CRUCIBLE_TRY_VOID(arena_->read(offset_of(value), bytes));
  return bytes;
}

}  // namespace crucible::runtime
