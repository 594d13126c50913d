// Matrices in the last two dimensions of terms, for the lowerings of linear algebra: factorizations as the program's
// ops name them, and what is put together from their parts. Everything before the last two dimensions is a batch.
#pragma once

#include "frontends/aten/call/op_call.hpp"

namespace crucible::aten {

/// x with the last two dimensions exchanged: a view.
Expression transposed(Emitter& e, const Term& x);
/// The sizes of x's batch with these behind them.
Sizes with_batch(const Term& x, std::int64_t matrix_dims, const Sizes& last);
/// Ones on the diagonal.
Expression identity(Emitter& e, std::int64_t size, DType dtype);
/// Where i - j >= offset (lower), else where j - i >= offset: bool [rows, columns].
Term triangle(Emitter& e, std::int64_t rows, std::int64_t columns, bool lower, std::int64_t offset = 0);
/// x on and above (below) the diagonal, 0 elsewhere.
Expression upper_part(Emitter& e, const Term& x);
Expression lower_part(Emitter& e, const Term& x);
/// The diagonal: a view, one dimension less.
Term diagonal(const Term& x);

/// The lower factor of the matrix whose lower (upper) triangle x holds.
Term cholesky(Emitter& e, const Term& x, bool from_upper);
/// a x = b; batches broadcast.
Term solve_triangular(Emitter& e, const Term& a, const Term& b, bool upper, bool unit);

struct LuFactors {
  Term factors;  // [..., m, n]
  Term pivots;   // i64 [..., min(m, n)], counted from 0
};
LuFactors lu(Emitter& e, const Term& x);
/// The row of x in each row, i64 [..., rows]; of pivots counted from 0.
Expression permutation(Emitter& e, const Term& pivots, std::int64_t rows);
/// x with its rows in another order; `order` i64 [..., rows], batches broadcast.
Term rows_in_order(Emitter& e, const Term& x, const Term& order);
/// a x = b, or a' x = b, from a's factors.
Term solve_lu(Emitter& e, const LuFactors& a, const Term& b, bool adjoint);
/// 1 or -1 as the number of exchanges is even or odd; [...].
Expression sign_of_pivots(Emitter& e, const Term& pivots, DType dtype);

struct Reflectors {
  Term packed;   // [..., m, n]
  Term factors;  // [..., min(m, n)]
};
Reflectors householder_qr(Emitter& e, const Term& x);
/// The first `columns` columns of the product of reflectors, which stand in x's lower part.
Term householder_product(Emitter& e, const Term& x, const Term& factors, std::int64_t columns);

struct Eigen {
  Term values;   // [..., n], ascending
  Term vectors;  // [..., n, n]
};
Eigen eigen_symmetric(Emitter& e, const Term& x, bool from_upper);

struct Svd {
  Term u;   // [..., m, k]
  Term s;   // [..., k], descending
  Term vh;  // [..., k, n]
};
/// With k = min(m, n).
Svd singular_values(Emitter& e, const Term& x);

/// The first place along the last dimension where `bad` is true, counted from 1; 0 where there is none; i32.
Expression first_bad(Emitter& e, const Term& bad);

}  // namespace crucible::aten
