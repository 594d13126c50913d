// CRUCIBLE_POISON=1: what is dead is overwritten, and behind each buffer lies a red zone that nobody may write to. Each
// step is a piece of its own, so that the step which did it can be named.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "runtime/plan/plan_ops.hpp"
#include "runtime/run/session_state.hpp"

namespace crucible::runtime {

/// Everything but the buffers that carry something from one iteration to the next. Those are alive all the time, so no
/// other buffer shares bytes with them.
Result<void> Session::State::poison_transient() {
  std::vector<bool> carried(placement.buffers.size(), false), carried_on_host(placement.host_buffers.size(), false);
  const auto carry = [&](graph::ValueId value) {
    if (schedule.on_host(value)) {
      carried_on_host[placement.host_of[value]] = true;
    } else {
      carried[placement.buffer_of[value]] = true;
    }
  };
  for (const graph::State& state : program->states) carry(state.start);
  for (const graph::Constant& constant : program->constants) carry(constant.value);
  for (std::size_t buffer = 0; buffer < carried_on_host.size(); ++buffer) {
    if (carried_on_host[buffer]) continue;
    const auto range =
        std::span(host_arena).subspan(placement.host_plan.offsets[buffer], placement.host_buffers[buffer].size_bytes);
    std::ranges::fill(range, std::byte{kPoisonByte});
  }
  for (std::size_t buffer = 0; buffer < carried.size(); ++buffer) {
    if (carried[buffer] || placement.buffers[buffer].size_bytes == 0) continue;
    const std::uint64_t offset = placement.plan.offsets[buffer], size = placement.buffers[buffer].size_bytes;
    CRUCIBLE_TRY_VOID(arena->fill(offset, size, kPoisonByte));
    if (second_arena) CRUCIBLE_TRY_VOID(second_arena->fill(offset, size, kPoisonByte));
  }
  return {};
}

/// The red zones of the buffers whose life begins with this step; of step 0 also those that are alive before it.
Result<void> Session::State::fill_red_zones(std::uint32_t step) {
  if (placement.red_zone_bytes == 0) return {};
  for (std::size_t buffer = 0; buffer < placement.buffers.size(); ++buffer) {
    const memory::Buffer& born = placement.buffers[buffer];
    if (born.begin != step || born.size_bytes == 0) continue;
    const std::uint64_t zone = placement.plan.offsets[buffer] + born.size_bytes - placement.red_zone_bytes;
    CRUCIBLE_TRY_VOID(arena->fill(zone, placement.red_zone_bytes, kRedZoneByte));
    if (second_arena) CRUCIBLE_TRY_VOID(second_arena->fill(zone, placement.red_zone_bytes, kRedZoneByte));
  }
  return {};
}

/// Those of the buffers that the step had in its hands.
Result<void> Session::State::check_red_zones(std::uint32_t step, bool on_second) {
  if (placement.red_zone_bytes == 0) return {};
  std::vector<std::uint32_t> touched;
  if (placement.scratch_of[step] != graph::kNone) touched.push_back(placement.scratch_of[step]);
  for (const kernel::BufferArgument& argument : schedule.steps[step].buffers) {
    if (!schedule.on_host(argument.value)) touched.push_back(placement.buffer_at(argument.value, place));
  }
  std::vector<std::byte> bytes(placement.red_zone_bytes);
  for (const std::uint32_t buffer : touched) {
    const std::uint64_t size = placement.buffers[buffer].size_bytes;
    if (size == 0) continue;
    const std::uint64_t end = placement.plan.offsets[buffer] + size - placement.red_zone_bytes;
    CRUCIBLE_TRY_VOID((on_second ? *second_arena : *arena).read(end, bytes));
    const auto damaged = std::ranges::find_if(bytes, [](std::byte byte) { return byte != std::byte{kRedZoneByte}; });
    if (damaged == bytes.end()) continue;
    return Error{
        ErrorCode::kCheckFailed,
        fmt::format("step {} ({}) wrote {} bytes behind the end of a buffer of {} bytes at offset {} that holds {}",
                    step, step_text(step), damaged - bytes.begin() + 1, size - placement.red_zone_bytes,
                    placement.plan.offsets[buffer], holder_text(buffer))};
  }
  return {};
}

/// "matmul, add of blocks.0 at train.py:31": enough to find it.
std::string Session::State::step_text(std::uint32_t step) const {
  std::string text;
  for (const graph::OpId id : schedule.steps[step].ops) {
    const graph::Op& op = program->ops[id];
    text += fmt::format("{}{}", text.empty() ? "" : ", ", graph::name(op.kind));
    if (op.source >= program->sources.size()) continue;
    const graph::Source& source = program->sources[op.source];
    return fmt::format("{} of {} {}", text, source.op, source.site);
  }
  return text;
}

std::string Session::State::holder_text(std::uint32_t buffer) const {
  if (const auto second = std::ranges::find(placement.second_of, buffer); second != placement.second_of.end())
    return name_of(static_cast<graph::ValueId>(second - placement.second_of.begin()));
  const auto found = std::ranges::find(placement.buffer_of, buffer);
  return found == placement.buffer_of.end() ? "a step's workspace"
                                            : name_of(static_cast<graph::ValueId>(found - placement.buffer_of.begin()));
}

}  // namespace crucible::runtime
