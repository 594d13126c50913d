// The stages of arranging, each with a look at the placement that it leads to. See arrange.hpp.
#include "runtime/plan/arrange.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "core/base/progress.hpp"
#include "core/budget/order.hpp"
#include "core/budget/rebuild.hpp"
#include "core/budget/recompute.hpp"

namespace crucible::runtime {
namespace {

class Arranger {
 public:
  Arranger(std::shared_ptr<const graph::Program> program, kernel::Schedule schedule,
           const std::function<std::uint64_t(const kernel::Step&)>& scratch_of, const MemoryOptions& memory)
      : program_(std::move(program)), schedule_(std::move(schedule)), scratch_of_(scratch_of), memory_(memory) {}

  /// The budget is one without red zones; they are put in when all else is decided.
  Result<Arranged> run(std::uint64_t red_zone_bytes) {
    CRUCIBLE_TRY(Arranged arranged, decide());
    report_progress("", 0, 0);
    if (red_zone_bytes == 0) return arranged;
    CRUCIBLE_TRY(arranged.placement, place(*arranged.program, arranged.schedule, scratch_of(arranged.schedule),
                                           red_zone_bytes, input_places(), memory_.kept_in_zones.get()));
    return arranged;
  }

 private:
  InputPlaces input_places() const {
    const bool is_scarce = memory_.budget_bytes != 0 || memory_.objective == Objective::kLeastMemory;
    return memory_.inputs_ahead && !is_scarce ? InputPlaces::kTwo : InputPlaces::kOne;
  }

  Result<Arranged> decide() {
    report_progress("measuring the memory of the steps", 0, 0);
    budget::Line line = budget::make_line(*program_, schedule_, scratch_of(schedule_), kAlignment, memory_.costs);
    for (const budget::Node& node : line.nodes) report_.step_ns += node.cost_ns;
    if (memory_.kept) keep_at_home(line);
    report_.bound_as_recorded = report_.bound_ordered = budget::measure(line).peak + others_bytes_;
    // Two devices take turns in the order of the recording; another one could make them take more.
    const bool has_opaque = std::ranges::any_of(schedule_.kernels, &kernel::Kernel::is_opaque);
    if (memory_.objective != Objective::kFastest && !has_opaque) {
      report_progress("ordering the steps", 0, 0);
      const budget::Ordered ordered = budget::order_for_memory(line);
      report_.bound_ordered = ordered.peak_after + others_bytes_;
      report_.moved = ordered.moved;
    }
    CRUCIBLE_TRY(Arranged arranged, settle(line));
    const bool is_met = memory_.budget_bytes == 0 || arranged.placement.plan.peak_bytes <= memory_.budget_bytes;
    if (is_met && memory_.objective != Objective::kLeastMemory) return arranged;
    return shrink(std::move(line), std::move(arranged));
  }

  /// Others run over the same states in turn: they find them where they are. What others alone read lies there, too.
  void keep_at_home(budget::Line& line) {
    others_bytes_ = memory_.kept->size_bytes;
    for (budget::Tensor& tensor : line.tensors) {
      tensor.may_leave = false;
      if (tensor.is_carried) others_bytes_ -= std::min(others_bytes_, tensor.bytes);
    }
  }

  /// Down the stair until the budget is met; without one, to the bottom.
  Result<Arranged> shrink(budget::Line line, Arranged smallest) {
    budget::Recompute search(std::move(line));
    const bool to_the_bottom = memory_.objective == Objective::kLeastMemory;
    while (true) {
      report_progress("looking for less memory", 0, 0);
      const bool is_lower = search.descend();
      if (!is_lower || (!to_the_bottom && search.peak() + others_bytes_ <= memory_.budget_bytes)) {
        CRUCIBLE_TRY(Arranged arranged, settle(search.line()));
        if (arranged.placement.plan.peak_bytes < smallest.placement.plan.peak_bytes) smallest = std::move(arranged);
      }
      const bool is_met = memory_.budget_bytes == 0 || smallest.placement.plan.peak_bytes <= memory_.budget_bytes;
      if (is_met && (!to_the_bottom || !is_lower)) return smallest;
      if (!is_lower && memory_.or_smallest) return smallest;
      if (!is_lower) return over_budget(memory_, *smallest.program, smallest.report, smallest.placement);
    }
  }

  std::vector<std::uint64_t> scratch_of(const kernel::Schedule& schedule) const {
    std::vector<std::uint64_t> bytes;
    for (const kernel::Step& step : schedule.steps) bytes.push_back(scratch_of_(step));
    return bytes;
  }

  /// A constant that nothing reads goes to the host without a step more.
  bool has_left(const budget::Line& line) const {
    for (graph::ValueId id = 0; id < program_->values.size(); ++id) {
      if (line.tensors[id].is_on_host != schedule_.on_host(id)) return true;
    }
    return false;
  }

  /// The line as a program, a schedule and a placement.
  Result<Arranged> settle(const budget::Line& line) const {
    Arranged arranged{.program = program_, .schedule = {}, .placement = {}, .report = report_};
    const bool is_as_it_was = line.nodes.size() == schedule_.steps.size() && report_.moved == 0 && !has_left(line);
    if (is_as_it_was) {
      arranged.schedule = schedule_;
    } else {
      CRUCIBLE_TRY(budget::Rebuilt rebuilt, budget::rebuild(line, *program_, schedule_));
      CRUCIBLE_TRY_VOID(graph::verify(rebuilt.program));
      arranged.program = std::make_shared<const graph::Program>(std::move(rebuilt.program));
      arranged.schedule = std::move(rebuilt.schedule);
      arranged.report.is_repeat = std::move(rebuilt.is_repeat);
      for (const budget::Node& node : line.nodes) {
        if (node.kind == budget::NodeKind::kTransfer) {
          ++arranged.report.transfers;
          arranged.report.transfer_bytes += line.tensors[node.arguments[0].tensor].bytes;
        }
        if (!node.is_repeat) continue;
        ++arranged.report.repeats;
        arranged.report.repeat_ns += node.cost_ns;
      }
    }
    report_progress("placing the buffers", 0, 0);
    CRUCIBLE_TRY(arranged.placement, place(*arranged.program, arranged.schedule, scratch_of(arranged.schedule), 0,
                                           input_places(), memory_.kept.get()));
    arranged.report.peak_bytes = arranged.placement.plan.peak_bytes;
    return arranged;
  }

  std::shared_ptr<const graph::Program> program_;
  kernel::Schedule schedule_;
  const std::function<std::uint64_t(const kernel::Step&)>& scratch_of_;
  const MemoryOptions& memory_;
  std::uint64_t others_bytes_ = 0;  // always in the arena, and none of this program
  ArrangeReport report_;
};

}  // namespace

budget::Costs costs_of(const hardware::DeviceProfile& device) {
  budget::Costs costs;
  const auto per_ns = [](std::uint64_t per_second) { return static_cast<double>(per_second) / 1e9; };
  if (device.f32_flops_per_second() > 0) costs.flops_per_ns = per_ns(device.f32_flops_per_second());
  if (device.memory_bytes_per_second() > 0) costs.bytes_per_ns = per_ns(device.memory_bytes_per_second());
  if (device.host_link_bytes_per_second() > 0) {
    costs.host_bytes_per_ns = costs.input_bytes_per_ns = per_ns(device.host_link_bytes_per_second());
  }
  return costs;
}

Error over_budget(const MemoryOptions& memory, const graph::Program& program, const ArrangeReport& report,
                  const Placement& placement) {
  const auto bytes_of = [&](graph::ValueId value) {
    return static_cast<std::uint64_t>(program.values[value].elements) * size_bytes(program.values[value].dtype);
  };
  std::uint64_t carried = 0;
  for (const graph::State& state : program.states) carried += bytes_of(state.start);
  for (const graph::Constant& constant : program.constants) carried += bytes_of(constant.value);
  if (memory.kept) carried = memory.kept->size_bytes;
  std::string rest = fmt::format("{} of them are states and constants, which are always there", carried);
  if (!memory.kept && memory.costs.host_bytes_per_ns > 0) {
    rest = fmt::format("{} more wait on the host", placement.host_plan.peak_bytes);
  } else if (memory.kept) {
    rest += " for all variants";
  } else {
    rest += " on a device without a link to its host (--device-profile)";
  }
  return {ErrorCode::kBadInput,
          fmt::format("the memory budget of {} bytes cannot be met: the smallest that works is {} bytes, with {} steps "
                      "repeated and {} transfers ({} bytes without any); {}",
                      memory.budget_bytes, report.peak_bytes, report.repeats, report.transfers, report.bound_ordered,
                      rest)};
}

Result<Arranged> arrange(std::shared_ptr<const graph::Program> program, kernel::Schedule schedule,
                         const std::function<std::uint64_t(const kernel::Step&)>& scratch_of,
                         const MemoryOptions& memory, std::uint64_t red_zone_bytes) {
  return Arranger(std::move(program), std::move(schedule), scratch_of, memory).run(red_zone_bytes);
}

}  // namespace crucible::runtime
