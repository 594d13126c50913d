// Lowering of what is computed from factorizations by formulas: pseudo-inverses, least squares, matrix exponentials.
#include <algorithm>
#include <cmath>

#include "frontends/aten/algebra/algebra.hpp"
#include "frontends/aten/contraction/matrices.hpp"
#include "frontends/aten/lower_table.hpp"
#include "frontends/aten/reduction/reducing.hpp"

namespace crucible::aten {
namespace {

using graph::OpKind;

double rounding_unit(DType dtype) { return dtype == DType::kF64 ? 0x1p-52 : 0x1p-23; }

Expression largest_of(Emitter& e, const Term& x) { return e.drop(e.max(x, {x.rank() - 1}), {-1}); }

/// 1 / values where `sizes` are above the bound [...], else 0.
Expression inverted_above(Emitter& e, const Term& values, const Term& sizes, const Term& bound) {
  const Expression inverse = e.unary(OpKind::kReciprocal, values);
  return choose(sizes > e.unsqueeze(bound, -1), inverse, e.fill(Term::number(0), {}, values.dtype));
}

/// Singular values at most max(atol, rtol largest) count as 0. Unless one is given, rtol is the rounding unit times the
/// longer side.
Term pinv_bound(OpCall& c, const Term& x, const Term& largest) {
  Emitter& e = c.emit();
  const Expression usual =
      e.fill(Term::number(rounding_unit(x.dtype) * static_cast<double>(std::max(x.size(-2), x.size(-1)))), {}, x.dtype);
  const Expression zero = e.fill(Term::number(0), {}, x.dtype);
  const Expression absolute = c.has("atol") ? e.cast(c.tensor("atol"), x.dtype) : zero;
  const Term relative = c.has("rtol") ? e.cast(c.tensor("rtol"), x.dtype)
                        : c.has("atol") ? e.select(e.binary(OpKind::kGreater, absolute, zero), zero, usual)
                                        : usual;
  return larger(absolute, e.binary(OpKind::kMultiply, relative, largest));
}

void pseudo_inverse(OpCall& c) {
  Emitter& e = c.emit();
  const Expression x = c.tensor("self");
  const bool hermitian = c.boolean("hermitian");
  if (x.elements() == 0) {
    if (c.has("atol")) c.tensor("atol");
    if (c.has("rtol")) c.tensor("rtol");
    return c.set(0, e.fill(Term::number(0), c.result(0).sizes, x.dtype));
  }
  if (hermitian) {
    const Eigen found = eigen_symmetric(e, x, false);
    const Expression sizes = e.unary(OpKind::kAbsolute, found.values);
    const Expression inverse = inverted_above(e, found.values, sizes, pinv_bound(c, x, largest_of(e, sizes)));
    return c.set(0, e.matmul(found.vectors * e.unsqueeze(inverse, -2), transposed(e, found.vectors)));
  }
  const Svd found = singular_values(e, x);
  const Expression inverse = inverted_above(e, found.s, found.s, pinv_bound(c, x, largest_of(e, found.s)));
  c.set(0, e.matmul(transposed(e, found.vh), e.unsqueeze(inverse, -1) * transposed(e, found.u)));
}

/// The shortest of the best solutions. Where the rank is full it is the only one, whichever driver was asked for.
void least_squares(OpCall& c) {
  Emitter& e = c.emit();
  const Expression x = c.tensor("self");
  Term b = c.tensor("b");
  if (x.elements() == 0 || b.elements() == 0) return e.fail("least squares of nothing have no lowering");
  const bool is_list = b.rank() + 1 == x.rank();
  if (is_list) b = e.unsqueeze(b, -1);
  if (c.has("driver")) c.text("driver");
  const double limit =
      c.has("rcond") ? c.real("rcond") : rounding_unit(x.dtype) * static_cast<double>(std::max(x.size(-2), x.size(-1)));
  const Svd found = singular_values(e, x);
  const Expression bound = largest_of(e, found.s) * Term::number(limit);
  const Expression inverse = inverted_above(e, found.s, found.s, bound);
  const Expression parts = e.unsqueeze(inverse, -1) * e.matmul(transposed(e, found.u), b);
  const Expression solution = e.matmul(transposed(e, found.vh), parts);
  c.set(0, is_list ? e.drop(solution, {-1}) : solution);
  const auto or_nothing = [&](std::size_t k, const Term& term) {
    if (!c.wants(k)) return;
    const bool is_empty = graph::View::contiguous(c.result(k).sizes).elements() == 0;
    c.set(k, is_empty ? e.fill(Term::integer(0), c.result(k).sizes, c.result(k).dtype) : term);
  };
  const Expression left = e.matmul(x, solution) - b;
  Term squares = e.drop(e.sum(left * left, {left.rank() - 2}), {-2});
  if (is_list && squares.rank() > static_cast<std::int64_t>(c.wants(1) ? c.result(1).sizes.size() : 0))
    squares = e.drop(squares, {-1});
  or_nothing(1, squares);
  const Expression counts = e.cast(found.s > e.unsqueeze(bound, -1), DType::kI64);
  or_nothing(2, e.drop(e.sum(counts, {counts.rank() - 1}), {-1}));
  or_nothing(3, found.s);
}

/// exp(x) = exp(x / 2^s)^(2^s), with s so that the norm is at most a half; there eighteen terms of the series are exact
/// to f64's rounding. Squarings beyond a matrix's own s are computed and not taken. Of f16 and bf16 in f64: entries
/// that cancel among large ones would have few digits right in f32.
void matrix_exp(OpCall& c) {
  Emitter& e = c.emit();
  const Term self = c.tensor("self"), x = compute_dtype(self.dtype) == self.dtype ? self : e.cast(self, DType::kF64);
  if (x.rank() < 2 || x.elements() == 0) return c.set(0, x);
  constexpr int kTerms = 18, kMostSquarings = 12;
  const Expression columns = e.sum(e.unary(OpKind::kAbsolute, x), {x.rank() - 2});
  const Expression norm = e.max(columns, {x.rank() - 1});
  const Expression logarithm = (norm.unary(OpKind::kLog2) + 1.0).unary(OpKind::kCeil);
  const Expression times = smaller(larger(logarithm, 0.0), Term::number(kMostSquarings));
  const Expression small = x * (-times).unary(OpKind::kExp2);
  const Expression one = identity(e, x.size(-1), x.dtype);
  Term power = e.expand(one, x.sizes());  // Horner: 1 + x / 1 (1 + x / 2 (1 + x / 3 (...)))
  for (int term = kTerms; term >= 1; --term) {
    const Expression step = e.matmul(small, power) * Term::number(1.0 / term);
    power = one + step;
  }
  for (int i = 0; i < kMostSquarings; ++i) {
    power = choose(times > Term::number(i), e.matmul(power, power), power);
  }
  c.set(0, power);
}

constexpr Entry kEntries[] = {
    {"aten::linalg_pinv.atol_rtol_tensor", pseudo_inverse},
    {"aten::linalg_lstsq", least_squares},
    {"aten::linalg_matrix_exp", matrix_exp},
};

}  // namespace

std::span<const Entry> least_squares_entries() { return kEntries; }

}  // namespace crucible::aten
