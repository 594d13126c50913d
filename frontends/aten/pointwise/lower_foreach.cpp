// Lowering of _foreach_ ops: what the op of one tensor means, for every tensor of a list (OpCall::by_items()). An
// in-place variant returns nothing and writes its list `self`, one with an out argument writes that; the functional one
// returns a list.
#include <algorithm>
#include <string>

#include "frontends/aten/algebra/algebra.hpp"
#include "frontends/aten/lower_table.hpp"

namespace crucible::aten {
namespace {

using graph::OpKind;

/// One packet of overloads, "-" being the one without a name.
struct Row {
  std::string_view name;
  std::string_view overloads;
  std::string_view one;            // the op of one tensor
  std::string_view arguments;      // what that op calls the arguments of these overloads, by position
  LowerFunction own = nullptr;     // where there is no such op
  std::string_view by_parts = {};  // overloads that complex numbers go through part by part
};

/// One factor for each tensor, as the elements of another.
template <Expression (*formula)(Emitter&, const Term&, const Term&, const Term&, const Term&)>
void add_combined(OpCall& c) {
  const Term self = c.tensor("self");
  Term factor = c.tensor("value");
  if (factor.rank() != 1) return c.emit().fail("argument scalars is no row of numbers");
  factor.operand.view.offset += static_cast<std::int64_t>(c.item()) * factor.operand.view.strides[0];
  factor.operand.view.sizes.clear();
  factor.operand.view.strides.clear();
  c.set(0, formula(c.emit(), self, c.operand("tensor1"), c.operand("tensor2"),
                   c.emit().cast(factor, compute_dtype(self.dtype))));
}

/// Converted when it is written, from the whole numbers that it is chosen from.
void sign(OpCall& c) {
  const Expression x = c.wide("self");
  c.set(0, choose(x > 0, 1, choose(x < 0, -1, 0)));
}

void zero(OpCall& c) {
  const Term x = c.tensor("self");
  c.set(0, c.emit().fill(Term::integer(0), x.sizes(), x.dtype));
}

/// In the precision of the tensor, whatever the result's.
void norm(OpCall& c) {
  const Term x = c.tensor("self");
  std::vector<std::int64_t> dims;
  for (std::int64_t d = 0; d < x.rank(); ++d) dims.push_back(d);
  c.set(0, c.emit().drop(vector_norm(c.emit(), x, c.real("ord"), dims), dims));
}

/// The sum of powers whose root norm() is: sharded gradients are summed before it.
void power_sum(OpCall& c) {
  Emitter& e = c.emit();
  const Expression x = c.wide("self");
  std::vector<std::int64_t> dims;
  for (std::int64_t d = 0; d < x.rank(); ++d) dims.push_back(d);
  const double order = c.real("ord");
  const Expression size = magnitude(x);
  const Expression powers = order == 1 ? size : order == 2 ? multiply(e, x, x) : power(e, size, Term::number(order));
  c.set(0, e.drop(e.sum(powers, dims), dims));
}

constexpr Row kRows[] = {
    {"aten::_foreach_abs", "-", "aten::abs", "self"},
    {"aten::_foreach_acos", "-", "aten::acos", "self"},
    {"aten::_foreach_add", "Scalar ScalarList", "aten::add.Scalar", "self other"},
    {"aten::_foreach_add", "List Tensor", "aten::add.Tensor", "self other alpha", nullptr, "List"},
    {"aten::_foreach_addcdiv", "Scalar ScalarList", "aten::addcdiv", "self tensor1 tensor2 value"},
    {"aten::_foreach_addcdiv", "Tensor", "", "self tensor1 tensor2 value", add_combined<add_quotient>},
    {"aten::_foreach_addcmul", "Scalar ScalarList", "aten::addcmul", "self tensor1 tensor2 value"},
    {"aten::_foreach_addcmul", "Tensor", "", "self tensor1 tensor2 value", add_combined<add_product>},
    {"aten::_foreach_asin", "-", "aten::asin", "self"},
    {"aten::_foreach_atan", "-", "aten::atan", "self"},
    {"aten::_foreach_ceil", "-", "aten::ceil", "self"},
    {"aten::_foreach_clamp_max", "Scalar List ScalarList", "aten::clamp_max", "self max"},
    {"aten::_foreach_clamp_min", "Scalar List ScalarList", "aten::clamp_min", "self min"},
    {"aten::_foreach_copy", "-", "aten::copy_", "self src"},
    {"aten::_foreach_cos", "-", "aten::cos", "self"},
    {"aten::_foreach_cosh", "-", "aten::cosh", "self"},
    {"aten::_foreach_div", "Scalar List ScalarList Tensor", "aten::div.Tensor", "self other"},
    {"aten::_foreach_erf", "-", "aten::erf", "self"},
    {"aten::_foreach_erfc", "-", "aten::erfc", "self"},
    {"aten::_foreach_exp", "-", "aten::exp", "self"},
    {"aten::_foreach_expm1", "-", "aten::expm1", "self"},
    {"aten::_foreach_floor", "-", "aten::floor", "self"},
    {"aten::_foreach_frac", "-", "aten::frac", "self"},
    {"aten::_foreach_lerp", "Scalar List ScalarList", "aten::lerp.Scalar", "self end weight"},
    {"aten::_foreach_lgamma", "-", "aten::lgamma", "self"},
    {"aten::_foreach_log", "-", "aten::log", "self"},
    {"aten::_foreach_log10", "-", "aten::log10", "self"},
    {"aten::_foreach_log1p", "-", "aten::log1p", "self"},
    {"aten::_foreach_log2", "-", "aten::log2", "self"},
    {"aten::_foreach_max", "-", "aten::max", "self"},
    {"aten::_foreach_maximum", "Scalar List ScalarList", "aten::clamp_min", "self min"},
    {"aten::_foreach_minimum", "Scalar List ScalarList", "aten::clamp_max", "self max"},
    {"aten::_foreach_mul", "Scalar List ScalarList Tensor", "aten::mul.Tensor", "self other", nullptr, "Scalar"},
    {"aten::_foreach_neg", "-", "aten::neg", "self", nullptr, "-"},
    {"aten::_foreach_norm", "Scalar", "", "self", norm},
    {"aten::_foreach_pow", "Scalar List ScalarList ScalarAndTensor", "aten::pow.Tensor_Tensor", "self exponent"},
    {"aten::_foreach_powsum", "Scalar", "", "self", power_sum},
    {"aten::_foreach_reciprocal", "-", "aten::reciprocal", "self"},
    {"aten::_foreach_round", "-", "aten::round", "self"},
    {"aten::_foreach_rsqrt", "-", "aten::rsqrt", "self"},
    {"aten::_foreach_sigmoid", "-", "aten::sigmoid", "self"},
    {"aten::_foreach_sign", "-", "", "self", sign},
    {"aten::_foreach_sin", "-", "aten::sin", "self"},
    {"aten::_foreach_sinh", "-", "aten::sinh", "self"},
    {"aten::_foreach_sqrt", "-", "aten::sqrt", "self"},
    {"aten::_foreach_sub", "Scalar ScalarList", "aten::sub.Scalar", "self other"},
    {"aten::_foreach_sub", "List", "aten::sub.Tensor", "self other alpha", nullptr, "List"},
    {"aten::_foreach_tan", "-", "aten::tan", "self"},
    {"aten::_foreach_tanh", "-", "aten::tanh", "self"},
    {"aten::_foreach_trunc", "-", "aten::trunc", "self"},
    {"aten::_foreach_zero", "-", "", "self", zero},
};

std::vector<std::string_view> words(std::string_view text) {
  std::vector<std::string_view> all;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find(' '), text.size());
    all.push_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return all;
}

struct Overload {
  std::string name;  // as the table has it
  const Row* row;
  bool by_parts;
};

const std::vector<Overload>& overloads() {
  static const std::vector<Overload> kAll = [] {
    std::vector<Overload> all;
    for (const Row& row : kRows) {
      const auto parts = words(row.by_parts);
      for (const std::string_view overload : words(row.overloads)) {
        const std::string name = std::string(row.name) + (overload == "-" ? "" : "." + std::string(overload));
        all.push_back({name, &row, std::ranges::find(parts, overload) != parts.end()});
      }
    }
    return all;
  }();
  return kAll;
}

void for_each(OpCall& c) {
  const auto found = std::ranges::find(overloads(), c.entry_name(), &Overload::name);
  const Row& row = *found->row;
  c.by_items(words(row.arguments), row.own != nullptr ? row.own : find_entry(row.one)->lower);
}

}  // namespace

std::span<const Entry> foreach_entries() {
  static const std::vector<Entry> kEntries = [] {
    std::vector<Entry> entries;
    for (const Overload& overload : overloads()) {
      entries.push_back({overload.name, for_each, overload.by_parts ? Complexity::kParts : Complexity::kWhole});
    }
    return entries;
  }();
  return kEntries;
}

}  // namespace crucible::aten
