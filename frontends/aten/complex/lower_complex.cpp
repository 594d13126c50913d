// Lowering of ops on complex numbers: views of their parts, arithmetic, sums, products, copies. find_entry() takes
// these where an argument or a result is complex; what is not here is refused for complex numbers.
#include <algorithm>

#include "frontends/aten/algebra/algebra.hpp"
#include "frontends/aten/complex/complex.hpp"
#include "frontends/aten/indexing/index_plan.hpp"
#include "frontends/aten/lower_table.hpp"
#include "frontends/aten/reduction/reducing.hpp"
#include "frontends/aten/shape/windows.hpp"

namespace crucible::aten {
namespace {

using graph::OpKind;

/// Numbers of the schema's `alpha`, 1 where it has none.
Complex alpha_of(OpCall& c) { return c.has("alpha") ? c.complex("alpha") : Complex{Term::number(1), Term::number(0)}; }

bool is_one(const Complex& x) {
  const auto is = [](const Term& t, double wanted) {
    const graph::Scalar& s = t.operand.scalar;
    return t.is_number() && s.slot == graph::kNone &&
           (s.is_integer ? static_cast<double>(s.integer) : s.real) == wanted;
  };
  return is(x.real, 1) && is(x.imaginary, 0);
}

Complex scaled_other(OpCall& c) {
  const Complex alpha = alpha_of(c), other = c.complex("other");
  return is_one(alpha) ? other : multiply(c.emit(), alpha, other);
}

void add_op(OpCall& c) { c.set_complex(0, add(c.emit(), c.complex("self"), scaled_other(c))); }
void subtract_op(OpCall& c) { c.set_complex(0, subtract(c.emit(), c.complex("self"), scaled_other(c))); }
void multiply_op(OpCall& c) { c.set_complex(0, multiply(c.emit(), c.complex("self"), c.complex("other"))); }
void divide_op(OpCall& c) { c.set_complex(0, divide(c.emit(), c.complex("self"), c.complex("other"))); }
void reciprocal(OpCall& c) {
  c.set_complex(0, divide(c.emit(), {Term::number(1), Term::number(0)}, c.complex("self")));
}

void negate(OpCall& c) {
  Emitter& e = c.emit();
  const Complex x = c.complex("self");
  c.set_complex(0, {e.unary(OpKind::kNegate, x.real), e.unary(OpKind::kNegate, x.imaginary)});
}

void conjugate_op(OpCall& c) { c.set_complex(0, conjugate(c.emit(), c.complex("self"))); }
void absolute(OpCall& c) { c.set(0, magnitude(c.emit(), c.complex("self"))); }

void angle(OpCall& c) {
  const Complex x = c.complex("self");
  c.set(0, c.emit().binary(OpKind::kAtan2, x.imaginary, x.real));
}

/// x / |x|, 0 for 0.
void sign(OpCall& c) {
  Emitter& e = c.emit();
  const Complex x = c.complex("self");
  const Expression length(e, magnitude(e, x));
  c.set_complex(0, {choose(length == 0, 0.0, Expression(e, x.real) / length),
                    choose(length == 0, 0.0, Expression(e, x.imaginary) / length)});
}

void exponential(OpCall& c) {
  Emitter& e = c.emit();
  const Complex x = c.complex("self");
  c.set_complex(0, polar(e, e.unary(OpKind::kExp, x.real), x.imaginary));
}

void from_polar(OpCall& c) { c.set_complex(0, polar(c.emit(), c.tensor("abs"), c.tensor("angle"))); }
void from_parts(OpCall& c) { c.set_complex(0, {c.tensor("real"), c.tensor("imag")}); }

void sum(OpCall& c) {
  Emitter& e = c.emit();
  const Complex x = c.complex("self");
  const Dims dims = dims_of(c, x.real);
  c.set_complex(0, {kept_or_dropped(c, e.sum(x.real, dims), dims), kept_or_dropped(c, e.sum(x.imaginary, dims), dims)});
}

void mean(OpCall& c) {
  Emitter& e = c.emit();
  const Complex x = c.complex("self");
  const Dims dims = dims_of(c, x.real);
  c.set_complex(0,
                {kept_or_dropped(c, e.mean(x.real, dims), dims), kept_or_dropped(c, e.mean(x.imaginary, dims), dims)});
}

void matrix_product(OpCall& c) {
  Emitter& e = c.emit();
  const Complex a = c.complex("self"), b = c.complex(c.has("mat2") ? "mat2" : "other");
  if (a.real.is_number() || b.real.is_number()) return e.fail("a matrix product of numbers");
  const auto wide = [&](const Term& part, const Complex& whole) {
    return part.is_number() ? e.fill(part, whole.sizes(), whole.real.dtype) : part;
  };
  const Term ai = wide(a.imaginary, a), bi = wide(b.imaginary, b);
  c.set_complex(0, {e.binary(OpKind::kSubtract, e.matmul(a.real, b.real), e.matmul(ai, bi)),
                    e.binary(OpKind::kAdd, e.matmul(a.real, bi), e.matmul(ai, b.real))});
}

/// The same numbers in a storage of their own, or in that of `self`; complex from real ones, or the real parts of
/// complex ones.
void copy(OpCall& c) {
  const bool in_place = c.has("src");
  if (!in_place && c.aliases(0, "self")) return;  // a conversion that had nothing to do
  const Complex x = c.complex(in_place ? "src" : "self");
  if (c.result(0).dtype != DType::kBool || x.imaginary.is_number()) return c.set_complex(0, x);
  Emitter& e = c.emit();
  const auto is_some = [&](const Term& part) { return e.binary(OpKind::kNotEqual, part, Term::integer(0)); };
  c.set(0, e.binary(OpKind::kLogicalOr, is_some(x.real), is_some(x.imaginary)));
}

void reshape(OpCall& c) {
  Emitter& e = c.emit();
  if (c.aliases(0, "self")) return;
  const Complex x = c.complex("self");
  c.set_complex(0, {e.reshape(x.real, c.result(0).sizes), e.reshape(x.imaginary, c.result(0).sizes)});
}

void select_where(OpCall& c) {
  Emitter& e = c.emit();
  const Term condition = c.tensor("condition");
  const Complex a = c.complex("self"), b = c.complex("other");
  c.set_complex(0, {e.select(condition, a.real, b.real), e.select(condition, a.imaginary, b.imaginary)});
}

template <int number>
void constant(OpCall& c) {
  c.set_complex(0, {Term::number(number), Term::number(0)});
}

void fill(OpCall& c) { c.set_complex(0, c.complex(c.has("value") ? "value" : c.has("s") ? "s" : "fill_value")); }

void empty(OpCall& c) {
  if (!c.enters(0)) c.set_complex(0, {Term::number(0), Term::number(0)});
}

void constant_pad(OpCall& c) {
  Emitter& e = c.emit();
  const Complex x = c.complex("self");
  const Complex value = c.has("value") ? c.complex("value") : Complex{Term::number(0), Term::number(0)};
  const auto pad = c.integers("pad");
  const std::size_t rank = x.sizes().size();
  if (pad.size() / 2 > rank || x.real.is_number()) return e.fail("a margin around more dimensions than the tensor has");
  Sizes before(rank, 0), after(rank, 0);
  for (std::size_t i = 0; i < pad.size() / 2; ++i) {
    constexpr std::int64_t kMost = std::int64_t{1} << 48;  // of a damaged recording: before it overflows
    before[rank - 1 - i] = std::clamp(pad[2 * i], -kMost, kMost);
    after[rank - 1 - i] = std::clamp(pad[2 * i + 1], -kMost, kMost);
  }
  c.set_complex(0,
                {padded(e, x.real, before, after, value.real), padded(e, x.imaginary, before, after, value.imaginary)});
}

constexpr Entry kEntries[] = {
    {"aten::add.Tensor", add_op},
    {"aten::add.Scalar", add_op},
    {"aten::sub.Tensor", subtract_op},
    {"aten::sub.Scalar", subtract_op},
    {"aten::mul.Tensor", multiply_op},
    {"aten::mul.Scalar", multiply_op},
    {"aten::div.Tensor", divide_op},
    {"aten::div.Scalar", divide_op},
    {"aten::reciprocal", reciprocal},
    {"aten::neg", negate},
    {"aten::_conj_physical", conjugate_op},
    {"aten::conj_physical", conjugate_op},
    {"aten::abs", absolute},
    {"aten::angle", angle},
    {"aten::sgn", sign},
    {"aten::exp", exponential},
    {"aten::sum", sum},
    {"aten::sum.dim_IntList", sum},
    {"aten::mean", mean},
    {"aten::mean.dim", mean},
    {"aten::mm", matrix_product},
    {"aten::bmm", matrix_product},
    {"aten::clone", copy},
    {"aten::_to_copy", copy},
    {"aten::copy_", copy},
    {"aten::lift_fresh_copy", copy},
    {"aten::view", reshape},
    {"aten::_unsafe_view", reshape},
    {"aten::_reshape_alias", reshape},
    {"aten::where.self", select_where},
    {"aten::zeros", constant<0>},
    {"aten::zeros_like", constant<0>},
    {"aten::new_zeros", constant<0>},
    {"aten::zero_", constant<0>},
    {"aten::_efficientzerotensor", constant<0>},
    {"aten::ones", constant<1>},
    {"aten::ones_like", constant<1>},
    {"aten::new_ones", constant<1>},
    {"aten::full", fill},
    {"aten::full_like", fill},
    {"aten::new_full", fill},
    {"aten::scalar_tensor", fill},
    {"aten::fill.Scalar", fill},
    {"aten::fill.Tensor", fill},
    {"aten::fill_.Scalar", fill},
    {"aten::empty.memory_format", empty},
    {"aten::empty_like", empty},
    {"aten::empty_strided", empty},
    {"aten::new_empty", empty},
    {"aten::new_empty_strided", empty},
    {"aten::empty_permuted", empty},
    {"aten::constant_pad_nd", constant_pad},
};

// Ops that no real numbers know.
constexpr Entry kOwn[] = {
    {"aten::complex", from_parts},
    {"aten::polar", from_polar},
};

}  // namespace

std::span<const Entry> complex_entries() { return kEntries; }
std::span<const Entry> complex_own_entries() { return kOwn; }

}  // namespace crucible::aten
