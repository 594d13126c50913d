// Cholesky, triangular systems, LU, QR, eigenvalues and singular values of the reference interpreter: see
// reference_factor.hpp.
#include "core/graph/reference_factor.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>
#include <numeric>
#include <utility>

namespace crucible::graph {
namespace {

/// One matrix, row-major.
struct Matrix {
  std::size_t rows = 0, columns = 0;
  Reals elements;

  Matrix(std::size_t r, std::size_t c) : rows(r), columns(c), elements(r * c, 0.0) {}
  double& operator()(std::size_t i, std::size_t j) { return elements[i * columns + j]; }
  double operator()(std::size_t i, std::size_t j) const { return elements[i * columns + j]; }
};

Matrix cholesky(const Matrix& x) {
  Matrix l(x.rows, x.rows);
  for (std::size_t j = 0; j < x.rows; ++j) {
    for (std::size_t i = j; i < x.rows; ++i) {
      double rest = x(i, j);
      for (std::size_t k = 0; k < j; ++k) rest -= l(i, k) * l(j, k);
      l(i, j) = i == j ? (rest > 0 ? std::sqrt(rest) : std::numeric_limits<double>::quiet_NaN()) : rest / l(j, j);
    }
  }
  return l;
}

/// Column by column: as soon as an unknown is known it leaves the equations below (or above).
Matrix triangular_solve(const Matrix& a, Matrix b, bool upper, bool unit) {
  const std::size_t n = a.rows;
  for (std::size_t step = 0; step < n; ++step) {
    const std::size_t k = upper ? n - 1 - step : step;
    for (std::size_t c = 0; c < b.columns; ++c) {
      if (!unit) b(k, c) /= a(k, k);
      for (std::size_t i = upper ? 0 : k + 1; i < (upper ? k : n); ++i) b(i, c) -= a(i, k) * b(k, c);
    }
  }
  return b;
}

/// Crout's order: a column of u, then a column of l, each as a sum of products.
Matrix lu(Matrix x, std::vector<std::int64_t>& pivots) {
  for (std::size_t j = 0; j < std::min(x.rows, x.columns); ++j) {
    std::size_t best = j;
    for (std::size_t i = j; i < x.rows; ++i) {
      for (std::size_t k = 0; k < j; ++k) x(i, j) -= x(i, k) * x(k, j);
      if (std::fabs(x(i, j)) > std::fabs(x(best, j))) best = i;
    }
    pivots.push_back(static_cast<std::int64_t>(best));
    for (std::size_t c = 0; c < x.columns; ++c) std::swap(x(j, c), x(best, c));
    for (std::size_t c = j + 1; c < x.columns; ++c) {
      for (std::size_t k = 0; k < j; ++k) x(j, c) -= x(j, k) * x(k, c);
    }
    if (x(j, j) != 0) {
      for (std::size_t i = j + 1; i < x.rows; ++i) x(i, j) /= x(j, j);
    }
  }
  return x;
}

Matrix householder_qr(Matrix x, Reals& factors) {
  for (std::size_t k = 0; k < std::min(x.rows, x.columns); ++k) {
    double below = 0;
    for (std::size_t i = k + 1; i < x.rows; ++i) below = std::hypot(below, x(i, k));
    if (below == 0) {
      factors.push_back(0);
      continue;
    }
    const double alpha = x(k, k), beta = -std::copysign(std::hypot(alpha, below), alpha),
                 factor = (beta - alpha) / beta;
    factors.push_back(factor);
    for (std::size_t i = k + 1; i < x.rows; ++i) x(i, k) /= alpha - beta;
    x(k, k) = beta;
    for (std::size_t j = k + 1; j < x.columns; ++j) {
      double along = x(k, j);
      for (std::size_t i = k + 1; i < x.rows; ++i) along += x(i, k) * x(i, j);
      x(k, j) -= factor * along;
      for (std::size_t i = k + 1; i < x.rows; ++i) x(i, j) -= factor * along * x(i, k);
    }
  }
  return x;
}

/// Every h as a matrix of its own, multiplied from the left.
Matrix householder_product(const Matrix& reflectors, const Reals& factors, std::size_t columns) {
  Matrix q(reflectors.rows, columns);
  for (std::size_t j = 0; j < columns; ++j) q(j, j) = 1;
  for (std::size_t k = reflectors.columns; k-- > 0;) {
    Reals v(reflectors.rows, 0.0);
    v[k] = 1;
    for (std::size_t i = k + 1; i < v.size(); ++i) v[i] = reflectors(i, k);
    for (std::size_t j = 0; j < columns; ++j) {
      double along = 0;
      for (std::size_t i = 0; i < v.size(); ++i) along += v[i] * q(i, j);
      for (std::size_t i = 0; i < v.size(); ++i) q(i, j) -= factors[k] * along * v[i];
    }
  }
  return q;
}

/// Jacobi's method: rotations from both sides until nothing is left beside the diagonal. `x` becomes its eigenvalues.
Matrix rotate_to_diagonal(Matrix& x) {
  const std::size_t n = x.rows;
  Matrix v(n, n);
  for (std::size_t i = 0; i < n; ++i) v(i, i) = 1;
  for (int sweep = 0; sweep < 60; ++sweep) {
    bool rotated = false;
    for (std::size_t p = 0; p < n; ++p) {
      for (std::size_t q = p + 1; q < n; ++q) {
        if (std::fabs(x(p, q)) <= 1e-17 * std::sqrt(std::fabs(x(p, p)) * std::fabs(x(q, q))) ||
            !(std::fabs(x(p, q)) > 1e-300))
          continue;
        rotated = true;
        const double theta = (x(q, q) - x(p, p)) / (2 * x(p, q));
        const double t = std::copysign(1, theta) / (std::fabs(theta) + std::hypot(theta, 1)), c = 1 / std::hypot(t, 1),
                     s = t * c;
        for (std::size_t k = 0; k < n; ++k) {
          const double a = x(k, p), b = x(k, q);
          x(k, p) = c * a - s * b;
          x(k, q) = s * a + c * b;
        }
        for (std::size_t k = 0; k < n; ++k) {
          const double a = x(p, k), b = x(q, k);
          x(p, k) = c * a - s * b;
          x(q, k) = s * a + c * b;
        }
        x(p, q) = x(q, p) = 0;
        for (std::size_t k = 0; k < n; ++k) {
          const double a = v(k, p), b = v(k, q);
          v(k, p) = c * a - s * b;
          v(k, q) = s * a + c * b;
        }
      }
    }
    if (!rotated) break;
  }
  return v;
}

/// 1 or -1, so that a vector has the sign that the op promises.
double sign_of(const Matrix& vectors, std::size_t column, std::size_t first, std::size_t count) {
  double weighted = 0;
  for (std::size_t i = 0; i < count; ++i)
    weighted += vectors(first + i, column) / (static_cast<double>(i) + std::numbers::phi);
  return weighted < 0 ? -1 : 1;
}

std::vector<std::size_t> order_of(const Matrix& x, bool descending) {
  std::vector<std::size_t> order(x.rows);
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, [&](std::size_t a, std::size_t b) {
    const double left = x(a, a), right = x(b, b);
    if (std::isnan(left) || std::isnan(right)) return !std::isnan(left) && std::isnan(right);  // NaN last
    return descending ? left > right : left < right;
  });
  return order;
}

Matrix eigen_symmetric(const Matrix& lower, Reals& values) {
  Matrix x(lower.rows, lower.rows);
  for (std::size_t i = 0; i < x.rows; ++i) {
    for (std::size_t j = 0; j < x.rows; ++j) x(i, j) = lower(std::max(i, j), std::min(i, j));
  }
  const Matrix all = rotate_to_diagonal(x);
  Matrix vectors(x.rows, x.rows);
  std::size_t column = 0;
  for (const std::size_t from : order_of(x, false)) {
    values.push_back(x(from, from));
    const double sign = sign_of(all, from, 0, x.rows);
    for (std::size_t i = 0; i < x.rows; ++i) vectors(i, column) = sign * all(i, from);
    ++column;
  }
  return vectors;
}

/// Makes column `column` a unit vector that stands upright on the columns before it.
void complete(Matrix& x, std::size_t column) {
  for (std::size_t candidate = 0; candidate < x.rows; ++candidate) {
    Reals v(x.rows, 0.0);
    v[candidate] = 1;
    for (int pass = 0; pass < 2; ++pass) {
      for (std::size_t j = 0; j < column; ++j) {
        double along = 0;
        for (std::size_t i = 0; i < x.rows; ++i) along += v[i] * x(i, j);
        for (std::size_t i = 0; i < x.rows; ++i) v[i] -= along * x(i, j);
      }
    }
    const double length = std::sqrt(std::inner_product(v.begin(), v.end(), v.begin(), 0.0));
    if (length * length * 2 * static_cast<double>(x.rows) < 1) continue;
    for (std::size_t i = 0; i < x.rows; ++i) x(i, column) = v[i] / length;
    return;
  }
}

/// The eigenvectors of [[0, x], [x', 0]] are (u, v) and (u, -v) over the root of two, its eigenvalues s and -s.
struct Singular {
  Matrix u, v;
  Reals s;
};

Singular singular_values(const Matrix& x) {
  const std::size_t m = x.rows, n = x.columns;
  Matrix both(m + n, m + n);
  for (std::size_t i = 0; i < m; ++i) {
    for (std::size_t j = 0; j < n; ++j) both(i, m + j) = both(m + j, i) = x(i, j);
  }
  const Matrix vectors = rotate_to_diagonal(both);
  const auto order = order_of(both, true);
  Singular result{Matrix(m, n), Matrix(n, n), {}};
  for (std::size_t k = 0; k < n; ++k) {
    const double s = std::max(both(order[k], order[k]), 0.0), largest = n == 0 ? 0 : both(order[0], order[0]);
    result.s.push_back(s);
    if (s <= largest * 1e-14) {  // eigenvectors of 0 mix what belongs to u and what to v
      complete(result.u, k);
      complete(result.v, k);
      const double sign = sign_of(result.v, k, 0, n);
      for (std::size_t i = 0; i < n; ++i) result.v(i, k) *= sign;
      continue;
    }
    const double factor = sign_of(vectors, order[k], m, n) * std::sqrt(2.0);
    for (std::size_t i = 0; i < m; ++i) result.u(i, k) = vectors(i, order[k]) * factor;
    for (std::size_t i = 0; i < n; ++i) result.v(i, k) = vectors(m + i, order[k]) * factor;
  }
  return result;
}

Matrix part(const Reals& all, const View& view, std::size_t batch) {
  const std::size_t rank = view.sizes.size();
  Matrix x(static_cast<std::size_t>(view.sizes[rank - 2]), static_cast<std::size_t>(view.sizes[rank - 1]));
  const auto from = all.begin() + static_cast<std::ptrdiff_t>(batch * x.elements.size());
  std::copy(from, from + static_cast<std::ptrdiff_t>(x.elements.size()), x.elements.begin());
  return x;
}

void append(Reals& to, const Reals& what) { to.insert(to.end(), what.begin(), what.end()); }

}  // namespace

FactorResult reference_factor(const Op& op, const Reals& first, const Reals& second) {
  const View& view = op.inputs[0].view;
  const std::size_t rank = view.sizes.size();
  std::size_t batches = 1;
  for (std::size_t d = 0; d + 2 < rank; ++d) batches *= static_cast<std::size_t>(view.sizes[d]);
  FactorResult result;
  result.reals.resize(op.outputs.size());
  for (std::size_t b = 0; b < batches; ++b) {
    const Matrix x = part(first, view, b);
    switch (op.kind) {
      case OpKind::kCholesky:
        append(result.reals[0], cholesky(x).elements);
        break;
      case OpKind::kTriangularSolve:
        append(result.reals[0], triangular_solve(x, part(second, op.inputs[1].view, b), (op.attributes.index & 1) != 0,
                                                 (op.attributes.index & 2) != 0).elements);
        break;
      case OpKind::kLu:
        append(result.reals[0], lu(x, result.pivots).elements);
        break;
      case OpKind::kHouseholderQr:
        append(result.reals[0], householder_qr(x, result.reals[1]).elements);
        break;
      case OpKind::kHouseholderProduct: {
        const auto from = second.begin() + static_cast<std::ptrdiff_t>(b * x.columns);
        const Reals factors(from, from + static_cast<std::ptrdiff_t>(x.columns));
        append(result.reals[0],
               householder_product(x, factors, static_cast<std::size_t>(op.outputs[0].view.sizes[rank - 1])).elements);
        break;
      }
      case OpKind::kEigenSymmetric:
        append(result.reals[1], eigen_symmetric(x, result.reals[0]).elements);
        break;
      default: {
        const Singular found = singular_values(x);
        append(result.reals[0], found.u.elements);
        append(result.reals[1], found.s);
        append(result.reals[2], found.v.elements);
      }
    }
  }
  return result;
}

std::vector<std::int64_t> reference_permutation(const std::vector<std::int64_t>& pivots, std::int64_t lists,
                                                std::int64_t steps, std::int64_t rows) {
  std::vector<std::int64_t> all;
  for (std::int64_t list = 0; list < lists; ++list) {
    std::vector<std::int64_t> order(static_cast<std::size_t>(rows));
    std::iota(order.begin(), order.end(), std::int64_t{0});
    for (std::int64_t i = 0; i < steps; ++i) {
      const std::int64_t other = pivots[static_cast<std::size_t>(list * steps + i)];
      if (other >= 0 && other < rows)
        std::swap(order[static_cast<std::size_t>(i)], order[static_cast<std::size_t>(other)]);
    }
    all.insert(all.end(), order.begin(), order.end());
  }
  return all;
}

}  // namespace crucible::graph
