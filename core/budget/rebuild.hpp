// A program and a schedule of a line: what the search for memory decided, in the form that everything else reads.
#pragma once

#include "core/budget/line.hpp"

namespace crucible::budget {

/// The ops of the program stand in the order in which they run; a repeated step has ops and values of its own, so that
/// the program says what is computed twice, and any checker or interpreter of programs judges it.
struct Rebuilt {
  graph::Program program;
  kernel::Schedule schedule;
  std::vector<std::uint32_t>
      step_of;  // per step of the schedule: the step that it was in the old one; kNone of transfers
  std::vector<bool> is_repeat;         // per step: it ran before in this iteration
};

/// `program` and `schedule` are those that the line was made of. Errors: kInternal when an op of the line reads what
/// nothing computes.
Result<Rebuilt> rebuild(const Line& line, const graph::Program& program, const kernel::Schedule& schedule);

}  // namespace crucible::budget
