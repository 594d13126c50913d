// Single numbers of the reference interpreter's element-wise ops.
#pragma once

#include <cstdint>

#include "core/graph/program.hpp"

namespace crucible::graph {

/// A floating-point op on doubles; `b` is not read by ops of one operand. The caller rounds. 0 for other kinds.
double reference_real(OpKind kind, double a, double b);

/// An op on integers of `dtype`. Arithmetic wraps in 64 bits; storing keeps the low bits of narrower types. 0 for other
/// kinds.
std::int64_t reference_integer(OpKind kind, DType dtype, std::int64_t a, std::int64_t b);

}  // namespace crucible::graph
