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

Expression widened(Emitter& e, const Term& x) {
  return x.is_number() ? Expression(e, x) : e.cast(x, compute_dtype(x.dtype));
}

Expression as_floating(Emitter& e, const Term& x) {
  if (x.is_number()) return {e, x};
  return is_floating(x.dtype) ? widened(e, x) : e.cast(x, DType::kF32);
}

Expression as_floating(Emitter& e, const Term& x, const Term& other) {
  if (x.is_number() || is_floating(x.dtype)) return widened(e, x);
  const DType together = promote({x, other});  // of integers and a double without dimensions f64
  return e.cast(x, is_floating(together) ? compute_dtype(together) : DType::kF32);
}

Expression rounded_like(Emitter& e, const Term& number, const Term& like) {
  const bool narrow = !like.is_number() && compute_dtype(like.dtype) != like.dtype;
  if (!number.is_number() || number.operand.scalar.is_integer || !narrow) return {e, number};
  const DType dtype = like.dtype;
  Expression rounded = e.map_number(
      number, "rounded", [dtype](graph::Number x) { return graph::Number(graph::round_to(dtype, x.real())); });
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

Expression scaled(const Expression& x, const Term& factor) {
  return is_fixed(factor, 1) ? x : multiply(x.emitter(), x, factor);
}

/// The framework's scalar multiply keeps the tensor's dtype, whatever the number's.
Term keep_dtype(Term number, const Term& like) {
  if (number.is_number() && is_floating(like.dtype)) number.dtype = like.dtype;
  return number;
}

}  // namespace

Expression multiply(Emitter& e, const Term& a, const Term& b) {
  if (all_bool(a, b)) return a.is_number() ? multiply(e, b, a) : e.binary(OpKind::kLogicalAnd, a, b);
  return widened(e, a) * widened(e, b);
}

Expression divide(Emitter& e, const Term& a, const Term& b) { return as_floating(e, a, b) / as_floating(e, b, a); }

Expression add_scaled(Emitter& e, const Term& a, const Term& b, const Term& alpha) {
  if (all_bool(a, b)) return a.is_number() ? add_scaled(e, b, a, alpha) : e.binary(OpKind::kLogicalOr, a, b);
  const Expression left = widened(e, rounded_like(e, a, b)), right = widened(e, rounded_like(e, b, a));
  if (b.is_number() && !is_fixed(alpha, 1)) {
    const DType common = promote({left, right});
    // Two real numbers: their product is a number of its own, known before the iteration. Whole ones wrap where the
    // tensors do.
    if (is_floating(common) && alpha.is_number() && alpha.operand.scalar.slot == graph::kNone) {
      const double factor = e.number_values(alpha)[0].real();
      Term product =
          e.map_number(b, "alpha times", [factor](graph::Number x) { return graph::Number(factor * x.real()); });
      product.dtype = b.dtype;
      return left + product;
    }
    return left + multiply(e, e.fill(b, {}, common), alpha);
  }
  return left + scaled(right, keep_dtype(rounded_like(e, alpha, b), right));
}

Expression subtract_scaled(Emitter& e, const Term& a, const Term& b, const Term& alpha) {
  const Expression left = widened(e, rounded_like(e, a, b)), right = widened(e, rounded_like(e, b, a));
  if (right.is_number() && !is_fixed(alpha, 1))
    return left - multiply(e, e.fill(right, {}, promote({left, right})), alpha);
  return left - scaled(right, keep_dtype(rounded_like(e, alpha, b), right));
}

Expression add_product(Emitter& e, const Term& a, const Term& x, const Term& y, const Term& value) {
  const Expression wx = widened(e, x);
  return widened(e, a) + multiply(e, scaled(wx, keep_dtype(value, wx)), widened(e, y));
}

Expression add_quotient(Emitter& e, const Term& a, const Term& x, const Term& y, const Term& value) {
  const Expression wx = as_floating(e, x);
  return widened(e, a) + divide(e, scaled(wx, keep_dtype(value, wx)), y);
}

Expression interpolate(Emitter& e, const Term& a, const Term& b, const Term& weight) {
  const Expression start = widened(e, a), end = widened(e, b), difference = end - start;
  if (!weight.is_number()) {
    const Expression w = widened(e, weight);
    const Expression is_small = magnitude(w) < 0.5, rest = 1.0 - w;
    return choose(is_small, start + multiply(e, w, difference), end - multiply(e, difference, rest));
  }
  const auto values = e.number_values(weight);
  const auto is_small = [](graph::Number w) { return std::fabs(w.real()) < 0.5; };
  const auto small = std::count_if(values.begin(), values.end(), is_small);
  const auto from_start = [&] { return start + multiply(e, difference, weight); };
  if (small != 0 && small == static_cast<std::ptrdiff_t>(values.size())) return from_start();
  // 1 - weight is computed in the tensor's precision by the framework.
  const bool single = start.dtype != DType::kF64;
  const Term rest = e.map_number(weight, "1 - weight", [single](graph::Number w) {
    return graph::Number(single ? static_cast<double>(1.0f - static_cast<float>(w.real())) : 1.0 - w.real());
  });
  const Expression from_end = end - multiply(e, difference, rest);
  if (small == 0) return from_end;
  const Term chosen = e.map_number(weight, "weight is below 0.5",
                                   [&](graph::Number w) { return graph::Number(is_small(w) ? 1.0 : 0.0); });
  return choose(e.fill(chosen, {}, DType::kF32) != 0.0, from_start(), from_end);
}

Expression power(Emitter& e, const Term& base, const Term& exponent) {
  const Expression x = widened(e, base);
  if (is_fixed(exponent, 1)) return x;
  if (is_fixed(exponent, 2)) return multiply(e, x, x);
  if (is_fixed(exponent, 3)) return multiply(e, multiply(e, x, x), x);
  if (is_fixed(exponent, 0)) return e.fill(Term::integer(1), x.sizes(), x.dtype);
  const DType together = promote({x, exponent});
  const bool exact = !(x.is_number() && exponent.is_number()) && together != DType::kBool && !is_floating(together);
  if (exact) return x.binary(OpKind::kPower, exponent);
  const Expression real = as_floating(e, x, exponent);
  if (is_fixed(exponent, 0.5)) return square_root(real);
  if (is_fixed(exponent, -0.5)) return real.unary(OpKind::kReciprocalSqrt);
  if (is_fixed(exponent, -1)) return real.unary(OpKind::kReciprocal);
  if (is_fixed(exponent, -2)) return (real * real).unary(OpKind::kReciprocal);
  return real.binary(OpKind::kPower, as_floating(e, exponent, x));
}

Expression vector_norm(Emitter& e, const Term& x, double order, const std::vector<std::int64_t>& dims) {
  const Expression real = widened(e, x);
  if (order == 2) return square_root(e.sum(multiply(e, real, real), dims));
  const Expression size = magnitude(real);
  if (order == 1) return e.sum(size, dims);
  if (order == std::numeric_limits<double>::infinity()) return e.max(size, dims);
  if (order == -std::numeric_limits<double>::infinity()) return reduced(e, OpKind::kReduceMin, size, dims);
  if (order == 0) return e.sum((real != 0.0).cast(real.dtype), dims);
  return e.sum(power(e, size, Term::number(order)), dims).binary(OpKind::kPower, Term::number(1 / order));
}

Expression reduced_loss(Emitter& e, const Term& losses, std::int64_t reduction) {
  if (reduction == kReduceNone) return {e, losses};
  std::vector<std::int64_t> dims(static_cast<std::size_t>(losses.rank()));
  std::iota(dims.begin(), dims.end(), 0);
  return e.drop(reduction == kReduceMean ? e.mean(losses, dims) : e.sum(losses, dims), dims);
}

Expression evenly_spaced(Emitter& e, const Term& start, const Term& end, std::int64_t steps) {
  if (steps <= 1) return e.expand(start, {std::max<std::int64_t>(steps, 0)});
  const Expression low(e, start), high(e, end), step = (high - low) / static_cast<double>(steps - 1);
  const Expression at = e.coordinate(0, {steps}, start.dtype), left = static_cast<double>(steps - 1) - at;
  const Expression is_first = e.coordinate(0, {steps}, DType::kI64) < steps / 2;
  return choose(is_first, at * step + low, high - left * step);
}

}  // namespace crucible::aten
