// Formulas that all normalising ops share. Statistics stay in keepdim shapes, so that only the normalised tensor itself
// is full-size.
#pragma once

#include <cstdint>
#include <vector>

#include "frontends/aten/call/op_call.hpp"

namespace crucible::aten {

using Dims = std::vector<std::int64_t>;

/// 1 / sqrt(variance + epsilon).
Term inverse_deviation(Emitter& e, const Term& variance, double epsilon);

/// (x - mean) * scale.
Expression normalized(Emitter& e, const Term& x, const Term& mean, const Term& scale);

/// x times the argument weight plus the argument bias, where there are such; with `shape` both are given it first.
Term scaled_and_shifted(OpCall& c, Term x, const Sizes* shape);

/// Gradient with respect to x of (x - mean) * scale, where g is that of the result and h is the result: with
/// m the mean over `dims`, scale * (g - m(g) - h * m(g * h)).
Expression normalization_backward(Emitter& e, const Term& g, const Term& h, const Term& scale, const Dims& dims);

}  // namespace crucible::aten
