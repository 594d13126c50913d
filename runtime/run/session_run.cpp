// An iteration on its way: submitted to one device or two, waited for, profiled. The plans are those of
// session_pieces.cpp.
//
// Pieces are submitted in the order of the schedule, and each device does its own in that order. A piece that needs
// what the other device makes waits until that is there, and until its own device uses none of the places into which it
// is copied; one that needs nothing of the other device is submitted while that one works, and the two overlap.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>

#include "runtime/run/session_state.hpp"

namespace crucible::runtime {

Result<void> Session::State::wait_for(InFlight& flight) {
  if (flight.is_done) return {};
  const Piece& piece = pieces[flight.piece];
  Submissions& submissions = submissions_of(piece);
  Result<void> done = submissions.wait(flight.point);
  if (!done) return with_lost_steps(piece, done.error());
  flight.is_done = true;
  flight.times = submissions.times(flight.point);
  return {};
}

void Session::State::settle() {
  if (!in_flight.empty()) {
    submitted->settle();
    if (second_submitted) second_submitted->settle();
  }
  in_flight.clear();
}

Result<void> Session::State::wait_for_device(bool on_second) {
  for (InFlight& flight : in_flight) {
    if (pieces[flight.piece].segment.on_second == on_second) CRUCIBLE_TRY_VOID(wait_for(flight));
  }
  return {};
}

/// What the piece needs is there. With poison each piece is alone: what lies around its buffers is looked at.
Result<void> Session::State::submit_piece(std::size_t index, bool starts) {
  Piece& piece = pieces[index];
  const Segment& segment = piece.segment;
  const bool has_poison = options.poison && segment.begin < segment.end;
  if (!segment.before.empty() || has_poison || segment.is_transfer) {
    CRUCIBLE_TRY_VOID(wait_for_device(false));
    if (second_submitted) CRUCIBLE_TRY_VOID(wait_for_device(true));
  }
  CRUCIBLE_TRY_VOID(copy_into(segment));
  if (has_poison) CRUCIBLE_TRY_VOID(fill_red_zones(segment.begin));
  if (segment.is_transfer) {
    const std::uint64_t began_at = steady_ns();
    const Result<void> done = transfer(schedule.steps[segment.begin], segment.begin);
    if (!done) return with_lost_steps(piece, done.error());
    note(Busy::With::kCopies, loaded_iteration, began_at);
  } else {
    Submissions& submissions = submissions_of(piece);
    const Result<std::uint64_t> point = submissions.submit(*piece.plans[place]);
    if (!point) return with_lost_steps(piece, point.error());
    in_flight.push_back({index, *point});
    if (second_submitted || starts) CRUCIBLE_TRY_VOID(submissions.start());
  }
  if (!has_poison) return {};
  if (!segment.is_transfer) CRUCIBLE_TRY_VOID(wait_for(in_flight.back()));
  return check_red_zones(segment.begin, segment.on_second);
}

Result<void> Session::State::submit(bool starts) {
  for (std::size_t index = 0; index < pieces.size(); ++index) {
    Result<void> submitted_it = submit_piece(index, starts);
    if (submitted_it) continue;
    settle();
    return submitted_it;
  }
  return {};
}

/// What the interpreter does it does here: there is nobody else who could.
Result<std::uint64_t> Session::State::wait_for_iteration(std::uint64_t began_ns) {
  if (interpreted) {
    CRUCIBLE_TRY_VOID(interpret());
    return steady_ns() - began_ns;
  }
  std::uint64_t first_ns = UINT64_MAX, last_ns = 0;
  bool is_told = true;  // by the plugins, when their plans ran; a part that the host does lies between those
  for (InFlight& flight : in_flight) {
    if (Result<void> done = wait_for(flight); !done) {
      settle();
      return done.error();
    }
    const std::optional<backend::Timeline::Times>& times = flight.times;
    is_told = is_told && times;
    if (!times) continue;
    first_ns = std::min(first_ns, times->begin_ns);
    last_ns = std::max(last_ns, times->end_ns);
    if (!options.busy) continue;
    const bool on_second = pieces[flight.piece].segment.on_second;
    options.busy->add({.device = (on_second ? fallback.device : device)->info().id,
                       .with = Busy::With::kPlan,
                       .iteration = loaded_iteration,
                       .part = static_cast<std::uint32_t>(flight.piece),
                       .begin_ns = times->begin_ns,
                       .end_ns = times->end_ns,
                       .by_device = times->by_device});
  }
  const bool has_host_parts = pieces.front().segment.is_transfer || pieces.back().segment.is_transfer;
  const bool is_measured = is_told && !in_flight.empty() && !has_host_parts;
  in_flight.clear();
  return is_measured ? last_ns - first_ns : steady_ns() - began_ns;
}

Result<void> Session::State::replay() {
  CRUCIBLE_TRY_VOID(submit(false));
  const Result<std::uint64_t> ran = wait_for_iteration(steady_ns());
  return ran ? Result<void>() : ran.error();
}

Result<std::vector<std::uint64_t>> Session::State::profile() {
  std::vector<std::uint64_t> per_step;
  for (Piece& piece : pieces) {
    CRUCIBLE_TRY_VOID(copy_into(piece.segment));
    if (!piece.plans[place]) {
      const auto start = std::chrono::steady_clock::now();
      CRUCIBLE_TRY_VOID(transfer(schedule.steps[piece.segment.begin], piece.segment.begin));
      const auto passed = std::chrono::steady_clock::now() - start;
      per_step.push_back(
          static_cast<std::uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(passed).count()));
      continue;
    }
    CRUCIBLE_TRY(const std::vector<std::uint64_t> per_op, piece.plans[place]->profile());
    for (const std::uint32_t op : piece.op_of_step) per_step.push_back(op < per_op.size() ? per_op[op] : 0);
  }
  return per_step;
}

}  // namespace crucible::runtime
