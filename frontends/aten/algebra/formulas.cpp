// Shared formulas: see formulas.hpp.
#include "frontends/aten/algebra/formulas.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "core/graph/reference_numbers.hpp"
#include "frontends/aten/algebra/algebra.hpp"
#include "frontends/aten/reduction/reducing.hpp"

namespace crucible::aten {

using graph::OpKind;

Term widened(Emitter& e, const Term& x) { return x.is_number() ? x : e.cast(x, compute_dtype(x.dtype)); }

Term as_floating(Emitter& e, const Term& x) {
  if (x.is_number()) return x;
  return is_floating(x.dtype) ? widened(e, x) : e.cast(x, DType::kF32);
}

Term as_floating(Emitter& e, const Term& x, const Term& other) {
  if (x.is_number() || is_floating(x.dtype)) return widened(e, x);
  const DType together = promote({x, other});  // of integers and a double without dimensions f64
  return e.cast(x, is_floating(together) ? compute_dtype(together) : DType::kF32);
}

Term rounded_like(Emitter& e, const Term& number, const Term& like) {
  const bool narrow = !like.is_number() && compute_dtype(like.dtype) != like.dtype;
  if (!number.is_number() || number.operand.scalar.is_integer || !narrow) return number;
  const DType dtype = like.dtype;
  Term rounded = e.map_number(number, "rounded", [dtype](graph::Number x) { return graph::Number(graph::round_to(dtype, x.real())); });
  rounded.dtype = number.dtype;
  return rounded;
}

bool is_fixed(const Term& number, double value) {
  if (!number.is_number() || number.operand.scalar.slot != graph::kNone) return false;
  const auto& scalar = number.operand.scalar;
  return (scalar.is_integer ? static_cast<double>(scalar.integer) : scalar.real) == value;
}

namespace {

bool all_bool(const Term& a, const Term& b) { return promote({a, b}) == DType::kBool; }

Term scaled(Emitter& e, const Term& x, const Term& factor) { return is_fixed(factor, 1) ? x : multiply(e, x, factor); }

/// The framework's scalar multiply keeps the tensor's dtype, whatever the number's.
Term keep_dtype(Term number, const Term& like) {
  if (number.is_number() && is_floating(like.dtype)) number.dtype = like.dtype;
  return number;
}

}  // namespace

Term multiply(Emitter& e, const Term& a, const Term& b) {
  if (all_bool(a, b)) return a.is_number() ? multiply(e, b, a) : e.binary(OpKind::kLogicalAnd, a, b);
  return e.binary(OpKind::kMultiply, widened(e, a), widened(e, b));
}

Term divide(Emitter& e, const Term& a, const Term& b) {
  return e.binary(OpKind::kDivide, as_floating(e, a, b), as_floating(e, b, a));
}

Term add_scaled(Emitter& e, const Term& a, const Term& b, const Term& alpha) {
  if (all_bool(a, b)) return a.is_number() ? add_scaled(e, b, a, alpha) : e.binary(OpKind::kLogicalOr, a, b);
  const Term left = widened(e, rounded_like(e, a, b)), right = widened(e, rounded_like(e, b, a));
  if (b.is_number() && !is_fixed(alpha, 1)) {
    const DType common = promote({left, right});
    // Two real numbers: their product is a number of its own, known before the iteration. Whole ones wrap where the tensors do.
    if (is_floating(common) && alpha.is_number() && alpha.operand.scalar.slot == graph::kNone) {
      const double factor = e.number_values(alpha)[0].real();
      Term product = e.map_number(b, "alpha times", [factor](graph::Number x) { return graph::Number(factor * x.real()); });
      product.dtype = b.dtype;
      return e.binary(OpKind::kAdd, left, product);
    }
    return e.binary(OpKind::kAdd, left, multiply(e, e.fill(b, {}, common), alpha));
  }
  return e.binary(OpKind::kAdd, left, scaled(e, right, keep_dtype(rounded_like(e, alpha, b), right)));
}

Term subtract_scaled(Emitter& e, const Term& a, const Term& b, const Term& alpha) {
  const Term left = widened(e, rounded_like(e, a, b)), right = widened(e, rounded_like(e, b, a));
  if (right.is_number() && !is_fixed(alpha, 1)) {
    return e.binary(OpKind::kSubtract, left, multiply(e, e.fill(right, {}, promote({left, right})), alpha));
  }
  return e.binary(OpKind::kSubtract, left, scaled(e, right, keep_dtype(rounded_like(e, alpha, b), right)));
}

Term add_product(Emitter& e, const Term& a, const Term& x, const Term& y, const Term& value) {
  const Term wx = widened(e, x);
  return e.binary(OpKind::kAdd, widened(e, a), multiply(e, scaled(e, wx, keep_dtype(value, wx)), widened(e, y)));
}

Term add_quotient(Emitter& e, const Term& a, const Term& x, const Term& y, const Term& value) {
  const Term wx = as_floating(e, x);
  return e.binary(OpKind::kAdd, widened(e, a), divide(e, scaled(e, wx, keep_dtype(value, wx)), y));
}

Term interpolate(Emitter& e, const Term& a, const Term& b, const Term& weight) {
  const Term start = widened(e, a), end = widened(e, b);
  const Term difference = e.binary(OpKind::kSubtract, end, start);
  if (!weight.is_number()) {
    const Term w = widened(e, weight);
    const Term small = e.binary(OpKind::kLess, e.unary(OpKind::kAbsolute, w), Term::number(0.5));
    const Term rest = e.binary(OpKind::kSubtract, Term::number(1), w);
    return e.select(small, e.binary(OpKind::kAdd, start, multiply(e, w, difference)),
                    e.binary(OpKind::kSubtract, end, multiply(e, difference, rest)));
  }
  const auto values = e.number_values(weight);
  const auto is_small = [](graph::Number w) { return std::fabs(w.real()) < 0.5; };
  const auto small = std::count_if(values.begin(), values.end(), is_small);
  const auto from_start = [&] { return e.binary(OpKind::kAdd, start, multiply(e, difference, weight)); };
  if (small != 0 && small == static_cast<std::ptrdiff_t>(values.size())) return from_start();
  // 1 - weight is computed in the tensor's precision by the framework.
  const bool single = start.dtype != DType::kF64;
  const Term rest = e.map_number(weight, "1 - weight", [single](graph::Number w) {
    return graph::Number(single ? static_cast<double>(1.0f - static_cast<float>(w.real())) : 1.0 - w.real());
  });
  const Term from_end = e.binary(OpKind::kSubtract, end, multiply(e, difference, rest));
  if (small == 0) return from_end;
  const Term chosen = e.map_number(weight, "weight is below 0.5", [&](graph::Number w) { return graph::Number(is_small(w) ? 1.0 : 0.0); });
  return e.select(e.binary(OpKind::kNotEqual, e.fill(chosen, {}, DType::kF32), Term::number(0)), from_start(), from_end);
}

Term power(Emitter& e, const Term& base, const Term& exponent) {
  const Term x = widened(e, base);
  if (is_fixed(exponent, 1)) return x;
  if (is_fixed(exponent, 2)) return multiply(e, x, x);
  if (is_fixed(exponent, 3)) return multiply(e, multiply(e, x, x), x);
  if (is_fixed(exponent, 0)) return e.fill(Term::integer(1), x.sizes(), x.dtype);
  const DType together = promote({x, exponent});
  const bool exact = !(x.is_number() && exponent.is_number()) && together != DType::kBool && !is_floating(together);
  if (exact) return e.binary(OpKind::kPower, x, exponent);
  const Term real = as_floating(e, x, exponent);
  if (is_fixed(exponent, 0.5)) return e.unary(OpKind::kSqrt, real);
  if (is_fixed(exponent, -0.5)) return e.unary(OpKind::kReciprocalSqrt, real);
  if (is_fixed(exponent, -1)) return e.unary(OpKind::kReciprocal, real);
  if (is_fixed(exponent, -2)) return e.unary(OpKind::kReciprocal, multiply(e, real, real));
  return e.binary(OpKind::kPower, real, as_floating(e, exponent, x));
}

Term vector_norm(Emitter& e, const Term& x, double order, const std::vector<std::int64_t>& dims) {
  const Term real = widened(e, x);
  if (order == 2) return e.unary(OpKind::kSqrt, e.sum(multiply(e, real, real), dims));
  if (order == 1) return e.sum(e.unary(OpKind::kAbsolute, real), dims);
  const Term size = e.unary(OpKind::kAbsolute, real);
  if (order == std::numeric_limits<double>::infinity()) return e.max(size, dims);
  if (order == -std::numeric_limits<double>::infinity()) return reduced(e, OpKind::kReduceMin, size, dims);
  if (order == 0) {
    return e.sum(e.cast(e.binary(OpKind::kNotEqual, real, Term::number(0)), real.dtype), dims);
  }
  return e.binary(OpKind::kPower, e.sum(power(e, size, Term::number(order)), dims), Term::number(1 / order));
}

Term reduced_loss(Emitter& e, const Term& losses, std::int64_t reduction) {
  if (reduction == kReduceNone) return losses;
  std::vector<std::int64_t> dims(static_cast<std::size_t>(losses.rank()));
  std::iota(dims.begin(), dims.end(), 0);
  return e.drop(reduction == kReduceMean ? e.mean(losses, dims) : e.sum(losses, dims), dims);
}

Term evenly_spaced(Emitter& e, const Term& start, const Term& end, std::int64_t steps) {
  if (steps <= 1) return e.expand(start, {std::max<std::int64_t>(steps, 0)});
  const Expression low(e, start), high(e, end), step = (high - low) / static_cast<double>(steps - 1);
  const Expression at(e, e.coordinate(0, {steps}, start.dtype)), left = static_cast<double>(steps - 1) - at;
  const Expression is_first(e, e.binary(OpKind::kLess, e.coordinate(0, {steps}, DType::kI64), Term::integer(steps / 2)));
  return choose(is_first, at * step + low, high - left * step);
}

}  // namespace crucible::aten
