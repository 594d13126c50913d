// Lowering of functions of complex numbers, of their products that are added to something, and of comparisons. See
// lower_complex.cpp. Ops of real numbers that may be done with each part, or with magnitudes, say so in their own
// entries.
#include <algorithm>
#include <cmath>
#include <numbers>

#include "frontends/aten/algebra/algebra.hpp"
#include "frontends/aten/complex/complex.hpp"
#include "frontends/aten/contraction/matrices.hpp"
#include "frontends/aten/indexing/index_plan.hpp"
#include "frontends/aten/lower_table.hpp"
#include "frontends/aten/reduction/reducing.hpp"

namespace crucible::aten {
namespace {

using graph::OpKind;

const Complex kOne{Term::number(1), Term::number(0)};

/// Both parts as tensors of the same sizes.
struct Parts {
  Expression x, y;
};

Parts parts_of(Emitter& e, const Complex& z) {
  const Term& one = z.real.is_number() ? z.imaginary : z.real;
  if (one.is_number()) return {{e, e.fill(z.real, {}, DType::kF64)}, {e, e.fill(z.imaginary, {}, DType::kF64)}};
  const auto part = [&](const Term& term) {
    return Expression(e, term.is_number() ? e.fill(term, one.sizes(), one.dtype) : term);
  };
  return {part(z.real), part(z.imaginary)};
}

Complex each(const Complex& z, const std::function<Term(const Term&)>& change) {
  const auto part = [&](const Term& term) { return term.is_number() ? term : change(term); };
  return {part(z.real), part(z.imaginary)};
}

/// Below zero, or zero with that sign.
Expression is_negative(const Expression& x) { return (x < 0) || ((x == 0) && (x.unary(OpKind::kReciprocal) < 0)); }

Complex logarithm(Emitter& e, const Complex& z) {
  return {e.unary(OpKind::kLog, magnitude(e, z)), e.binary(OpKind::kAtan2, z.imaginary, z.real)};
}

Complex exponential(Emitter& e, const Complex& z) { return polar(e, e.unary(OpKind::kExp, z.real), z.imaginary); }

/// The root in the right half plane. Of (|x| + |z|) / 2, which does not cancel; the other part is y over twice that.
Complex square_root(Emitter& e, const Complex& z) {
  const auto [x, y] = parts_of(e, z);
  const Expression half = square_root((magnitude(x) + Expression(e, magnitude(e, z))) * 0.5);
  const Expression other = choose(half == 0, 0.0, magnitude(y) / (half * 2.0));
  const Expression upright = choose(x < 0, half, other);
  return {choose(x < 0, other, half), choose(is_negative(y), -upright, upright)};
}

Complex scaled(Emitter& e, const Complex& z, double factor) {
  return {e.binary(OpKind::kMultiply, z.real, Term::number(factor)),
          e.binary(OpKind::kMultiply, z.imaginary, Term::number(factor))};
}

/// (sinh x cosh x + i sin y cos y) / (sinh^2 x + cos^2 y), whose limit for large x does not overflow.
Complex hyperbolic_tangent_of(Emitter& e, const Complex& z) {
  const auto [x, y] = parts_of(e, z);
  const Expression sine = y.unary(OpKind::kSin), cosine = y.unary(OpKind::kCos), turn = sine * cosine;
  const Expression is_large = magnitude(x) > 15;
  const Expression small = choose(is_large, 0.0, x);
  const Expression rise = small.unary(OpKind::kSinh), span = small.unary(OpKind::kCosh),
                   whole = rise * rise + cosine * cosine;
  const Expression fade = exp(magnitude(x) * -2.0) * turn * 4.0;
  return {choose(is_large, choose(x < 0, -1.0, 1.0), rise * span / whole),
          choose(is_large, fade, turn / whole)};
}

/// z times i or -i.
Complex turned(Emitter& e, const Complex& z, bool left) {
  if (left) return {e.unary(OpKind::kNegate, z.imaginary), z.real};
  return {z.imaginary, e.unary(OpKind::kNegate, z.real)};
}

using Function = Complex (*)(Emitter&, const Complex&);

Complex sine(Emitter& e, const Complex& z) {
  const auto [x, y] = parts_of(e, z);
  return {x.unary(OpKind::kSin) * y.unary(OpKind::kCosh), x.unary(OpKind::kCos) * y.unary(OpKind::kSinh)};
}
Complex cosine(Emitter& e, const Complex& z) {
  const auto [x, y] = parts_of(e, z);
  return {x.unary(OpKind::kCos) * y.unary(OpKind::kCosh), -(x.unary(OpKind::kSin) * y.unary(OpKind::kSinh))};
}
Complex hyperbolic_sine(Emitter& e, const Complex& z) {
  const auto [x, y] = parts_of(e, z);
  return {x.unary(OpKind::kSinh) * y.unary(OpKind::kCos), x.unary(OpKind::kCosh) * y.unary(OpKind::kSin)};
}
Complex hyperbolic_cosine(Emitter& e, const Complex& z) {
  const auto [x, y] = parts_of(e, z);
  return {x.unary(OpKind::kCosh) * y.unary(OpKind::kCos), x.unary(OpKind::kSinh) * y.unary(OpKind::kSin)};
}
/// tan z = -i tanh(i z)
Complex tangent(Emitter& e, const Complex& z) {
  const auto [x, y] = parts_of(e, z);
  const Complex turned = hyperbolic_tangent_of(e, {-y, x});
  return {turned.imaginary, e.unary(OpKind::kNegate, turned.real)};
}
Complex logarithm_2(Emitter& e, const Complex& z) { return scaled(e, logarithm(e, z), 1 / std::log(2.0)); }
Complex logarithm_10(Emitter& e, const Complex& z) { return scaled(e, logarithm(e, z), 1 / std::log(10.0)); }
Complex logarithm_plus_1(Emitter& e, const Complex& z) {
  const auto [x, y] = parts_of(e, z);
  return {log_plus_1(x * (x + 2.0) + y * y) * 0.5, y.binary(OpKind::kAtan2, x + 1.0)};
}
/// expm1(x) cos y - 2 sin^2(y / 2): cos y - 1 without cancellation.
Complex exponential_minus_1(Emitter& e, const Complex& z) {
  const auto [x, y] = parts_of(e, z);
  const Expression half = (y * 0.5).unary(OpKind::kSin);
  return {exp_minus_1(x) * y.unary(OpKind::kCos) - half * half * 2.0, exp(x) * y.unary(OpKind::kSin)};
}
Complex square_of(Emitter& e, const Complex& z) { return multiply(e, z, z); }
/// log(z + root(z z + 1)), of the negative half plane by its mirror image, where the sum does not cancel.
Complex inverse_hyperbolic_sine(Emitter& e, const Complex& z) {
  const auto [x, y] = parts_of(e, z);
  const Expression is_left = x < 0;
  const Complex right{choose(is_left, -x, x), choose(is_left, -y, y)};
  const Complex half = logarithm(e, add(e, right, square_root(e, add(e, square_of(e, right), kOne))));
  const Expression u(e, half.real), v(e, half.imaginary);
  return {choose(is_left, -u, u), choose(is_left, -v, v)};
}
/// -i asinh(i z)
Complex inverse_sine(Emitter& e, const Complex& z) {
  return turned(e, inverse_hyperbolic_sine(e, turned(e, z, true)), false);
}
Complex inverse_cosine(Emitter& e, const Complex& z) {
  const auto [u, v] = parts_of(e, inverse_sine(e, z));
  return {-u + std::numbers::pi / 2, -v};
}
/// log(z + root(z + 1) root(z - 1))
Complex inverse_hyperbolic_cosine(Emitter& e, const Complex& z) {
  return logarithm(e, add(e, z, multiply(e, square_root(e, add(e, z, kOne)), square_root(e, subtract(e, z, kOne)))));
}
/// (log1p(z) - log1p(-z)) / 2
Complex inverse_hyperbolic_tangent(Emitter& e, const Complex& z) {
  return scaled(e, subtract(e, logarithm_plus_1(e, z), logarithm_plus_1(e, scaled(e, z, -1))), 0.5);
}
Complex inverse_tangent(Emitter& e, const Complex& z) {
  return turned(e, inverse_hyperbolic_tangent(e, turned(e, z, true)), false);
}
Complex exponential_2(Emitter& e, const Complex& z) { return exponential(e, scaled(e, z, std::log(2.0))); }
Complex inverse(Emitter& e, const Complex& z) { return divide(e, kOne, z); }
Complex inverse_root(Emitter& e, const Complex& z) { return inverse(e, square_root(e, z)); }
Complex logistic(Emitter& e, const Complex& z) { return inverse(e, add(e, kOne, exponential(e, scaled(e, z, -1)))); }
Complex sigmoid_linear(Emitter& e, const Complex& z) { return multiply(e, z, logistic(e, z)); }

template <Function function>
void of_one(OpCall& c) {
  c.set_complex(0, function(c.emit(), c.complex("self")));
}

/// g times the conjugate of the function's derivative, in terms of the function's value y: 1 - y y, y (1 - y).
Complex slope_of_tanh(Emitter& e, const Complex& y) { return subtract(e, kOne, multiply(e, y, y)); }
Complex slope_of_sigmoid(Emitter& e, const Complex& y) { return multiply(e, y, subtract(e, kOne, y)); }
template <Function slope>
void gradient_of_one(OpCall& c) {
  Emitter& e = c.emit();
  c.set_complex(0, multiply(e, c.complex("grad_output"), conjugate(e, slope(e, c.complex("output")))));
}

/// Ones on the diagonal.
void identity_matrix(OpCall& c) {
  Emitter& e = c.emit();
  const Sizes& sizes = c.result(0).sizes;
  if (sizes.size() != 2) return e.fail("the result is no matrix");
  const Term same = e.binary(OpKind::kEqual, e.position(0, sizes), e.position(1, sizes));
  c.ignore_numbers();
  c.set_complex(0, {e.cast(same, component_of(c.result(0).dtype)), Term::number(0)});
}

/// The mean square distance from the mean, with its correction; and the mean.
template <bool takes_root>
void variance(OpCall& c) {
  Emitter& e = c.emit();
  const Complex z = c.complex("self");
  const Dims dims = dims_of(c, z.real);
  const double count =
      static_cast<double>(reduced_elements(z.real, dims)) - (c.has("correction") ? c.real("correction") : 1.0);
  const Complex mean{e.mean(z.real, dims), e.mean(z.imaginary, dims)};
  const Complex centered = subtract(e, z, mean);
  const Expression x(e, centered.real), y(e, centered.imaginary);
  Term result = e.binary(OpKind::kDivide, e.sum(x * x + y * y, dims), Term::number(std::max(count, 0.0)));
  if (takes_root) result = e.unary(OpKind::kSqrt, result);
  c.set(0, kept_or_dropped(c, result, dims));
  if (c.result_count() > 1)
    c.set_complex(1, {kept_or_dropped(c, mean.real, dims), kept_or_dropped(c, mean.imaginary, dims)});
}

void logarithm_of_sum(OpCall& c) {
  Emitter& e = c.emit();
  // Both divided by the larger magnitude before they are added.
  const Complex a = c.complex("self"), b = c.complex("other");
  const Expression larger_part = larger(Expression(e, a.real), b.real);
  const auto lowered = [&](const Complex& z) {
    return exponential(e, {Expression(e, z.real) - larger_part, z.imaginary});
  };
  const Complex sum = logarithm(e, add(e, lowered(a), lowered(b)));
  c.set_complex(0, {larger_part + sum.real, sum.imaginary});
}

/// Running products by doubling: after step k each place has the product of the 2^k places up to it.
void running_product(OpCall& c) {
  Emitter& e = c.emit();
  const auto [x, y] = parts_of(e, c.complex("self"));
  Complex z{x, y};
  if (z.real.rank() == 0 || z.real.elements() == 0) return c.set_complex(0, z);
  const std::int64_t dim = wrap_dim(c.integer("dim"), z.real.rank());
  if (dim < 0 || dim >= z.real.rank()) return e.fail("argument dim names no dimension");
  const std::int64_t length = z.real.size(dim);
  for (std::int64_t step = 1; step < length; step *= 2) {
    const auto cut = [&](std::int64_t start, std::int64_t count) {
      return each(z, [&](const Term& t) { return narrow(t, dim, start, count); });
    };
    const Complex head = cut(0, step), rest = multiply(e, cut(step, length - step), cut(0, length - step));
    z = {e.concat({head.real, rest.real}, dim), e.concat({head.imaginary, rest.imaginary}, dim)};
  }
  c.set_complex(0, z);
}

/// exp(exponent log base); the powers of 0 are 0, but for the 0th, which is 1.
Complex power_of(Emitter& e, const Complex& base, const Complex& exponent) {
  const Complex turned = multiply(e, exponent, logarithm(e, base));
  const Complex power = exponential(e, turned);
  const Expression length(e, magnitude(e, base));
  const auto [u, v] = parts_of(e, exponent);
  const Expression is_zeroth = (u == 0) && (v == 0);
  const auto part = [&](const Term& of_others, double of_zeroth) {
    return choose(is_zeroth, of_zeroth, choose(length == 0, 0.0, Expression(e, of_others)));
  };
  return {part(power.real, 1), part(power.imaginary, 0)};
}

void power(OpCall& c) {
  Emitter& e = c.emit();
  const Complex base = c.complex("self"), exponent = c.complex("exponent");
  const auto is = [&](double wanted) { return is_fixed(exponent.real, wanted) && is_fixed(exponent.imaginary, 0); };
  if (is(0.5)) return c.set_complex(0, square_root(e, base));
  if (is(-0.5)) return c.set_complex(0, inverse_root(e, base));
  if (is(1)) return c.set_complex(0, base);
  const bool is_square = is(2) || is(-2), is_cube = is(3);
  if (!is_square && !is_cube && !is(-1)) return c.set_complex(0, power_of(e, base, exponent));
  Complex result = base;
  if (is_square || is_cube) result = multiply(e, base, base);
  if (is_cube) result = multiply(e, result, base);
  c.set_complex(0, is(-1) || is(-2) ? inverse(e, result) : result);
}

/// Two matrices, or two batches of them.
Complex product(Emitter& e, const Complex& a, const Complex& b) {
  const auto [ar, ai] = parts_of(e, a);
  const auto [br, bi] = parts_of(e, b);
  return {e.binary(OpKind::kSubtract, e.matmul(ar, br), e.matmul(ai, bi)),
          e.binary(OpKind::kAdd, e.matmul(ar, bi), e.matmul(ai, br))};
}

bool is_one(const Complex& z) { return is_fixed(z.real, 1) && is_fixed(z.imaginary, 0); }

/// beta self + alpha product; beta = 0 ignores self altogether.
void set_added(OpCall& c, const Complex& whole) {
  Emitter& e = c.emit();
  const Complex alpha = c.complex("alpha"), beta = c.complex("beta");
  const Complex right = is_one(alpha) ? whole : multiply(e, alpha, whole);
  if (is_fixed(beta.real, 0) && is_fixed(beta.imaginary, 0)) return c.set_complex(0, right);
  const Complex self = c.complex("self");
  c.set_complex(0, add(e, is_one(beta) ? self : multiply(e, beta, self), right));
}

void addmm(OpCall& c) {
  const bool batched = c.has("batch1");
  set_added(c, product(c.emit(), c.complex(batched ? "batch1" : "mat1"), c.complex(batched ? "batch2" : "mat2")));
}

void addbmm(OpCall& c) {
  Emitter& e = c.emit();
  set_added(c, each(product(e, c.complex("batch1"), c.complex("batch2")),
                    [&](const Term& t) { return e.drop(e.sum(t, {0}), {0}); }));
}

Complex matrix_times_vector(Emitter& e, const Complex& matrix, const Complex& vector) {
  const Complex column = each(vector, [&](const Term& t) { return e.unsqueeze(t, -1); });
  return each(product(e, matrix, column), [&](const Term& t) { return e.drop(t, {-1}); });
}

void addmv(OpCall& c) { set_added(c, matrix_times_vector(c.emit(), c.complex("mat"), c.complex("vec"))); }
void mv(OpCall& c) { c.set_complex(0, matrix_times_vector(c.emit(), c.complex("self"), c.complex("vec"))); }

void addr(OpCall& c) {
  Emitter& e = c.emit();
  const Complex column = each(c.complex("vec1"), [&](const Term& t) { return e.unsqueeze(t, -1); });
  set_added(c, multiply(e, column, each(c.complex("vec2"), [&](const Term& t) { return e.unsqueeze(t, 0); })));
}

/// The sum of products; of vdot with the first vector conjugated.
template <bool conjugates>
void dot(OpCall& c) {
  Emitter& e = c.emit();
  const Complex self = c.complex("self"), a = conjugates ? conjugate(e, self) : self;
  const Complex row = each(a, [&](const Term& t) { return e.unsqueeze(t, 0); });
  const Complex column =
      each(c.complex(c.has("tensor") ? "tensor" : "other"), [&](const Term& t) { return e.unsqueeze(t, 1); });
  c.set_complex(0, each(product(e, row, column), [&](const Term& t) { return e.drop(t, {0, 1}); }));
}

void reverse_subtract(OpCall& c) {
  Emitter& e = c.emit();
  const Complex alpha = c.complex("alpha"), self = c.complex("self");
  c.set_complex(0, subtract(e, c.complex("other"), is_one(alpha) ? self : multiply(e, alpha, self)));
}

template <bool divides>
void add_combined(OpCall& c) {
  Emitter& e = c.emit();
  const Complex a = c.complex("tensor1"), b = c.complex("tensor2"), value = c.complex("value");
  const Complex both = divides ? divide(e, a, b) : multiply(e, a, b);
  c.set_complex(0, add(e, c.complex("self"), is_one(value) ? both : multiply(e, value, both)));
}

void interpolate(OpCall& c) {
  Emitter& e = c.emit();
  const Complex self = c.complex("self");
  c.set_complex(0, add(e, self, multiply(e, c.complex("weight"), subtract(e, c.complex("end"), self))));
}

template <OpKind kind, OpKind joint>
void compare(OpCall& c) {
  Emitter& e = c.emit();
  const auto [x, y] = parts_of(e, c.complex("self"));
  const Complex other = c.complex("other");
  c.set(0, e.binary(joint, e.binary(kind, x, other.real), e.binary(kind, y, other.imaginary)));
}

void product_of_all(OpCall& c) {
  Emitter& e = c.emit();
  const Complex z = c.complex("self");
  const bool is_whole = !c.has("dim");
  const auto [x, y] = parts_of(e, z);
  Complex lines{x, y};
  const std::int64_t dim = is_whole ? 0 : wrap_dim(c.integer("dim"), x.rank());
  if (is_whole) lines = each(lines, [&](const Term& t) { return e.reshape(t, {t.elements()}); });
  if (lines.real.rank() == 0) return c.set_complex(0, lines);
  if (dim < 0 || dim >= lines.real.rank()) return e.fail("argument dim names no dimension");
  // Halves are multiplied with each other, until one factor is left.
  for (std::int64_t left = lines.real.size(dim); left != 1; left = lines.real.size(dim)) {
    const auto cut = [&](std::int64_t start, std::int64_t length) {
      return each(lines, [&](const Term& t) { return narrow(t, dim, start, length); });
    };
    if (left == 0) return c.set_complex(0, kOne);
    const Complex halves = multiply(e, cut(0, left / 2), cut(left / 2, left / 2));
    const Complex rest = left % 2 == 0 ? Complex{} : cut(left - 1, 1);
    lines = left % 2 == 0
                ? halves
                : Complex{e.concat({halves.real, rest.real}, dim), e.concat({halves.imaginary, rest.imaginary}, dim)};
  }
  c.set_complex(0, each(lines, [&](const Term& t) { return e.reshape(t, c.result(0).sizes); }));
}

/// The real matrix [[re, -im], [im, re]] is to (u, v) what the complex one is to u + iv; its inverse has the same form.
void inverse(OpCall& c) {
  Emitter& e = c.emit();
  c.boolean("check_errors");
  const auto [re, im] = parts_of(e, c.complex("A"));
  const std::int64_t n = re.size(-1);
  if (re.rank() < 2 || re.size(-2) != n) return e.fail("an inverse of what is no square matrix");
  const Term above = e.concat({re, e.unary(OpKind::kNegate, im)}, -1), below = e.concat({im, re}, -1);
  const LuFactors found = lu(e, e.concat({above, below}, -2));
  const Expression both = e.concat({identity(e, n, re.dtype), e.fill(Term::integer(0), {n, n}, re.dtype)}, 0);
  const Term solution = solve_lu(e, found, both, false);
  c.set_complex(0, {narrow(solution, -2, 0, n), narrow(solution, -2, n, n)});
  // 0 where there is an inverse; else a step of the real matrix's elimination, not of the complex one's.
  c.set(1, first_bad(e, e.binary(OpKind::kEqual, diagonal(found.factors), Term::number(0))));
}

constexpr Entry kEntries[] = {
    {"aten::log", of_one<logarithm>},
    {"aten::log2", of_one<logarithm_2>},
    {"aten::log10", of_one<logarithm_10>},
    {"aten::log1p", of_one<logarithm_plus_1>},
    {"aten::expm1", of_one<exponential_minus_1>},
    {"aten::exp2", of_one<exponential_2>},
    {"aten::asinh", of_one<inverse_hyperbolic_sine>},
    {"aten::acosh", of_one<inverse_hyperbolic_cosine>},
    {"aten::atanh", of_one<inverse_hyperbolic_tangent>},
    {"aten::asin", of_one<inverse_sine>},
    {"aten::acos", of_one<inverse_cosine>},
    {"aten::atan", of_one<inverse_tangent>},
    {"aten::silu", of_one<sigmoid_linear>},
    {"aten::tanh_backward", gradient_of_one<slope_of_tanh>},
    {"aten::sigmoid_backward", gradient_of_one<slope_of_sigmoid>},
    {"aten::logaddexp", logarithm_of_sum},
    {"aten::cumprod", running_product},
    {"aten::var.correction", variance<false>},
    {"aten::var_mean.correction", variance<false>},
    {"aten::std.correction", variance<true>},
    {"aten::std_mean.correction", variance<true>},
    {"aten::eye", identity_matrix},
    {"aten::eye.m", identity_matrix},
    {"aten::sqrt", of_one<square_root>},
    {"aten::rsqrt", of_one<inverse_root>},
    {"aten::sin", of_one<sine>},
    {"aten::cos", of_one<cosine>},
    {"aten::tan", of_one<tangent>},
    {"aten::sinh", of_one<hyperbolic_sine>},
    {"aten::cosh", of_one<hyperbolic_cosine>},
    {"aten::tanh", of_one<hyperbolic_tangent_of>},
    {"aten::sigmoid", of_one<logistic>},
    {"aten::pow.Tensor_Scalar", power},
    {"aten::pow.Tensor_Tensor", power},
    {"aten::pow.Scalar", power},
    {"aten::addmm", addmm},
    {"aten::baddbmm", addmm},
    {"aten::addbmm", addbmm},
    {"aten::addmv", addmv},
    {"aten::mv", mv},
    {"aten::addr", addr},
    {"aten::dot", dot<false>},
    {"aten::vdot", dot<true>},
    {"aten::rsub.Tensor", reverse_subtract},
    {"aten::rsub.Scalar", reverse_subtract},
    {"aten::addcmul", add_combined<false>},
    {"aten::addcdiv", add_combined<true>},
    {"aten::lerp.Tensor", interpolate},
    {"aten::lerp.Scalar", interpolate},
    {"aten::eq.Tensor", compare<OpKind::kEqual, OpKind::kLogicalAnd>},
    {"aten::eq.Scalar", compare<OpKind::kEqual, OpKind::kLogicalAnd>},
    {"aten::ne.Tensor", compare<OpKind::kNotEqual, OpKind::kLogicalOr>},
    {"aten::ne.Scalar", compare<OpKind::kNotEqual, OpKind::kLogicalOr>},
    {"aten::linalg_inv_ex", inverse},
    {"aten::prod", product_of_all},
    {"aten::prod.dim_int", product_of_all},
};

}  // namespace

std::span<const Entry> complex_function_entries() { return kEntries; }

}  // namespace crucible::aten
