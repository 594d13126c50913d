// Factorizations of matrices: see ops_factor.hpp. Diagonals stand out, each element by its own measure: then results
// are unique and magnify no rounding.
#include "plugins/conformance/ops_factor.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "plugins/conformance/ops_writer.hpp"

namespace crucible::conformance {
namespace {

using graph::Attributes;
using graph::Operand;
using graph::OpInfo;
using graph::OpKind;
using graph::View;

struct Shape {
  std::int64_t batch, rows, columns;
  bool by_columns;
};

Operand strong(OpsWriter& w, DType dtype, const Shape& shape) {
  const std::int64_t row = shape.by_columns ? 1 : shape.columns, column = shape.by_columns ? shape.rows : 1;
  const Operand x =
      w.input(dtype, View{0, {shape.batch, shape.rows, shape.columns}, {shape.rows * shape.columns, row, column}},
              Pattern::kUnit);
  for (std::int64_t b = 0; b < shape.batch; ++b) {
    for (std::int64_t i = 0; i < std::min(shape.rows, shape.columns); ++i) {
      w.set_number(x, b * shape.rows * shape.columns + i * (row + column), static_cast<double>(2 * shape.columns + i));
    }
  }
  return x;
}

bool is_square(OpKind kind) {
  return kind == OpKind::kCholesky || kind == OpKind::kTriangularSolve || kind == OpKind::kEigenSymmetric;
}

}  // namespace

std::vector<OpsProgram> factor_programs(const OpInfo& info, bool f64, bool quick) {
  const Shape shapes[] = {{2, 6, 6, false}, {1, 9, 4, true},   {3, 1, 1, false},
                          {1, 4, 7, false}, {1, 24, 24, true}, {0, 5, 5, false}};
  std::vector<OpsProgram> programs;
  std::uint64_t seed = static_cast<std::uint64_t>(info.kind) * 100;
  for (const DType dtype : {DType::kF32, DType::kF64}) {
    if (dtype == DType::kF64 && (!f64 || quick || info.kind == OpKind::kPivotsToPermutation)) continue;
    for (const Shape& given : shapes) {
      Shape shape = given;
      if (is_square(info.kind)) shape.rows = shape.columns;
      const bool tall = info.kind == OpKind::kSingularValues || info.kind == OpKind::kHouseholderProduct;
      if (tall && shape.rows < shape.columns) std::swap(shape.rows, shape.columns);
      const std::int64_t b = shape.batch, m = shape.rows, n = shape.columns, least = std::min(m, n);
      OpsWriter w(info.kind,
                  fmt::format("{} [{}, {}, {}]{}", name(dtype), b, m, n, shape.by_columns ? " by columns" : ""),
                  ++seed);
      switch (info.kind) {
        case OpKind::kTriangularSolve: {
          Attributes attributes;
          attributes.index = static_cast<std::int64_t>(seed % 2);
          w.op({strong(w, dtype, shape), w.input(dtype, Sizes{b, n, 3}, Pattern::kUnit)}, {b, n, 3}, dtype, attributes);
          break;
        }
        case OpKind::kHouseholderProduct: {
          // Any factors will do: the product is that of the formula, orthogonal or not.
          const Operand reflectors = w.input(dtype, Sizes{b, m, n}, Pattern::kUnit),
                        factors = w.input(dtype, Sizes{b, n}, Pattern::kUnit);
          Operand small = factors;
          small.view.strides.back() = 0;  // one factor for all keeps the product near 1
          for (std::int64_t i = 0; i < b; ++i) w.set_number(factors, i * n, 0.05);
          w.op({reflectors, small}, {b, m, m}, dtype);
          break;
        }
        case OpKind::kPivotsToPermutation:
          w.op({w.ids(DType::kI64, {b, least}, std::max<std::int64_t>(m, 1))}, {b, m}, DType::kI64);
          break;
        default:
          w.op({strong(w, dtype, shape)}, info.kind == OpKind::kEigenSymmetric ? Sizes{b, n} : Sizes{b, m, n}, dtype);
      }
      if (info.kind == OpKind::kLu) w.second_result({b, least}, DType::kI64);
      if (info.kind == OpKind::kHouseholderQr) w.second_result({b, least}, dtype);
      if (info.kind == OpKind::kEigenSymmetric) w.second_result({b, n, n}, dtype);
      if (info.kind == OpKind::kSingularValues) w.second_result({b, n}, dtype), w.second_result({b, n, n}, dtype);
      w.program.terms = static_cast<double>(std::max<std::int64_t>(m, 4));
      w.program.magnitude = static_cast<double>(3 * n);
      programs.push_back(std::move(w.program));
    }
  }
  return programs;
}

}  // namespace crucible::conformance
