// The rules of each class of op, apart from those that need the whole program (verify.cpp, the only user).
#pragma once

#include "core/graph/program.hpp"

namespace crucible::graph {

/// Checks sizes, dtypes and attributes of op `index`, whose operands' values exist and whose views are inside them.
/// Errors: kInternal, naming op, operand and rule.
Result<void> verify_op(const Program& program, OpId index);

/// "op 12 (add, aten::add.Tensor at train.py:31)".
std::string describe_op(const Program& program, OpId index);

}  // namespace crucible::graph
