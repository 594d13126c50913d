// Ops of two programs, one list beside the other.
#pragma once

#include <span>
#include <string>
#include <utility>
#include <vector>

#include "core/merkle/diff.hpp"

namespace crucible::merkle {

/// In what the ops differ, in the order of the first program and in words; equal lines are one, with their number. Ops
/// are matched where they are alike but for numbers and shapes.
std::vector<std::pair<ChangeKind, std::string>> op_changes(const graph::Program& a, std::span<const graph::OpId> ops_a,
                                                           const graph::Program& b, std::span<const graph::OpId> ops_b);

}  // namespace crucible::merkle
