// A session without a device: the reference interpreter of core/graph runs the program on the host, or in strict
// numerics that of core/kernel its kernels. No plan, no compiler; everything else (states, inputs, slots, outputs,
// verification) is as with a device.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "core/graph/opaque.hpp"
#include "runtime/run/session_state.hpp"

namespace crucible::runtime {

Result<void> Session::State::interpret_with(kernel::Numerics numerics) {
  if (!graph::opaque_uses(*program).empty()) {
    return Error{ErrorCode::kBadInput,
                 graph::opaque_list(*program) + "\nthe reference interpreter runs neutral ops alone"};
  }
  const bool is_strict = numerics == kernel::Numerics::kStrict;
  const kernel::Options strict{.claims = {}, .numerics = kernel::Numerics::kStrict};
  if (is_strict) {
    if (auto parts = kernel::in_parts(*program, strict))
      program = std::make_shared<const graph::Program>(*std::move(parts));
  }
  interpreted.emplace().values.resize(program->values.size());
  if (is_strict) {
    CRUCIBLE_TRY(kernel::Schedule made, kernel::schedule(*program, strict));
    CRUCIBLE_TRY(kernel::ScheduleInterpreter interpreter, kernel::ScheduleInterpreter::create(*program, made));
    interpreted->kernels.emplace(std::move(made), std::move(interpreter));
  }
  return {};
}

void Session::State::forget_values() {
  interpreted->values.assign(program->values.size(), {});
  interpreted->is_run = false;
}

bool Session::is_reference() const { return state_->interpreted.has_value(); }

/// The end of each state becomes its start. All ends are taken before any start is written: two states may change
/// places.
void Session::State::carry_interpreted_states() {
  if (!interpreted->is_run) return;
  std::vector<graph::Bytes> ends;
  for (const graph::State& state : program->states) ends.push_back(interpreted->values[state.end]);
  for (std::size_t i = 0; i < ends.size(); ++i) interpreted->values[program->states[i].start] = std::move(ends[i]);
  interpreted->is_run = false;
}

Result<void> Session::State::interpret() {
  auto ran = interpreted->kernels
                 ? interpreted->kernels->interpreter.run(*program, interpreted->kernels->schedule,
                                                         std::move(interpreted->values), interpreted->slots, {}, false)
                 : graph::run_iteration(*program, std::move(interpreted->values), interpreted->slots);
  if (!ran) {
    interpreted->values.assign(program->values.size(), {});  // reset() loads everything again
    return ran.error();
  }
  interpreted->values = *std::move(ran);
  interpreted->is_run = true;
  return {};
}

Result<void> Session::State::read_bytes(graph::ValueId value, std::uint64_t offset, std::span<std::byte> bytes) const {
  if (bytes.empty()) return {};
  if (!interpreted && schedule.on_host(value)) {
    const std::uint64_t from = placement.host_plan.offsets[placement.host_of[value]] + offset;
    std::ranges::copy(std::span(host_arena).subspan(from, bytes.size()), bytes.begin());
    return {};
  }
  if (!interpreted) return arena->read(offset_of(value) + offset, bytes);
  const graph::Bytes& from = interpreted->values[value];
  if (offset > from.size() || bytes.size() > from.size() - offset) {
    return Error{ErrorCode::kInternal, fmt::format("{} has {} bytes, {} at {} are asked for", name_of(value),
                                                   from.size(), bytes.size(), offset)};
  }
  std::memcpy(bytes.data(), from.data() + offset, bytes.size());
  return {};
}

}  // namespace crucible::runtime
