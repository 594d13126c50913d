// Lowering of scaled dot-product attention: products, a causal select by coordinates, and a softmax over the keys.
// The gradient recomputes the probabilities from the saved logarithm of the sums.
#include <cmath>
#include <limits>

#include "frontends/aten/formulas.hpp"
#include "frontends/aten/lower_table.hpp"

namespace crucible::aten {
namespace {

using graph::OpKind;

double scale_of(OpCall& c, const Term& query) {
  return c.has("scale") ? c.real("scale") : 1.0 / std::sqrt(static_cast<double>(query.size(-1)));
}

bool refuse_dropout(OpCall& c) {
  const bool dropout = c.real("dropout_p") != 0;
  if (dropout) c.emit().fail("attention with dropout is not supported");
  return dropout;
}

/// scale q k^T, with the additive mask, in f32 or better. Shapes: [b, h, queries, keys].
Term scores(OpCall& c, const Term& query, const Term& key) {
  Emitter& e = c.emit();
  Term s = widened(e, e.matmul(query, e.transpose(key, -1, -2), scale_of(c, query)));
  if (c.has("attn_mask")) {
    const Term mask = c.tensor("attn_mask");
    s = mask.dtype == DType::kBool ? e.select(mask, s, Term::number(-std::numeric_limits<double>::infinity()))
                                   : e.binary(OpKind::kAdd, s, widened(e, mask));
  }
  return s;
}

/// True where query i may look at key j: j <= i. Shapes: [queries, keys].
Term causal_mask(Emitter& e, const Term& s) {
  const Sizes plane{s.size(-2), s.size(-1)};
  return e.binary(OpKind::kLessEqual, e.coordinate(1, plane, DType::kI32), e.coordinate(0, plane, DType::kI32));
}

void attention(OpCall& c) {
  Emitter& e = c.emit();
  if (refuse_dropout(c)) return;
  const Term query = c.tensor("query"), key = c.tensor("key"), value = c.tensor("value");
  Term s = scores(c, query, key);
  if (c.boolean("is_causal")) {
    s = e.select(causal_mask(e, s), s, Term::number(-std::numeric_limits<double>::infinity()));
  }
  const Term top = e.max(s, {-1});
  const Term powers = e.unary(OpKind::kExp, e.binary(OpKind::kSubtract, s, top));
  const Term total = e.sum(powers, {-1});
  const Term probabilities = e.binary(OpKind::kDivide, powers, total);
  const Term log_sum = e.binary(OpKind::kAdd, top, e.unary(OpKind::kLog, total));
  c.set(0, e.matmul(e.cast(probabilities, value.dtype), value));
  c.set(1, e.drop(log_sum, {-1}));
}

void attention_backward(OpCall& c) {
  Emitter& e = c.emit();
  if (refuse_dropout(c)) return;
  const Term g = c.tensor("grad_out"), query = c.tensor("query"), key = c.tensor("key"), value = c.tensor("value");
  const Term log_sum = e.unsqueeze(c.tensor("logsumexp"), -1);
  const Term s = scores(c, query, key);
  Term p = e.unary(OpKind::kExp, e.binary(OpKind::kSubtract, s, log_sum));
  if (c.boolean("is_causal")) p = e.select(causal_mask(e, s), p, Term::number(0));
  const Term inner = e.sum(multiply(e, g, c.tensor("out")), {-1});
  const Term slope = e.binary(OpKind::kSubtract, widened(e, e.matmul(g, e.transpose(value, -1, -2))), inner);
  const Term ds = e.cast(multiply(e, p, slope), query.dtype);
  const double scale = scale_of(c, query);
  c.set(0, e.matmul(ds, key, scale));
  c.set(1, e.matmul(e.transpose(ds, -1, -2), query, scale));
  c.set(2, e.matmul(e.transpose(e.cast(p, g.dtype), -1, -2), g));
}

constexpr Entry kEntries[] = {
    {"aten::_scaled_dot_product_flash_attention_for_cpu", attention},
    {"aten::_scaled_dot_product_flash_attention_for_cpu_backward", attention_backward},
};

}  // namespace

std::span<const Entry> attention_entries() { return kEntries; }

}  // namespace crucible::aten
