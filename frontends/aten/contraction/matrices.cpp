// Matrices in terms: see matrices.hpp.
#include "frontends/aten/contraction/matrices.hpp"

#include <algorithm>

#include "frontends/aten/algebra/algebra.hpp"
#include "frontends/aten/indexing/index_plan.hpp"
#include "frontends/aten/reduction/reducing.hpp"

namespace crucible::aten {
namespace {

using graph::Attributes;
using graph::OpKind;

/// The batch that two terms have together, without their last dimensions; fails where they do not broadcast.
Sizes common_batch(Emitter& e, const Term& a, std::int64_t a_dims, const Term& b, std::int64_t b_dims) {
  Sizes x(a.sizes().begin(), a.sizes().end() - std::min(a_dims, a.rank())),
      y(b.sizes().begin(), b.sizes().end() - std::min(b_dims, b.rank()));
  if (x.size() < y.size()) std::swap(x, y);
  for (std::size_t i = 0; i < y.size(); ++i) {
    std::int64_t& size = x[x.size() - y.size() + i];
    if (size == 1) {
      size = y[i];
    } else if (y[i] != 1 && y[i] != size) {
      e.fail("batches of matrices do not broadcast");
    }
  }
  return x;
}

Expression with_sizes(Emitter& e, const Term& x, Sizes batch, std::int64_t kept) {
  batch.insert(batch.end(), x.sizes().end() - std::min(kept, x.rank()), x.sizes().end());
  return e.expand(x, batch);
}

bool expect_matrix(Emitter& e, const Term& x) {
  if (x.rank() >= 2) return true;
  e.fail("a matrix has two dimensions or more");
  return false;
}

}  // namespace

Expression transposed(Emitter& e, const Term& x) {
  return expect_matrix(e, x) ? e.transpose(x, -2, -1) : Expression(e, x);
}

Sizes with_batch(const Term& x, std::int64_t matrix_dims, const Sizes& last) {
  Sizes sizes(x.sizes().begin(), x.sizes().end() - std::min(matrix_dims, x.rank()));
  sizes.insert(sizes.end(), last.begin(), last.end());
  return sizes;
}

Term triangle(Emitter& e, std::int64_t rows, std::int64_t columns, bool lower, std::int64_t offset) {
  const Expression row = e.position(0, {rows, columns}), column = e.position(1, {rows, columns});
  const Expression distance = lower ? row - column : column - row;
  return distance >= Term::integer(offset);
}

Expression identity(Emitter& e, std::int64_t size, DType dtype) {
  return e.cast(e.position(0, {size, size}) == e.position(1, {size, size}), dtype);
}

Expression upper_part(Emitter& e, const Term& x) {
  return e.select(triangle(e, x.size(-2), x.size(-1), false), x, e.fill(Term::number(0), {}, x.dtype));
}

Expression lower_part(Emitter& e, const Term& x) {
  return e.select(triangle(e, x.size(-2), x.size(-1), true), x, e.fill(Term::number(0), {}, x.dtype));
}

Term diagonal(const Term& x) {
  Term result = x;
  if (x.rank() >= 2) result.operand.view = diagonal_view(x.operand.view, 0, x.rank() - 2, x.rank() - 1);
  return result;
}

Term cholesky(Emitter& e, const Term& x, bool from_upper) {
  if (!expect_matrix(e, x)) return x;
  const Term lower = from_upper ? transposed(e, x) : x;
  return e.emit(OpKind::kCholesky, {lower}, lower.sizes(), x.dtype);
}

Term solve_triangular(Emitter& e, const Term& a, const Term& b, bool upper, bool unit) {
  if (!expect_matrix(e, a) || !expect_matrix(e, b)) return b;
  const Sizes batch = common_batch(e, a, 2, b, 2);
  const Expression left = with_sizes(e, a, batch, 2), right = with_sizes(e, b, batch, 2);
  Attributes form;
  form.index = (upper ? 1 : 0) + (unit ? 2 : 0);
  return e.emit(OpKind::kTriangularSolve, {left, right}, right.sizes(), b.dtype, form);
}

LuFactors lu(Emitter& e, const Term& x) {
  if (!expect_matrix(e, x)) return {x, x};
  const auto results = e.emit_many(
      OpKind::kLu, {x}, {{x.sizes(), x.dtype}, {with_batch(x, 2, {std::min(x.size(-2), x.size(-1))}), DType::kI64}});
  return {results[0], results[1]};
}

Expression permutation(Emitter& e, const Term& pivots, std::int64_t rows) {
  return e.emit(OpKind::kPivotsToPermutation, {pivots}, with_batch(pivots, 1, {rows}), DType::kI64);
}

Term rows_in_order(Emitter& e, const Term& x, const Term& order) {
  if (!expect_matrix(e, x)) return x;
  const Sizes batch = common_batch(e, x, 2, order, 1);
  Sizes sizes = batch;
  sizes.insert(sizes.end(), {order.size(-1), x.size(-1)});
  const Expression all = with_sizes(e, x, batch, 2);
  std::vector<Term> indices;
  for (std::int64_t d = 0; d < static_cast<std::int64_t>(sizes.size()); ++d) {
    const bool is_row = d + 2 == static_cast<std::int64_t>(sizes.size());
    indices.push_back(is_row ? e.unsqueeze(order, -1) : e.position(d, sizes));
  }
  return e.take_at(all, indices);
}

Term solve_lu(Emitter& e, const LuFactors& a, const Term& b, bool adjoint) {
  if (!expect_matrix(e, a.factors) || !expect_matrix(e, b)) return b;
  const Expression order = permutation(e, a.pivots, a.factors.size(-2));
  if (!adjoint) {
    const Term lower = solve_triangular(e, a.factors, rows_in_order(e, b, order), false, true);
    return solve_triangular(e, a.factors, lower, true, false);
  }
  const Term turned = transposed(e, a.factors);
  const Term solved = solve_triangular(e, turned, solve_triangular(e, turned, b, false, false), true, true);
  return rows_in_order(e, solved, sorted(e, order, -1, false).index);
}

Expression sign_of_pivots(Emitter& e, const Term& pivots, DType dtype) {
  const Expression stays = pivots == e.position(pivots.rank() - 1, pivots.sizes());
  const Expression signs = choose(stays, e.fill(Term::number(1), {}, dtype), e.fill(Term::number(-1), {}, dtype));
  return e.drop(reduced(e, OpKind::kReduceProduct, signs, {pivots.rank() - 1}), {-1});
}

Reflectors householder_qr(Emitter& e, const Term& x) {
  if (!expect_matrix(e, x)) return {x, x};
  const auto results =
      e.emit_many(OpKind::kHouseholderQr, {x},
                  {{x.sizes(), x.dtype}, {with_batch(x, 2, {std::min(x.size(-2), x.size(-1))}), x.dtype}});
  return {results[0], results[1]};
}

Term householder_product(Emitter& e, const Term& x, const Term& factors, std::int64_t columns) {
  if (!expect_matrix(e, x)) return x;
  const Term reflectors = narrow(x, x.rank() - 1, 0, std::min(factors.size(-1), x.size(-1)));
  return e.emit(OpKind::kHouseholderProduct, {reflectors, factors}, with_batch(x, 2, {x.size(-2), columns}), x.dtype);
}

Eigen eigen_symmetric(Emitter& e, const Term& x, bool from_upper) {
  if (!expect_matrix(e, x)) return {x, x};
  const Term lower = from_upper ? transposed(e, x) : x;
  const auto results = e.emit_many(OpKind::kEigenSymmetric, {lower},
                                   {{with_batch(x, 2, {x.size(-1)}), x.dtype}, {lower.sizes(), x.dtype}});
  return {results[0], results[1]};
}

Svd singular_values(Emitter& e, const Term& x) {
  if (!expect_matrix(e, x)) return {x, x, x};
  const bool is_wide = x.size(-2) < x.size(-1);
  const Term tall = is_wide ? transposed(e, x) : x;
  const std::int64_t k = tall.size(-1);
  const auto results =
      e.emit_many(OpKind::kSingularValues, {tall},
                  {{tall.sizes(), x.dtype}, {with_batch(x, 2, {k}), x.dtype}, {with_batch(x, 2, {k, k}), x.dtype}});
  if (is_wide) return {results[2], results[1], transposed(e, results[0])};
  return {results[0], results[1], transposed(e, results[2])};
}

Expression first_bad(Emitter& e, const Term& bad) {
  const std::int64_t count = bad.size(-1);
  if (count == 0) return e.fill(Term::integer(0), with_batch(bad, 1, {}), DType::kI32);
  const Expression place = e.position(bad.rank() - 1, bad.sizes()) + 1;
  const Expression none = e.fill(Term::integer(count + 1), {}, DType::kI64);
  const Expression first = e.drop(reduced(e, OpKind::kReduceMin, e.select(bad, place, none), {bad.rank() - 1}), {-1});
  const Expression zero = e.fill(Term::integer(0), {}, DType::kI64);
  return e.cast(choose(first == none, zero, first), DType::kI32);
}

}  // namespace crucible::aten
