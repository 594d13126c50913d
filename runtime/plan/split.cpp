#include "runtime/plan/split.hpp"

#include <fmt/format.h>

#include <array>

namespace crucible::runtime {
namespace {

using graph::kNone;
using graph::ValueId;

class Splitter {
 public:
  Splitter(const graph::Program& program, const Placement& placement, bool one_step_each)
      : program_(program),
        placement_(placement),
        one_step_each_(one_step_each),
        permanent_(program.values.size(), false) {
    for (auto& valid : valid_) valid.assign(program.values.size(), false);
    for (const graph::State& state : program.states) start_with(state.start, state.end == state.start);
    for (const graph::Input& input : program.inputs) start_with(input.value, false);
    for (const graph::Constant& constant : program.constants) start_with(constant.value, true);
  }

  Result<void> add_step(const kernel::Schedule& schedule, std::uint32_t index, bool on_second) {
    const bool is_transfer = schedule.steps[index].kind == kernel::StepKind::kTransfer;
    if (out_.segments.empty() || one_step_each_ || out_.segments.back().on_second != on_second || is_transfer ||
        out_.segments.back().is_transfer) {
      out_.segments.push_back({on_second, index, index, {}, false, is_transfer});
    }
    Segment& segment = out_.segments.back();
    segment.end = index + 1;
    for (const kernel::BufferArgument& argument : schedule.steps[index].buffers) {
      if (schedule.on_host(argument.value)) continue;
      // A value that is written piece by piece must have its earlier pieces here too.
      const bool has_content = valid_[0][argument.value] || valid_[1][argument.value];
      if (!argument.written || has_content) CRUCIBLE_TRY_VOID(need(argument.value, segment, index));
    }
    for (const kernel::BufferArgument& argument : schedule.steps[index].buffers) {
      if (!argument.written) continue;
      valid_[on_second][argument.value] = true;
      valid_[!on_second][argument.value] = false;
    }
    return {};
  }

  /// What the host and the next iteration look for must be in the first arena.
  Result<Split> finish(std::uint32_t steps) {
    Segment last = {false, steps, steps, {}, true, false};
    for (const graph::State& state : program_.states) CRUCIBLE_TRY_VOID(need(state.end, last, steps));
    for (const graph::Output& output : program_.outputs) {
      if (!output.operand.is_scalar()) CRUCIBLE_TRY_VOID(need(output.operand.value, last, steps));
    }
    const bool ends_on_first =
        !out_.segments.empty() && !out_.segments.back().on_second && !out_.segments.back().is_transfer;
    if (ends_on_first && last.before.empty()) {
      out_.segments.back().homes = true;
    } else {
      out_.segments.push_back(std::move(last));
    }
    return std::move(out_);
  }

 private:
  void start_with(ValueId value, bool is_permanent) {
    valid_[0][value] = true;
    permanent_[value] = is_permanent;
  }

  Result<void> need(ValueId value, Segment& segment, std::uint32_t step) {
    if (valid_[segment.on_second][value]) return {};
    if (!valid_[!segment.on_second][value]) {
      return Error{ErrorCode::kInternal, fmt::format("split: step {} reads value {}, which nobody wrote", step, value)};
    }
    valid_[segment.on_second][value] = true;
    const std::uint64_t size =
        static_cast<std::uint64_t>(program_.values[value].elements) * size_bytes(program_.values[value].dtype);
    if (size == 0 || placement_.buffer_of[value] == kNone) return {};
    if (permanent_[value]) {
      out_.loaded_twice.push_back(value);
      return {};
    }
    segment.before.push_back({value, placement_.plan.offsets[placement_.buffer_of[value]], size});
    ++out_.copies;
    out_.bytes += size;
    return {};
  }

  const graph::Program& program_;
  const Placement& placement_;
  const bool one_step_each_;
  std::array<std::vector<bool>, 2> valid_;  // per arena, per value
  std::vector<bool> permanent_;             // per value: the same bytes in every iteration
  Split out_;
};

}  // namespace

Result<Split> split(const graph::Program& program, const kernel::Schedule& schedule, const Placement& placement,
                    const std::vector<bool>& on_second, bool one_step_each) {
  if (on_second.size() != schedule.steps.size()) {
    return Error{ErrorCode::kInternal,
                 fmt::format("split: {} answers for {} steps", on_second.size(), schedule.steps.size())};
  }
  Splitter splitter(program, placement, one_step_each);
  for (std::uint32_t step = 0; step < schedule.steps.size(); ++step) {
    CRUCIBLE_TRY_VOID(splitter.add_step(schedule, step, on_second[step]));
  }
  return splitter.finish(static_cast<std::uint32_t>(schedule.steps.size()));
}

}  // namespace crucible::runtime
