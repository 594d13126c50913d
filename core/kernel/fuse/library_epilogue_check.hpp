// Whether a library's call with an epilogue does what its ops do: for the checker of schedules, which trusts nothing
// that the scheduler found.
#pragma once

#include <string>

#include "core/graph/program.hpp"
#include "core/kernel/schedule.hpp"

namespace crucible::kernel {

/// What is wrong with a kLibrary step that has an epilogue, "" when nothing is. Samples of the result are computed op
/// by op, wherever in the matrix their operands are, and by the epilogue's formula. The step's buffers and views are
/// sound.
std::string library_epilogue_fault(const graph::Program& program, const Step& step);

}  // namespace crucible::kernel
