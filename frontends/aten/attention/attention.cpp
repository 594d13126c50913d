// Scaled dot-product attention: see attention.hpp.
#include "frontends/aten/attention/attention.hpp"

#include <fmt/format.h>

#include "frontends/aten/algebra/algebra.hpp"

namespace crucible::aten {
namespace {

using graph::OpKind;

constexpr double kInfinity = std::numeric_limits<double>::infinity();

/// How many query heads share a head of the keys; 0 where the numbers do not fit.
std::int64_t sharing(const Attention& a) {
  const std::int64_t heads = a.query.size(1), fewer = a.key.size(1);
  return fewer > 0 && heads % fewer == 0 ? heads / fewer : 0;
}

/// [b, heads, n, w] as [b, shared heads, sharing, n, w] where heads are shared, so that products broadcast.
Term grouped(Emitter& e, const Term& x, std::int64_t times) {
  if (times == 1 || x.rank() < 4 || x.size(1) == 1) return times == 1 || x.rank() < 4 ? x : e.unsqueeze(x, 1);
  return e.reshape(x, {x.size(0), x.size(1) / times, times, x.size(2), x.size(3)});
}

Term ungrouped(Emitter& e, const Term& x) {
  if (x.rank() == 4) return x;
  return e.reshape(x, {x.size(0), x.size(1) * x.size(2), x.size(3), x.size(4)});
}

/// The attention with heads grouped; null keys in the middle broadcast over the queries that share them.
struct Grouped {
  Term query, key, value;
  std::int64_t times = 1;

  Grouped(Emitter& e, const Attention& a) : query(a.query), key(a.key), value(a.value), times(sharing(a)) {
    const bool fits = query.rank() == 4 && key.rank() == 4 && value.rank() == 4 && times > 0;
    if (!fits || value.size(1) != key.size(1)) {
      e.fail("the heads of query, key and value do not fit");
      times = 1;
      return;
    }
    query = grouped(e, query, times);
    if (times > 1) {
      key = e.unsqueeze(key, 2);
      value = e.unsqueeze(value, 2);
    }
  }

  /// A gradient of keys or values: the sum over the heads that share them.
  Term shared(Emitter& e, const Term& gradient) const {
    if (times == 1) return gradient;
    return e.drop(e.sum(widened(e, gradient), {2}), {2});
  }
};

/// Both sides of the band that the coordinates allow, ands included; nothing without limits. Shape [queries, keys].
std::optional<Term> band(Emitter& e, const Attention& a, const Term& s) {
  const Sizes plane{s.size(-2), s.size(-1)};
  std::optional<Term> seen;
  const auto limit = [&](OpKind kind, std::int64_t offset) {
    Term row = e.coordinate(0, plane, DType::kI32);
    if (offset != 0) row = e.binary(OpKind::kAdd, row, Term::integer(offset));
    const Expression side = e.coordinate(1, plane, DType::kI32).binary(kind, row);
    seen = seen ? *seen && side : side;
  };
  if (a.right) limit(OpKind::kLessEqual, a.shift + *a.right);
  if (a.left) limit(OpKind::kGreaterEqual, a.shift - *a.left);
  return seen;
}

/// scale q k^T with the masks: -infinity where a query must not look.
Term scores(Emitter& e, const Attention& a, const Grouped& g) {
  Term s = e.matmul(widened(e, g.query), e.transpose(widened(e, g.key), -1, -2), a.scale);
  if (a.mask) {
    const Term mask = grouped(e, *a.mask, g.times);
    s = mask.dtype == DType::kBool ? e.select(mask, s, Term::number(-kInfinity)) : s + e.cast(mask, s.dtype);
  }
  if (const auto seen = band(e, a, s)) s = e.select(*seen, s, Term::number(-kInfinity));
  return s;
}

/// `x` of scores, 0 where dropout has taken one.
Term without_dropped(Emitter& e, const Attention& a, const Grouped& g, const Term& x) {
  return a.kept ? Term(e.select(grouped(e, *a.kept, g.times), x, Term::number(0))) : x;
}

Term scaled(Emitter& e, const Attention& a, const Term& x) {
  return a.kept ? Term(multiply(e, x, Term::number(a.kept_scale))) : x;
}

/// The softmax of scores in parts. Backward passes write it again, and are given that of the forward pass by
/// merge_equal.
struct Softmax {
  Term top, powers, total;  // powers / total are the probabilities

  Softmax(Emitter& e, const Attention& a, const Term& s) : top(e.max(s, {-1})) {
    // A query that sees no key has no largest score; 0 in its place gives it probabilities and a logarithm of 0.
    const bool may_be_empty = a.mask || a.left || a.right;
    if (may_be_empty) top = e.select(e.binary(OpKind::kEqual, top, Term::number(-kInfinity)), Term::number(0), top);
    powers = e.unary(OpKind::kExp, e.binary(OpKind::kSubtract, s, top));
    total = e.sum(powers, {-1});
    if (may_be_empty) total = e.select(e.binary(OpKind::kEqual, total, Term::number(0)), Term::number(1), total);
  }

  Term probabilities(Emitter& e) const { return e.binary(OpKind::kDivide, powers, total); }
};

}  // namespace

std::vector<graph::CompositeAttribute> attributes_of(const Attention& a) {
  std::vector<graph::CompositeAttribute> attributes = {
      {"scale", false, {graph::Scalar{graph::kNone, false, a.scale, 0}}}};
  const auto add = [&](const char* name, std::int64_t number) {
    attributes.push_back({name, false, {graph::Scalar{graph::kNone, true, 0, number}}});
  };
  if (a.left) add("left", *a.left);
  if (a.right) *a.right == 0 ? add("causal", 1) : add("right", *a.right);
  if (a.shift != 0 && (a.left || a.right)) add("shift", a.shift);
  return attributes;
}

AttentionResult attend(Emitter& e, const Attention& a) {
  const Grouped g(e, a);
  if (!e.failure().empty()) return {a.query, a.query, a.query};
  const Term s = scores(e, a, g);
  if (s.size(-1) == 0) {  // no keys: nothing is seen
    Sizes sizes = a.query.sizes();
    sizes[3] = a.value.size(3);
    const Term zero = Term::number(0);
    return {e.fill(zero, sizes, a.value.dtype), e.fill(zero, {sizes[0], sizes[1], sizes[2]}, s.dtype), ungrouped(e, s)};
  }
  const Softmax softmax(e, a, s);
  const Term probabilities = softmax.probabilities(e);  // dead where nobody asks for them
  const Expression log_sum = softmax.top + e.unary(OpKind::kLog, softmax.total);
  const Expression rounded = widened(e, e.cast(without_dropped(e, a, g, softmax.powers), a.value.dtype));
  const Expression divided = e.matmul(rounded, widened(e, g.value)) / softmax.total;
  const Term output = scaled(e, a, divided);
  const Sizes rows{a.query.size(0), a.query.size(1), a.query.size(2)};
  return {ungrouped(e, output), e.reshape(log_sum, rows), ungrouped(e, probabilities)};
}

AttentionGradient attend_backward(Emitter& e, const Attention& a, const Term& gradient, const Term& output) {
  const Grouped g(e, a);
  if (!e.failure().empty()) return {a.query, a.key, a.value, a.query};
  const Term go = grouped(e, gradient, g.times);
  const Term s = scores(e, a, g);
  const Term p = Softmax(e, a, s).probabilities(e);
  const Expression inner = e.sum(multiply(e, go, grouped(e, output, g.times)), {-1});
  const Term straight = e.matmul(widened(e, go), e.transpose(widened(e, g.value), -1, -2));
  const Expression slope = Expression(e, scaled(e, a, without_dropped(e, a, g, straight))) - inner;
  const Expression ds = multiply(e, p, slope);
  // Scaled before it is rounded, as the framework's kernel does it.
  const Expression narrow = e.cast(multiply(e, ds, Term::number(a.scale)), a.query.dtype);
  AttentionGradient result;
  result.query = ungrouped(e, e.matmul(narrow, g.key));
  result.key = g.shared(e, e.matmul(e.transpose(narrow, -1, -2), g.query));
  const Term seen = scaled(e, a, without_dropped(e, a, g, p));
  result.value = g.shared(e, e.matmul(e.transpose(e.cast(seen, go.dtype), -1, -2), go));
  result.mask = ungrouped(e, ds);
  return result;
}

}  // namespace crucible::aten
