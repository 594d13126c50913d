// Formulas that more than one ATen op uses.
// All compute in compute_dtype() of the promoted operands; whoever stores the result rounds it once.
#pragma once

#include "frontends/aten/algebra/emitter.hpp"

namespace crucible::aten {

/// Each term in f32 when it is f16 or bf16.
Expression widened(Emitter& e, const Term& x);
/// As widened; integers and booleans become f32.
Expression as_floating(Emitter& e, const Term& x);
/// As an operand beside `other`: integers become what promotion makes of both.
Expression as_floating(Emitter& e, const Term& x, const Term& other);
/// A number as the framework takes it beside a tensor `like` of f16 or bf16 in sums and comparisons: rounded to its
/// dtype.
Expression rounded_like(Emitter& e, const Term& number, const Term& like);
/// True for a fixed number equal to `value`.
bool is_fixed(const Term& number, double value);

Expression add_scaled(Emitter& e, const Term& a, const Term& b, const Term& alpha);       // a + alpha b
Expression subtract_scaled(Emitter& e, const Term& a, const Term& b, const Term& alpha);  // a - alpha b
Expression multiply(Emitter& e, const Term& a, const Term& b);
Expression divide(Emitter& e, const Term& a, const Term& b);
Expression add_product(Emitter& e, const Term& a, const Term& x, const Term& y, const Term& value);   // a + value x y
Expression add_quotient(Emitter& e, const Term& a, const Term& x, const Term& y, const Term& value);  // a + value x / y
/// a + weight (b - a), or b - (b - a)(1 - weight) where |weight| >= 0.5.
Expression interpolate(Emitter& e, const Term& a, const Term& b, const Term& weight);
Expression power(Emitter& e, const Term& base, const Term& exponent);
/// The norm of any order over `dims`, which stay with size 1: of inf and -inf the largest and smallest magnitude, of 0
/// the number of elements that are not zero.
Expression vector_norm(Emitter& e, const Term& x, double order, const std::vector<std::int64_t>& dims);

/// `steps` numbers from start to end, both 0-dim tensors of one dtype: the first half upwards from start, the second
/// downwards from end.
Expression evenly_spaced(Emitter& e, const Term& start, const Term& end, std::int64_t steps);

/// The argument `reduction` of losses.
inline constexpr std::int64_t kReduceNone = 0, kReduceMean = 1, kReduceSum = 2;
/// Losses of single elements as the reduction wants them.
Expression reduced_loss(Emitter& e, const Term& losses, std::int64_t reduction);

}  // namespace crucible::aten
