// Lowering of distances between rows, with their gradients.
#include <cmath>
#include <limits>

#include "frontends/aten/algebra/algebra.hpp"
#include "frontends/aten/lower_table.hpp"
#include "frontends/aten/reduction/reducing.hpp"

namespace crucible::aten {
namespace {

using graph::OpKind;

constexpr double kInfinity = std::numeric_limits<double>::infinity();

Expression zero_of(Emitter& e, const Term& x) { return e.fill(Term::number(0), {}, x.dtype); }

/// Distances of order p over the last dimension of `difference`, which stays with size 1.
Expression distance(Emitter& e, const Term& difference, double p) {
  if (difference.size(-1) == 0) return e.sum(difference, {-1});
  return vector_norm(e, difference, p, {-1});
}

/// The gradient of distance() with respect to `difference`; gradient and distances have the last dimension with size 1.
Expression distance_gradient(Emitter& e, const Term& gradient, const Term& difference, const Term& distances,
                             double p) {
  const Expression zero = zero_of(e, difference);
  if (p == 0) return multiply(e, difference, zero);
  if (p == 1) return multiply(e, gradient, sign_of(e, difference));
  const Expression size = e.unary(OpKind::kAbsolute, difference);
  if (p == kInfinity) {
    const Expression largest = size == distances;
    return choose(largest, multiply(e, gradient, sign_of(e, difference)), zero);
  }
  Term result;
  if (p == 2) {
    result = multiply(e, gradient, e.binary(OpKind::kDivide, difference, distances));
  } else {
    const Expression share = gradient / power(e, distances, Term::number(p - 1));
    result = multiply(e, multiply(e, sign_of(e, difference), power(e, size, Term::number(p - 1))), share);
    if (p < 1) result = choose(difference == zero, zero, result);
  }
  return choose(distances == zero, zero, result);
}

/// Rows [..., n, m] against rows [..., k, m]: [..., n, k, m].
Expression differences(Emitter& e, const Term& a, const Term& b) {
  return e.unsqueeze(a, -2) - e.unsqueeze(b, -3);
}

void cdist(OpCall& c) {
  Emitter& e = c.emit();
  const Expression a = c.wide("x1"), b = c.wide("x2");
  c.set(0, e.drop(distance(e, differences(e, a, b), c.real("p")), {-1}));
}

/// Distances of order 2 as one product of matrices: the root of a a - 2 a b + b b, with the rounding that this has near
/// 0.
void euclidean_distance(OpCall& c) {
  Emitter& e = c.emit();
  const Expression a = c.wide("x1"), b = c.wide("x2");
  const Expression left = e.sum(multiply(e, a, a), {-1}), right = e.sum(multiply(e, b, b), {-1});
  const auto ones = [&](const Term& like) { return e.fill(Term::number(1), like.sizes(), like.dtype); };
  const Expression rows = e.concat({multiply(e, a, Term::number(-2)), left, ones(left)}, -1);
  const Expression columns = e.transpose(e.concat({b, ones(right), right}, -1), -1, -2);
  c.set(0, square_root(larger(e.matmul(rows, columns), 0)));
}

void cdist_backward(OpCall& c) {
  Emitter& e = c.emit();
  const Expression a = c.wide("x1"), b = c.wide("x2");
  // Of no pairs the framework gives zeros without the batch that both have together.
  if (c.tensor("cdist").elements() == 0) return c.set(0, e.fill(Term::integer(0), a.sizes(), a.dtype));
  const Expression gradient = e.unsqueeze(c.wide(c.has("grad") ? "grad" : "grad_output"), -1);
  const Expression distances = e.unsqueeze(c.wide("cdist"), -1);
  const Expression full = distance_gradient(e, gradient, differences(e, a, b), distances, c.real("p"));
  c.set(0, e.drop(e.sum(full, {-2}), {-2}));
}

/// All pairs i < j in order, from a table of distances [n, n].
constexpr std::int64_t kMostRows = 16384;  // of which all pairs are taken, one op or two for each row

Term upper_triangle(Emitter& e, const Term& table) {
  const std::int64_t n = table.size(0);
  if (n > kMostRows) e.fail("distances within more than 16384 rows are not supported");
  if (n > kMostRows) return table;
  std::vector<Term> rows;
  for (std::int64_t i = 0; i + 1 < n; ++i) {
    rows.push_back(e.reshape(slice(slice(table, 0, i, 1), 1, i + 1, n - 1 - i), {n - 1 - i}));
  }
  return e.concat(rows, 0);
}

/// The table [n, n] of which upper_triangle() is `pairs`, symmetric, zero on the diagonal.
Expression symmetric(Emitter& e, const Term& pairs, std::int64_t n) {
  if (n > kMostRows || pairs.elements() != n * (n - 1) / 2) {
    e.fail("the pairs are not those of the rows");
    return e.fill(Term::number(0), {1, 1}, pairs.dtype);
  }
  std::vector<Term> pieces;
  std::int64_t next = 0;
  for (std::int64_t i = 0; i < n; ++i) {
    pieces.push_back(e.fill(Term::number(0), {i + 1}, pairs.dtype));
    if (i + 1 < n) pieces.push_back(slice(pairs, 0, next, n - 1 - i));
    next += n - 1 - i;
  }
  const Expression upper = e.reshape(e.concat(pieces, 0), {n, n});
  return upper + e.transpose(upper, 0, 1);
}

void pdist(OpCall& c) {
  Emitter& e = c.emit();
  const Expression x = c.wide("self");
  if (x.size(0) < 2) return c.set(0, e.fill(Term::number(0), {0}, x.dtype));
  c.set(0, upper_triangle(e, e.drop(distance(e, differences(e, x, x), c.real("p")), {-1})));
}

void pdist_backward(OpCall& c) {
  Emitter& e = c.emit();
  const Expression x = c.wide("self");
  const std::int64_t n = x.size(0);
  if (n < 2) return c.set(0, e.fill(Term::number(0), x.sizes(), x.dtype));
  const Expression gradient =
      e.unsqueeze(symmetric(e, c.wide(c.has("grad") ? "grad" : "grad_output"), n), -1);
  const Expression distances = e.unsqueeze(symmetric(e, c.wide("pdist"), n), -1);
  const Expression full = distance_gradient(e, gradient, differences(e, x, x), distances, c.real("p"));
  c.set(0, e.drop(e.sum(full, {-2}), {-2}));
}

void norm_of_difference(OpCall& c) {
  Emitter& e = c.emit();
  const Expression difference = c.wide("self") - c.wide("other");
  const Dims dims = all_dims(difference);
  c.set(0, e.drop(vector_norm(e, difference, c.real("p"), dims), dims));
}

constexpr Entry kEntries[] = {
    {"aten::_cdist_forward", cdist},   {"aten::_cdist_backward", cdist_backward},
    {"aten::_pdist_forward", pdist},   {"aten::_pdist_backward", pdist_backward},
    {"aten::dist", norm_of_difference}, {"aten::_euclidean_dist", euclidean_distance},
};

}  // namespace

std::span<const Entry> distance_entries() { return kEntries; }

}  // namespace crucible::aten
