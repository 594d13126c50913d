// Before fusion: attentions of a training step, stated so that a library may do each direction in one call. What the
// program has for the gradient reads the scores of the forward pass, or states them again; a library's forward keeps no
// scores, only the logarithm of each row's sum of exponentials, and its gradient begins with these. So a pair that the
// library takes is written anew, from what its names say (graph/meaning.hpp): forward with these logarithms as a second
// result, the gradient from them, o and the operands. named_attention.hpp then finds both as it finds any other.
#pragma once

#include <functional>
#include <optional>

#include "core/graph/program.hpp"
#include "core/kernel/schedule.hpp"

namespace crucible::kernel {

/// The program with the pairs that `claims` takes both calls of, and of whose scores and the like nothing else is made;
/// nothing where there are none. Values keep their numbers, and new ones come after them; the ops whose results they
/// were make values that nobody reads. Other bits than before: it is for fast numerics.
std::optional<graph::Program> state_trained_attentions(const graph::Program& program,
                                                       const std::function<bool(const LibraryCall&)>& claims);

}  // namespace crucible::kernel
