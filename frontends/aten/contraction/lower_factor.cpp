// Lowering of matrix factorizations: Cholesky, LU, QR, eigenvalues of symmetric matrices, singular values, and what the
// framework makes of a factorization's parts.
#include <algorithm>

#include "frontends/aten/algebra/algebra.hpp"
#include "frontends/aten/contraction/matrices.hpp"
#include "frontends/aten/lower_table.hpp"
#include "frontends/aten/reduction/reducing.hpp"

namespace crucible::aten {
namespace {

using graph::OpKind;

/// Pivots as the framework keeps them: i32, counted from 1.
Expression kept_pivots(Emitter& e, const Term& pivots) {
  return e.cast(e.binary(OpKind::kAdd, pivots, Term::integer(1)), DType::kI32);
}

Term read_pivots(OpCall& c, const char* name) {
  Emitter& e = c.emit();
  return e.cast(c.tensor(name), DType::kI64) - 1;
}

/// Where a square factor u has a 0 on its diagonal, the matrix has no inverse.
Expression first_zero(Emitter& e, const LuFactors& x) {
  return first_bad(e, e.binary(OpKind::kEqual, diagonal(x.factors), Term::number(0)));
}

/// Result k where it is asked for; empty otherwise.
void set_or_leave(OpCall& c, std::size_t k, bool is_asked, const Term& term) {
  if (!c.wants(k)) return;
  c.set(k, is_asked ? term : c.emit().fill(Term::number(0), c.result(k).sizes, c.result(k).dtype));
}

/// Result k: where a matrix has no factors, or 0. Torch raises there, but for callers of the function itself, who look.
void set_info(OpCall& c, std::size_t k, const Expression& info) {
  c.emit().expect_all([&] { return info == 0; });
  c.set(k, info);
}

/// Result 0; returns the lower factor that it is, or is the transpose of.
Term set_cholesky(OpCall& c) {
  Emitter& e = c.emit();
  const bool upper = c.boolean("upper");
  const Term l = cholesky(e, c.tensor("self"), upper);
  c.set(0, upper ? transposed(e, l) : l);
  return l;
}

void lower_cholesky(OpCall& c) {
  Emitter& e = c.emit();
  const Term l = set_cholesky(c);
  e.expect_all([&] { return first_bad(e, e.unary(OpKind::kIsNan, diagonal(l))) == 0; });
}

void lower_cholesky_ex(OpCall& c) {
  Emitter& e = c.emit();
  c.boolean("check_errors");
  set_info(c, 1, first_bad(e, e.unary(OpKind::kIsNan, diagonal(set_cholesky(c)))));
}

/// l l' x = b.
Term solve_cholesky(Emitter& e, const Term& factor, const Term& b, bool upper) {
  const Term l = upper ? transposed(e, factor) : factor;
  return solve_triangular(e, transposed(e, l), solve_triangular(e, l, b, false, false), true, false);
}

void cholesky_solve(OpCall& c) {
  const char* factor = c.entry_name() == "aten::cholesky_solve" ? "input2" : "A";
  c.set(0, solve_cholesky(c.emit(), c.tensor(factor), c.tensor("self"), c.boolean("upper")));
}

void cholesky_inverse(OpCall& c) {
  Emitter& e = c.emit();
  const Expression factor = c.tensor("self");
  c.set(0, solve_cholesky(e, factor, identity(e, factor.size(-1), factor.dtype), c.boolean("upper")));
}

void lu_factor(OpCall& c) {
  Emitter& e = c.emit();
  if (!c.boolean("pivot")) return e.fail("LU without exchanges of rows has no lowering");
  c.boolean("check_errors");
  const LuFactors found = lu(e, c.tensor("A"));
  c.set(0, found.factors);
  c.set(1, kept_pivots(e, found.pivots));
  set_info(c, 2, first_zero(e, found));
}

/// The matrix p with p (l u) = x: a one in row order[j] of column j.
Expression permutation_matrix(Emitter& e, const Term& pivots, std::int64_t rows, DType dtype) {
  const Expression order = e.unsqueeze(permutation(e, pivots, rows), -2);
  return e.cast(order == e.position(0, {rows, rows}), dtype);
}

void set_parts(OpCall& c, const Term& factors) {
  Emitter& e = c.emit();
  const std::int64_t rows = factors.size(-2), columns = factors.size(-1), least = std::min(rows, columns);
  Term left = factors, right = factors;
  if (factors.rank() >= 2) {
    left.operand.view.sizes.back() = least;
    right.operand.view.sizes[factors.sizes().size() - 2] = least;
  }
  const Term below = triangle(e, rows, least, true, 1), on = triangle(e, rows, least, true);
  const Expression ends =
      e.select(on, e.fill(Term::number(1), {}, factors.dtype), e.fill(Term::number(0), {}, factors.dtype));
  c.set(1, e.select(below, left, ends));
  c.set(2, upper_part(e, right));
}

void lu_parts(OpCall& c) {
  Emitter& e = c.emit();
  if (!c.boolean("pivot")) return e.fail("LU without exchanges of rows has no lowering");
  const Expression x = c.tensor("A");
  const LuFactors found = lu(e, x);
  c.set(0, permutation_matrix(e, found.pivots, x.size(-2), x.dtype));
  set_parts(c, found.factors);
}

void lu_unpack(OpCall& c) {
  Emitter& e = c.emit();
  const Expression factors = c.tensor("LU_data");
  const bool wants_data = c.boolean("unpack_data"), wants_pivots = c.boolean("unpack_pivots");
  const Term pivots = read_pivots(c, "LU_pivots");
  if (wants_pivots) {
    c.set(0, permutation_matrix(e, pivots, factors.size(-2), factors.dtype));
  } else {
    set_or_leave(c, 0, false, factors);
  }
  if (wants_data) return set_parts(c, factors);
  set_or_leave(c, 1, false, factors);
  set_or_leave(c, 2, false, factors);
}

/// x a = b is a' x' = b'.
void lu_solve(OpCall& c) {
  Emitter& e = c.emit();
  const LuFactors a{c.tensor("LU"), read_pivots(c, "pivots")};
  const bool left = c.boolean("left"), adjoint = c.boolean("adjoint");
  const Expression b = c.tensor("B");
  c.set(0, left ? solve_lu(e, a, b, adjoint) : transposed(e, solve_lu(e, a, transposed(e, b), !adjoint)));
}

/// q as far as it is asked for, r on and above the diagonal.
void qr(OpCall& c) {
  Emitter& e = c.emit();
  const Expression x = c.tensor("A");
  const std::string mode = c.text("mode");
  const std::int64_t rows = x.size(-2), least = std::min(rows, x.size(-1));
  const Reflectors found = householder_qr(e, x);
  const bool complete = mode == "complete";
  set_or_leave(c, 0, mode != "r",
               mode == "r" ? Term(x) : householder_product(e, found.packed, found.factors, complete ? rows : least));
  Term r = found.packed;
  if (!complete && x.rank() >= 2) r.operand.view.sizes[x.sizes().size() - 2] = least;
  c.set(1, upper_part(e, r));
}

void geqrf(OpCall& c) {
  const Reflectors found = householder_qr(c.emit(), c.tensor("self"));
  c.set(0, found.packed);
  c.set(1, found.factors);
}

void reflected(OpCall& c) {
  const Expression x = c.tensor("input");
  c.set(0, householder_product(c.emit(), x, c.tensor("tau"), x.size(-1)));
}

/// q x, q' x, x q or x q', with q whole.
void ormqr(OpCall& c) {
  Emitter& e = c.emit();
  const Expression reflectors = c.tensor("self"), x = c.tensor("input3");
  const bool left = c.boolean("left"), transpose = c.boolean("transpose");
  const Term whole = householder_product(e, reflectors, c.tensor("input2"), reflectors.size(-2));
  const Term q = transpose ? transposed(e, whole) : whole;
  c.set(0, left ? e.matmul(q, x) : e.matmul(x, q));
}

void eigh(OpCall& c) {
  Emitter& e = c.emit();
  const std::string triangle_name = c.text("UPLO");
  const Eigen found = eigen_symmetric(e, c.tensor("A"), triangle_name == "U" || triangle_name == "u");
  c.set(0, found.values);
  set_or_leave(c, 1, c.boolean("compute_v"), found.vectors);
}

/// The columns that make x [..., m, k] with orthonormal columns a whole basis: those of q behind its own.
Term completed(Emitter& e, const Term& x) {
  const std::int64_t rows = x.size(-2), columns = x.size(-1);
  if (rows <= columns) return x;
  const Reflectors found = householder_qr(e, x);
  Term rest = householder_product(e, found.packed, found.factors, rows);
  if (rest.rank() >= 2) {
    rest.operand.view.offset += columns * rest.operand.view.strides.back();
    rest.operand.view.sizes.back() = rows - columns;
  }
  return e.concat({x, rest}, x.rank() - 1);
}

void svd(OpCall& c) {
  Emitter& e = c.emit();
  const bool full = c.boolean("full_matrices"), vectors = c.boolean("compute_uv");
  const Svd found = singular_values(e, c.tensor("A"));
  set_or_leave(c, 0, vectors, full && vectors ? completed(e, found.u) : found.u);
  c.set(1, found.s);
  set_or_leave(c, 2, vectors, full && vectors ? transposed(e, completed(e, transposed(e, found.vh))) : found.vh);
}

void det(OpCall& c) {
  Emitter& e = c.emit();
  const Expression x = c.tensor("A");
  // Of a row-major matrix the framework factorizes the transpose, which lies in memory as LAPACK wants it.
  const LuFactors found = lu(e, c.is_row_major("A") ? transposed(e, x) : x);
  const Term sign = sign_of_pivots(e, found.pivots, x.dtype), on = diagonal(found.factors);
  const Expression product = reduced(e, OpKind::kReduceProduct, on, {on.rank() - 1});
  const bool is_log = c.entry_name() == "aten::_linalg_slogdet";
  if (!is_log) {
    c.set(0, sign * e.drop(product, {-1}));
  } else {
    const Expression zero = e.fill(Term::number(0), {}, x.dtype);
    const Expression above = e.cast(zero < on, x.dtype), below = e.cast(on < zero, x.dtype);
    const Expression signs = above - below;
    const Expression all = reduced(e, OpKind::kReduceProduct, signs, {on.rank() - 1});
    c.set(0, sign * e.drop(all, {-1}));
    const Expression logs = log(e.unary(OpKind::kAbsolute, on));
    c.set(1, e.drop(e.sum(logs, {on.rank() - 1}), {-1}));
  }
  c.set(is_log ? 2 : 1, found.factors);
  c.set(is_log ? 3 : 2, kept_pivots(e, found.pivots));
}

void solve(OpCall& c) {
  Emitter& e = c.emit();
  c.boolean("check_errors");
  const Expression x = c.tensor("A");
  Term b = c.tensor("B");
  const bool left = c.boolean("left");
  // One right side: a list, or as many lists as there are matrices.
  const bool is_list =
      b.rank() == 1 || (b.rank() + 1 == x.rank() && std::equal(b.sizes().begin(), b.sizes().end(), x.sizes().begin()));
  if (is_list) b = e.unsqueeze(b, -1);
  const LuFactors found = lu(e, x);
  const Term solution = left ? solve_lu(e, found, b, false) : transposed(e, solve_lu(e, found, transposed(e, b), true));
  c.set(0, is_list ? e.drop(solution, {-1}) : solution);
  c.set(1, found.factors);
  c.set(2, kept_pivots(e, found.pivots));
  set_info(c, 3, first_zero(e, found));
}

void inverse(OpCall& c) {
  Emitter& e = c.emit();
  c.boolean("check_errors");
  const Expression x = c.tensor("A");
  const LuFactors found = lu(e, x);
  c.set(0, solve_lu(e, found, identity(e, x.size(-1), x.dtype), false));
  set_info(c, 1, first_zero(e, found));
}

void triangular(OpCall& c) {
  Emitter& e = c.emit();
  const Expression a = c.tensor("self"), b = c.tensor("B");
  const bool upper = c.boolean("upper"), unit = c.boolean("unitriangular");
  if (c.boolean("left")) return c.set(0, solve_triangular(e, a, b, upper, unit));
  c.set(0, transposed(e, solve_triangular(e, transposed(e, a), transposed(e, b), !upper, unit)));
}

void old_triangular(OpCall& c) {
  Emitter& e = c.emit();
  const Expression a = c.tensor("A");
  const bool upper = c.boolean("upper"), turned = c.boolean("transpose");
  c.set(0, solve_triangular(e, turned ? transposed(e, a) : a, c.tensor("self"), upper != turned,
                            c.boolean("unitriangular")));
  if (c.wants(1)) c.set(1, e.expand(a, c.result(1).sizes));
}

constexpr Entry kEntries[] = {
    {"aten::cholesky", lower_cholesky},
    {"aten::linalg_cholesky_ex", lower_cholesky_ex},
    {"aten::cholesky_solve", cholesky_solve},
    {"aten::_cholesky_solve_helper", cholesky_solve},
    {"aten::cholesky_inverse", cholesky_inverse},
    {"aten::linalg_lu_factor_ex", lu_factor},
    {"aten::linalg_lu", lu_parts},
    {"aten::lu_unpack", lu_unpack},
    {"aten::linalg_lu_solve", lu_solve},
    {"aten::linalg_qr", qr},
    {"aten::geqrf", geqrf},
    {"aten::linalg_householder_product", reflected},
    {"aten::ormqr", ormqr},
    {"aten::_linalg_eigh", eigh},
    {"aten::_linalg_svd", svd},
    {"aten::_linalg_det", det},
    {"aten::_linalg_slogdet", det},
    {"aten::_linalg_solve_ex", solve},
    {"aten::linalg_inv_ex", inverse},
    {"aten::linalg_solve_triangular", triangular},
    {"aten::triangular_solve", old_triangular},
};

}  // namespace

std::span<const Entry> factor_entries() { return kEntries; }

}  // namespace crucible::aten
