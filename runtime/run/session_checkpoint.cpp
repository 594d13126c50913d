// States taken out of a session and put into another one, and what is said when a device is lost: see Session::save(),
// and reroute.hpp for who uses both.
#include <fmt/format.h>

#include <charconv>

#include "runtime/run/session_state.hpp"

namespace crucible::runtime {

std::uint64_t Checkpoint::bytes() const {
  std::uint64_t sum = 0;
  for (const std::vector<std::byte>& state : states) sum += state.size();
  return sum;
}

Result<void> Session::save(Checkpoint& into) const {
  const std::vector<graph::State>& states = state_->program->states;
  into.states.resize(states.size());
  NearReads reads = state_->reads_of(state_->near_states);
  for (std::size_t i = 0; i < states.size(); ++i) {
    if (!is_changed(states[i])) continue;  // as the recording has it
    CRUCIBLE_TRY(into.states[i], state_->final_bytes(states[i], reads));
  }
  into.next_iteration = next_;
  return {};
}

Result<void> Session::restore(const Checkpoint& from) {
  const std::vector<graph::State>& states = state_->program->states;
  if (from.states.size() != states.size()) {
    return Error{ErrorCode::kInternal,
                 fmt::format("a checkpoint of {} states, the program has {}", from.states.size(), states.size())};
  }
  CRUCIBLE_TRY_VOID(reset());
  CRUCIBLE_TRY_VOID(state_->write_together([&] { return state_->write_states(from); }));
  for (std::size_t i = 0; i < states.size(); ++i) {
    if (!from.states[i].empty()) set_changed(i);
  }
  next_ = from.next_iteration;
  return {};
}

Result<void> Session::State::write_states(const Checkpoint& from) {
  const std::vector<graph::State>& states = program->states;
  for (std::size_t i = 0; i < states.size(); ++i) {
    if (from.states[i].empty()) continue;
    const std::uint64_t size = bytes_of(program->values[states[i].start]);
    if (from.states[i].size() != size) {
      return Error{ErrorCode::kInternal, fmt::format("a checkpoint has {} bytes of {}, the program {}",
                                                     from.states[i].size(), name_of(states[i].start), size)};
    }
    CRUCIBLE_TRY_VOID(write_bytes(states[i].start, from.states[i]));
  }
  return {};
}

const backend::Device* Session::lost() const {
  for (const auto* device : {&state_->device, &state_->fallback.device}) {
    if (*device && (*device)->lost() != nullptr) return device->get();
  }
  return nullptr;
}

const backend::Device* Session::device() const { return state_->device.get(); }

/// A driver that runs a whole list does not say in which kernel it was lost; what a plugin knows of it is told.
Error Session::State::with_lost_steps(const Piece& piece, const Error& error) const {
  const backend::Device* const by = piece.segment.on_second ? fallback.device.get() : device.get();
  const backend::LostDevice* const lost = by == nullptr ? nullptr : by->lost();
  if (lost == nullptr) return error;  // else a write for the next iteration may have met the loss before this plan did
  const std::uint32_t begin = piece.segment.begin, end = piece.segment.end;
  std::string where = fmt::format("in one of steps {} to {} (of {})", begin, end - 1, schedule.steps.size());
  std::uint32_t op = 0;
  const bool has_op =
      !lost->op.empty() && std::from_chars(lost->op.data(), lost->op.data() + lost->op.size(), op).ec == std::errc();
  for (std::uint32_t step = begin; has_op && step < end && step - begin < piece.op_of_step.size(); ++step) {
    if (piece.op_of_step[step - begin] == op)
      where = fmt::format("in step {} of {}: {}", step, schedule.steps.size(), step_text(step));
  }
  if (!lost->kernel.empty()) where += fmt::format(", kernel {}", lost->kernel);
  return {error.code, fmt::format("{}: {}", where, error.message)};
}

}  // namespace crucible::runtime
