// Factorizations in the interpreter: what they promise, multiplied out again, and results worked out by hand.
#include "core/graph/reference_factor.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numbers>
#include <random>

namespace crucible::graph {
namespace {

constexpr double kClose = 1e-12;

Reals random_matrix(std::size_t elements, unsigned seed) {
  std::mt19937 random(seed);
  std::uniform_real_distribution<double> distribution(-1, 1);
  Reals x(elements);
  for (double& element : x) element = distribution(random);
  return x;
}

FactorResult run(OpKind kind, const Reals& x, const Sizes& sizes, const Reals& second = {},
                 const Sizes& second_sizes = {}, const Sizes& result_sizes = {}, std::int64_t index = -1) {
  Op op;
  op.kind = kind;
  op.attributes.index = index;
  op.inputs.push_back({0, View::contiguous(sizes), {}});
  if (!second_sizes.empty()) op.inputs.push_back({1, View::contiguous(second_sizes), {}});
  const std::size_t results = kind == OpKind::kSingularValues ? 3
                              : kind == OpKind::kLu || kind == OpKind::kHouseholderQr || kind == OpKind::kEigenSymmetric
                                  ? 2
                                  : 1;
  op.outputs.resize(results);
  op.outputs[0].view = View::contiguous(result_sizes.empty() ? sizes : result_sizes);
  return reference_factor(op, x, second);
}

/// a [m, k] b [k, n], with either transposed.
Reals product(const Reals& a, const Reals& b, std::size_t m, std::size_t k, std::size_t n, bool turn_a = false,
              bool turn_b = false) {
  Reals c(m * n, 0.0);
  for (std::size_t i = 0; i < m; ++i) {
    for (std::size_t j = 0; j < n; ++j) {
      for (std::size_t l = 0; l < k; ++l)
        c[i * n + j] += (turn_a ? a[l * m + i] : a[i * k + l]) * (turn_b ? b[j * k + l] : b[l * n + j]);
    }
  }
  return c;
}

void expect_near(const Reals& got, const Reals& want) {
  ASSERT_EQ(got.size(), want.size());
  for (std::size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], want[i], kClose) << "element " << i;
}

void expect_orthonormal_columns(const Reals& x, std::size_t rows, std::size_t columns) {
  Reals identity(columns * columns, 0.0);
  for (std::size_t i = 0; i < columns; ++i) identity[i * columns + i] = 1;
  expect_near(product(x, x, columns, rows, columns, true, false), identity);
}

TEST(ReferenceFactor, CholeskyReadsTheLowerTriangle) {
  expect_near(run(OpKind::kCholesky, {4, 99, 2, 10}, {2, 2}).reals[0], {2, 0, 1, 3});
  const Reals l = run(OpKind::kCholesky, {1, 0, 0, 2, 1, 0, 0, 0, 1}, {3, 3}).reals[0];
  EXPECT_EQ(l[0], 1);
  EXPECT_TRUE(std::isnan(l[4]) && std::isnan(l[8])) << "1 - 2 * 2 has no root, and what follows depends on it";
}

TEST(ReferenceFactor, TriangularSystemsInFourForms) {
  const Reals a = {2, 3, 5, 7, 11, 13, 17, 19, 23}, b = random_matrix(6, 1);
  for (std::int64_t form = 0; form < 4; ++form) {
    const bool upper = (form & 1) != 0, unit = (form & 2) != 0;
    const Reals x = run(OpKind::kTriangularSolve, a, {3, 3}, b, {3, 2}, {3, 2}, form).reals[0];
    Reals triangle = a;
    for (std::size_t i = 0; i < 3; ++i) {
      for (std::size_t j = 0; j < 3; ++j) {
        if (i == j && unit) triangle[i * 3 + j] = 1;
        if (upper ? i > j : i < j) triangle[i * 3 + j] = 0;
      }
    }
    expect_near(product(triangle, x, 3, 3, 2), b);
  }
}

TEST(ReferenceFactor, LuInBatchesTallAndWide) {
  for (const Sizes& sizes : {Sizes{2, 4, 4}, Sizes{1, 5, 3}, Sizes{1, 3, 5}}) {
    const auto m = static_cast<std::size_t>(sizes[1]), n = static_cast<std::size_t>(sizes[2]), least = std::min(m, n);
    const Reals x = random_matrix(static_cast<std::size_t>(sizes[0]) * m * n, 7);
    const FactorResult found = run(OpKind::kLu, x, sizes);
    ASSERT_EQ(found.pivots.size(), static_cast<std::size_t>(sizes[0]) * least);
    for (std::size_t batch = 0; batch < static_cast<std::size_t>(sizes[0]); ++batch) {
      const double* f = found.reals[0].data() + batch * m * n;
      Reals l(m * least, 0.0), u(least * n, 0.0);
      for (std::size_t i = 0; i < m; ++i) {
        for (std::size_t j = 0; j < n; ++j) {
          if (j < i && j < least) l[i * least + j] = f[i * n + j];
          if (i == j && i < least) l[i * least + i] = 1;
          if (j >= i && i < least) u[i * n + j] = f[i * n + j];
        }
      }
      for (const double element : l) EXPECT_LE(std::fabs(element), 1) << "the largest element stands on the diagonal";
      Reals moved(x.begin() + static_cast<std::ptrdiff_t>(batch * m * n),
                  x.begin() + static_cast<std::ptrdiff_t>((batch + 1) * m * n));
      for (std::size_t i = 0; i < least; ++i) {
        const auto other = static_cast<std::size_t>(found.pivots[batch * least + i]);
        for (std::size_t j = 0; j < n; ++j) std::swap(moved[i * n + j], moved[other * n + j]);
      }
      expect_near(product(l, u, m, least, n), moved);
    }
  }
}

TEST(ReferenceFactor, PermutationsOfExchanges) {
  EXPECT_EQ(reference_permutation({1, 2, 2, 0, 9, -1}, 2, 3, 4), (std::vector<std::int64_t>{1, 2, 0, 3, 0, 1, 2, 3}));
  EXPECT_EQ(reference_permutation({}, 2, 0, 2), (std::vector<std::int64_t>{0, 1, 0, 1}));
}

TEST(ReferenceFactor, QrByReflectors) {
  for (const Sizes& sizes : {Sizes{4, 4}, Sizes{6, 3}, Sizes{3, 5}}) {
    const auto m = static_cast<std::size_t>(sizes[0]), n = static_cast<std::size_t>(sizes[1]), least = std::min(m, n);
    const Reals x = random_matrix(m * n, 3);
    const FactorResult found = run(OpKind::kHouseholderQr, x, sizes);
    Reals r(least * n, 0.0), reflectors(m * least, 0.0);
    for (std::size_t i = 0; i < m; ++i) {
      for (std::size_t j = 0; j < n; ++j) {
        if (i < least && j >= i) r[i * n + j] = found.reals[0][i * n + j];
        if (j < least) reflectors[i * least + j] = found.reals[0][i * n + j];
      }
    }
    const auto k = static_cast<std::int64_t>(least);
    const Reals q =
        run(OpKind::kHouseholderProduct, reflectors, {sizes[0], k}, found.reals[1], {k}, {sizes[0], k}).reals[0];
    expect_orthonormal_columns(q, m, least);
    expect_near(product(q, r, m, least, n), x);
    const Reals whole =
        run(OpKind::kHouseholderProduct, reflectors, {sizes[0], k}, found.reals[1], {k}, {sizes[0], sizes[0]}).reals[0];
    expect_orthonormal_columns(whole, m, m);
  }
  // The sign that LAPACK gives: minus that of the first element.
  EXPECT_NEAR(run(OpKind::kHouseholderQr, {3, 4}, {2, 1}).reals[0][0], -5, kClose);
}

void expect_signs(const Reals& v, std::size_t rows, std::size_t columns) {
  for (std::size_t j = 0; j < columns; ++j) {
    double sum = 0;
    for (std::size_t i = 0; i < rows; ++i) sum += v[i * columns + j] / (static_cast<double>(i) + std::numbers::phi);
    EXPECT_GE(sum, 0) << "column " << j;
  }
}

TEST(ReferenceFactor, EigenvaluesAscend) {
  const std::size_t n = 6;
  Reals x = random_matrix(n * n, 5);
  const FactorResult found = run(OpKind::kEigenSymmetric, x, {6, 6});
  for (std::size_t i = 0; i < n; ++i) {
    for (std::size_t j = i + 1; j < n; ++j) x[i * n + j] = x[j * n + i];
  }
  const Reals &values = found.reals[0], &vectors = found.reals[1];
  EXPECT_TRUE(std::ranges::is_sorted(values));
  expect_orthonormal_columns(vectors, n, n);
  expect_signs(vectors, n, n);
  Reals scaled = vectors;
  for (std::size_t i = 0; i < n * n; ++i) scaled[i] *= values[i % n];
  expect_near(product(x, vectors, n, n, n), scaled);
}

TEST(ReferenceFactor, SingularValuesOfFullAndOfPoorRank) {
  const std::size_t m = 6, n = 4;
  Reals full = random_matrix(m * n, 9), poor = full, nothing(m * n, 0.0);
  for (std::size_t i = 0; i < m; ++i) poor[i * n + 2] = poor[i * n], poor[i * n + 3] = 0;
  for (const Reals& x : {full, poor, nothing}) {
    const FactorResult found = run(OpKind::kSingularValues, x, {6, 4});
    const Reals &u = found.reals[0], &s = found.reals[1], &v = found.reals[2];
    EXPECT_TRUE(std::ranges::is_sorted(s, std::greater{}));
    EXPECT_GE(s.back(), 0);
    expect_orthonormal_columns(u, m, n);
    expect_orthonormal_columns(v, n, n);
    expect_signs(v, n, n);
    Reals scaled = u;
    for (std::size_t i = 0; i < m * n; ++i) scaled[i] *= s[i % n];
    expect_near(product(scaled, v, m, n, n, false, true), x);
  }
}

}  // namespace
}  // namespace crucible::graph
