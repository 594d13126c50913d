// The independent checker of schedules: reads the program and the steps, and shares no code with fusion or emission.
#pragma once

#include "core/base/result.hpp"
#include "core/graph/program.hpp"
#include "core/kernel/schedule.hpp"

namespace crucible::kernel {

/// Checks that every op that a state's end or an output depends on is done by exactly one step (fills and coordinates
/// may be computed where they are read instead), that a step finds everything its ops read either in its buffers,
/// written by an earlier step or entered from outside, or within itself, that every value is written by one step only,
/// the one with its producer, that every in-place pair joins an operand's last use with a result of equal size that
/// nothing else needs and no product of the step reads, that a step with products hands rows on from op to op and makes
/// no right operand of its products itself, and that kernels, slots and library views are within bounds. Errors:
/// kCheckFailed, naming the step, the op or value and the rule.
Result<void> check_schedule(const graph::Program& program, const Schedule& schedule);

}  // namespace crucible::kernel
