// Lowering of _foreach_ ops: the same formula for every tensor of a list. An in-place variant returns nothing and
// writes its list `self`, one with an out argument writes that; the functional one returns a list.
#include "frontends/aten/formulas.hpp"
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

template <OpKind kind>
void unary_any(OpCall& c) {
  for_each(c, [&](std::size_t, const Term& x) { return c.emit().unary(kind, widened(c.emit(), x)); });
}

/// (self, tensor1, tensor2, value or scalars).
template <Term (*formula)(Emitter&, const Term&, const Term&, const Term&, const Term&)>
void add_combined(OpCall& c) {
  const Argument x(c, "tensor1", true), y(c, "tensor2", true);
  if (c.entry_name().ends_with(".Tensor")) return c.emit().fail("factors in a tensor are not supported");
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
    give(c, i, c.emit().binary(OpKind::kPower, base, as_floating(c.emit(), exponents[i])));
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
    {"aten::_foreach_zero", zero},
    {"aten::_foreach_copy", copy},
    {"aten::_foreach_norm.Scalar", norm},
};

}  // namespace

std::span<const Entry> foreach_entries() { return kEntries; }

}  // namespace crucible::aten
