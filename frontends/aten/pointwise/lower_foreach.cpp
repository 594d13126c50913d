// Lowering of _foreach_ ops: the same formula for every tensor of a list. An in-place variant returns nothing and
// writes its list `self`, one with an out argument writes that; the functional one returns a list.
#include "frontends/aten/algebra/algebra.hpp"
#include "frontends/aten/lower_table.hpp"

namespace crucible::aten {
namespace {

using graph::OpKind;

/// Result `i`: returned, or written to the list `out` or `self`.
void give(OpCall& c, std::size_t i, const Term& result) {
  if (c.result_count() > 0) return c.set(i, result);
  c.write(c.has("out") ? "out" : "self", result, i);
}

/// The i-th operand of argument `name`: an item of its list, or the argument itself for all.
class Argument {
 public:
  Argument(OpCall& c, std::string_view name, bool is_list) {
    if (is_list) {
      items_ = c.operands(name);
    } else {
      items_ = {c.operand(name)};
    }
    one_ = !is_list;
  }
  Term operator[](std::size_t i) const {
    return items_.empty() ? Term::number(0) : items_[one_ ? 0 : i % items_.size()];
  }

 private:
  std::vector<Term> items_;
  bool one_ = false;
};

/// Runs `formula(i, self)` for every tensor of the list.
template <class Formula>
void for_each(OpCall& c, Formula formula, const char* list = "self") {
  const auto tensors = c.tensors(list);
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    give(c, i, formula(i, tensors[i]));
  }
}

/// The second operand of a binary op by overload: List other, Scalar scalar, ScalarList scalars, Tensor other.
Argument second(OpCall& c) {
  if (c.entry_name().ends_with(".List")) return {c, "other", true};
  if (c.entry_name().ends_with(".ScalarList")) return {c, "scalars", true};
  if (c.entry_name().ends_with(".Tensor")) return {c, "other", false};
  return {c, "scalar", false};
}

Term alpha_of(OpCall& c) { return c.has("alpha") ? c.operand("alpha") : Term::integer(1); }

void add(OpCall& c) {
  const Argument other = second(c);
  const Term alpha = alpha_of(c);
  for_each(c, [&](std::size_t i, const Term& x) { return add_scaled(c.emit(), x, other[i], alpha); });
}

void subtract(OpCall& c) {
  const Argument other = second(c);
  const Term alpha = alpha_of(c);
  for_each(c, [&](std::size_t i, const Term& x) { return subtract_scaled(c.emit(), x, other[i], alpha); });
}

void multiply_all(OpCall& c) {
  const Argument other = second(c);
  for_each(c, [&](std::size_t i, const Term& x) { return multiply(c.emit(), x, other[i]); });
}

void divide_all(OpCall& c) {
  const Argument other = second(c);
  for_each(c, [&](std::size_t i, const Term& x) { return divide(c.emit(), x, other[i]); });
}

template <OpKind kind>
void extremum(OpCall& c) {
  const Argument other = second(c);
  for_each(c, [&](std::size_t i, const Term& x) { return c.emit().binary(kind, widened(c.emit(), x), other[i]); });
}

template <OpKind kind>
void unary(OpCall& c) {
  for_each(c, [&](std::size_t, const Term& x) { return c.emit().unary(kind, as_floating(c.emit(), x)); });
}

/// Integers are whole already.
template <OpKind kind>
void rounding(OpCall& c) {
  for_each(c, [&](std::size_t, const Term& x) {
    return is_floating(x.dtype) ? c.emit().unary(kind, widened(c.emit(), x)) : x;
  });
}

void fraction(OpCall& c) {
  for_each(c, [&](std::size_t, const Term& x) {
    const Expression wide(c.emit(), widened(c.emit(), x));
    return (wide - wide.unary(OpKind::kTruncate)).term();
  });
}

void sign(OpCall& c) {
  for_each(c, [&](std::size_t, const Term& x) {
    const Expression wide(c.emit(), widened(c.emit(), x));
    return choose(wide > 0, 1, choose(wide < 0, -1, 0)).term();
  });
}

template <OpKind kind>
void unary_any(OpCall& c) {
  for_each(c, [&](std::size_t, const Term& x) { return c.emit().unary(kind, widened(c.emit(), x)); });
}

/// (self, tensor1, tensor2, value or scalars).
template <Term (*formula)(Emitter&, const Term&, const Term&, const Term&, const Term&)>
void add_combined(OpCall& c) {
  const Argument x(c, "tensor1", true), y(c, "tensor2", true);
  if (c.entry_name().ends_with(".Tensor")) {
    // One factor for each tensor, as the elements of another.
    const Term factors = c.tensor("scalars");
    if (factors.rank() != 1) return c.emit().fail("argument scalars is no row of numbers");
    return for_each(c, [&](std::size_t i, const Term& self) {
      Term factor = factors;
      factor.operand.view.offset += static_cast<std::int64_t>(i) * factors.operand.view.strides[0];
      factor.operand.view.sizes.clear();
      factor.operand.view.strides.clear();
      return formula(c.emit(), self, x[i], y[i], c.emit().cast(factor, compute_dtype(self.dtype)));
    });
  }
  const bool list = c.entry_name().ends_with(".ScalarList");
  const Argument value(c, list ? "scalars" : "value", list);
  for_each(c, [&](std::size_t i, const Term& self) { return formula(c.emit(), self, x[i], y[i], value[i]); });
}

void lerp(OpCall& c) {
  const Argument end(c, "tensors1", true);
  const bool tensors = c.entry_name().ends_with(".List");
  const Argument weight(c, tensors ? "weights" : "weight", !c.entry_name().ends_with(".Scalar"));
  for_each(c, [&](std::size_t i, const Term& x) { return interpolate(c.emit(), x, end[i], weight[i]); });
}

void power_all(OpCall& c) {
  const bool list = c.entry_name().ends_with(".List") || c.entry_name().ends_with(".ScalarList");
  const Argument exponent(c, "exponent", list);
  for_each(c, [&](std::size_t i, const Term& x) { return power(c.emit(), x, exponent[i]); });
}

/// number ** tensor.
void power_of_number(OpCall& c) {
  const Term base = c.operand("self");
  const auto exponents = c.tensors("exponent");
  for (std::size_t i = 0; i < exponents.size(); ++i) {
    give(c, i, power(c.emit(), base, exponents[i]));
  }
}

void zero(OpCall& c) {
  for_each(c, [&](std::size_t, const Term& x) { return c.emit().fill(Term::integer(0), x.sizes(), x.dtype); });
}

void copy(OpCall& c) {
  const Argument source(c, "src", true);
  for_each(c, [&](std::size_t i, const Term&) { return source[i]; });
}

void norm(OpCall& c) {
  const double order = c.real("ord");
  for_each(c, [&](std::size_t, const Term& x) {
    std::vector<std::int64_t> dims;
    for (std::int64_t d = 0; d < x.rank(); ++d) dims.push_back(d);
    return c.emit().drop(vector_norm(c.emit(), x, order, dims), dims);
  });
}

void maximum_of_all(OpCall& c) {
  for_each(c, [&](std::size_t, const Term& x) {
    std::vector<std::int64_t> dims;
    for (std::int64_t d = 0; d < x.rank(); ++d) dims.push_back(d);
    return c.emit().drop(c.emit().max(x, dims), dims);
  });
}

constexpr Entry kEntries[] = {
    {"aten::_foreach_add.Scalar", add},
    {"aten::_foreach_add.List", add},
    {"aten::_foreach_add.ScalarList", add},
    {"aten::_foreach_add.Tensor", add},
    {"aten::_foreach_sub.Scalar", subtract},
    {"aten::_foreach_sub.List", subtract},
    {"aten::_foreach_sub.ScalarList", subtract},
    {"aten::_foreach_mul.Scalar", multiply_all},
    {"aten::_foreach_mul.List", multiply_all},
    {"aten::_foreach_mul.ScalarList", multiply_all},
    {"aten::_foreach_mul.Tensor", multiply_all},
    {"aten::_foreach_div.Scalar", divide_all},
    {"aten::_foreach_div.List", divide_all},
    {"aten::_foreach_div.ScalarList", divide_all},
    {"aten::_foreach_div.Tensor", divide_all},
    {"aten::_foreach_maximum.List", extremum<OpKind::kMaximum>},
    {"aten::_foreach_maximum.Scalar", extremum<OpKind::kMaximum>},
    {"aten::_foreach_minimum.List", extremum<OpKind::kMinimum>},
    {"aten::_foreach_sqrt", unary<OpKind::kSqrt>},
    {"aten::_foreach_reciprocal", unary<OpKind::kReciprocal>},
    {"aten::_foreach_neg", unary_any<OpKind::kNegate>},
    {"aten::_foreach_abs", unary_any<OpKind::kAbsolute>},
    {"aten::_foreach_addcmul.Scalar", add_combined<add_product>},
    {"aten::_foreach_addcmul.ScalarList", add_combined<add_product>},
    {"aten::_foreach_addcdiv.Scalar", add_combined<add_quotient>},
    {"aten::_foreach_addcdiv.ScalarList", add_combined<add_quotient>},
    {"aten::_foreach_lerp.Scalar", lerp},
    {"aten::_foreach_lerp.List", lerp},
    {"aten::_foreach_lerp.ScalarList", lerp},
    {"aten::_foreach_pow.Scalar", power_all},
    {"aten::_foreach_pow.List", power_all},
    {"aten::_foreach_pow.ScalarAndTensor", power_of_number},
    {"aten::_foreach_exp", unary<OpKind::kExp>},
    {"aten::_foreach_expm1", unary<OpKind::kExpm1>},
    {"aten::_foreach_log", unary<OpKind::kLog>},
    {"aten::_foreach_log10", unary<OpKind::kLog10>},
    {"aten::_foreach_log1p", unary<OpKind::kLog1p>},
    {"aten::_foreach_log2", unary<OpKind::kLog2>},
    {"aten::_foreach_acos", unary<OpKind::kAcos>},
    {"aten::_foreach_asin", unary<OpKind::kAsin>},
    {"aten::_foreach_atan", unary<OpKind::kAtan>},
    {"aten::_foreach_cos", unary<OpKind::kCos>},
    {"aten::_foreach_cosh", unary<OpKind::kCosh>},
    {"aten::_foreach_sin", unary<OpKind::kSin>},
    {"aten::_foreach_sinh", unary<OpKind::kSinh>},
    {"aten::_foreach_tan", unary<OpKind::kTan>},
    {"aten::_foreach_tanh", unary<OpKind::kTanh>},
    {"aten::_foreach_erf", unary<OpKind::kErf>},
    {"aten::_foreach_erfc", unary<OpKind::kErfc>},
    {"aten::_foreach_lgamma", unary<OpKind::kLogGamma>},
    {"aten::_foreach_sigmoid", unary<OpKind::kSigmoid>},
    {"aten::_foreach_rsqrt", unary<OpKind::kReciprocalSqrt>},
    {"aten::_foreach_ceil", rounding<OpKind::kCeil>},
    {"aten::_foreach_floor", rounding<OpKind::kFloor>},
    {"aten::_foreach_round", rounding<OpKind::kRound>},
    {"aten::_foreach_trunc", rounding<OpKind::kTruncate>},
    {"aten::_foreach_frac", fraction},
    {"aten::_foreach_sign", sign},
    {"aten::_foreach_maximum.ScalarList", extremum<OpKind::kMaximum>},
    {"aten::_foreach_minimum.Scalar", extremum<OpKind::kMinimum>},
    {"aten::_foreach_minimum.ScalarList", extremum<OpKind::kMinimum>},
    {"aten::_foreach_clamp_min.List", extremum<OpKind::kMaximum>},
    {"aten::_foreach_clamp_min.Scalar", extremum<OpKind::kMaximum>},
    {"aten::_foreach_clamp_min.ScalarList", extremum<OpKind::kMaximum>},
    {"aten::_foreach_clamp_max.List", extremum<OpKind::kMinimum>},
    {"aten::_foreach_clamp_max.Scalar", extremum<OpKind::kMinimum>},
    {"aten::_foreach_clamp_max.ScalarList", extremum<OpKind::kMinimum>},
    {"aten::_foreach_pow.ScalarList", power_all},
    {"aten::_foreach_addcmul.Tensor", add_combined<add_product>},
    {"aten::_foreach_addcdiv.Tensor", add_combined<add_quotient>},
    {"aten::_foreach_max", maximum_of_all},
    {"aten::_foreach_zero", zero},
    {"aten::_foreach_copy", copy},
    {"aten::_foreach_norm.Scalar", norm},
};

}  // namespace

std::span<const Entry> foreach_entries() { return kEntries; }

}  // namespace crucible::aten
