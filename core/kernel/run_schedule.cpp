// Steps on host buffers: see run_schedule.hpp.
#include "core/kernel/run_schedule.hpp"

#include <fmt/format.h>

#include <map>
#include <memory>
#include <utility>

#include "core/kernel/ir/interpreter.hpp"
#include "core/kernel/ir/read_ir.hpp"

namespace crucible::kernel {
namespace {

/// Values that share one buffer, as parents of a forest.
std::vector<graph::ValueId> shared_buffers(const graph::Program& program, const Schedule& schedule, bool in_place) {
  std::vector<graph::ValueId> root(program.values.size());
  for (graph::ValueId v = 0; v < root.size(); ++v) root[v] = v;
  if (!in_place) return root;
  // In the order of the steps, so that an operand already has its final root.
  for (std::uint32_t s = 0; s < schedule.steps.size(); ++s) {
    for (const InPlace& pair : schedule.in_place) {
      if (pair.step == s) root[pair.result] = root[pair.operand];
    }
  }
  return root;
}

/// "add, multiply at train.py:24"
std::string describe(const graph::Program& program, const Step& step) {
  std::string text;
  for (const graph::OpId op : step.ops) {
    if (text.size() > 60) {
      text += ", ...";
      break;
    }
    text += (text.empty() ? "" : ", ") + std::string(graph::name(program.ops[op].kind));
  }
  const std::uint32_t source = program.ops[step.ops.front()].source;
  if (source < program.sources.size() && !program.sources[source].site.empty())
    text += " at " + program.sources[source].site;
  return text;
}

/// One per buffer, in elements of the kernels that read and write it.
class Watches {
 public:
  MemoryWatch* of(graph::ValueId root, std::int64_t elements, bool is_defined) {
    Entry& entry = watches_[root];
    if (!entry.watch || entry.elements != elements)
      entry = {elements, std::make_unique<MemoryWatch>(elements, is_defined || entry.watch)};
    return entry.watch.get();
  }

 private:
  struct Entry {
    std::int64_t elements = 0;
    std::unique_ptr<MemoryWatch> watch;
  };
  std::map<graph::ValueId, Entry> watches_;
};

}  // namespace

std::vector<std::uint64_t> scalars_of(const Step& step, std::span<const graph::Number> slots) {
  std::vector<std::uint64_t> scalars;
  for (const graph::Scalar& scalar : step.scalars) {
    const graph::Number fixed = scalar.is_integer ? graph::Number(scalar.integer) : graph::Number(scalar.real);
    scalars.push_back((scalar.slot == graph::kNone ? fixed : slots[scalar.slot]).bits());
  }
  return scalars;
}

Result<std::vector<graph::Bytes>> run_schedule(const graph::Program& program, const Schedule& schedule,
                                               std::vector<graph::Bytes> values, std::span<const graph::Number> slots,
                                               const RunOptions& options,
                                               const std::function<Result<void>(const Launch&)>& launch) {
  values.resize(program.values.size());
  const auto root = shared_buffers(program, schedule, options.in_place);
  for (graph::ValueId v = 0; v < values.size(); ++v) {
    const std::size_t bytes =
        static_cast<std::size_t>(program.values[v].elements) * size_bytes(program.values[v].dtype);
    const bool has_buffer = schedule.materialized.empty() || schedule.materialized[v];
    if (program.values[v].kind == graph::ValueKind::kTemporary && root[v] == v && has_buffer)
      values[v].assign(bytes, options.poison ? std::byte{0xa5} : std::byte{0});
  }
  for (const Step& step : schedule.steps) {
    if (step.kind == StepKind::kTransfer) {
      values[root[step.buffers[1].value]] = values[root[step.buffers[0].value]];
      continue;
    }
    if (step.kind != StepKind::kLaunch) return Error{ErrorCode::kInternal, "a library call where there is no library"};
    std::vector<graph::Bytes*> buffers;
    std::vector<graph::ValueId> roots;
    for (const BufferArgument& argument : step.buffers) {
      roots.push_back(root[argument.value]);
      buffers.push_back(&values[roots.back()]);
    }
    const std::vector<std::uint64_t> scalars = scalars_of(step, slots);
    for (int piece = options.pieces - 1; piece >= 0; --piece) {
      const std::int64_t begin = step.grid * piece / options.pieces, end = step.grid * (piece + 1) / options.pieces;
      if (begin < end) CRUCIBLE_TRY_VOID(launch({step, buffers, roots, scalars, begin, end}));
    }
  }
  for (graph::ValueId v = 0; v < values.size(); ++v) {
    if (root[v] != v) values[v] = values[root[v]];
  }
  return values;
}

Result<ScheduleInterpreter> ScheduleInterpreter::create(const graph::Program& program, const Schedule& schedule) {
  for (const Step& step : schedule.steps) {
    if (step.kind == StepKind::kLaunch && !schedule.kernels[step.kernel].is_opaque()) continue;
    return Error{ErrorCode::kInternal,
                 fmt::format("the interpreter runs generated kernels alone: {}", describe(program, step))};
  }
  ScheduleInterpreter interpreter;
  for (const Kernel& kernel : schedule.kernels) {
    CRUCIBLE_TRY(KernelIr ir, read_ir(kernel.ir));
    interpreter.kernels_.push_back(std::move(ir));
  }
  return interpreter;
}

Result<std::vector<graph::Bytes>> ScheduleInterpreter::run(const graph::Program& program, const Schedule& schedule,
                                                           std::vector<graph::Bytes> values,
                                                           std::span<const graph::Number> slots,
                                                           const RunOptions& options, bool watch) const {
  std::uint64_t pass = 0;
  Watches watches;
  const Step* present = nullptr;
  std::uint64_t before_present =
      0;  // passes of one launch are numbered on through its slices, which may run in any order
  return run_schedule(program, schedule, std::move(values), slots, options, [&](const Launch& launch) -> Result<void> {
    const KernelIr& kernel = kernels_[launch.step.kernel];
    if (present != &launch.step) before_present = pass;
    present = &launch.step;
    std::vector<InterpretedBuffer> buffers;
    for (std::size_t i = 0; i < launch.buffers.size(); ++i) {
      const auto elements = static_cast<std::int64_t>(launch.buffers[i]->size() / size_bytes(kernel.buffers[i].type));
      const bool is_defined = program.values[launch.roots[i]].kind != graph::ValueKind::kTemporary;
      buffers.push_back(
          {launch.buffers[i]->data(), elements, watch ? watches.of(launch.roots[i], elements, is_defined) : nullptr});
    }
    const auto done = interpret(kernel, buffers, launch.scalars, launch.begin, launch.end, {before_present, &pass});
    if (done) return {};
    return Error{done.error().code, fmt::format("{}, kernel {} of {}", done.error().message, launch.step.kernel,
                                                describe(program, launch.step))};
  });
}

}  // namespace crucible::kernel
