// Generated factorizations against the reference interpreter, and what they promise where several results are right.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <deque>

#include "core/kernel/testing/test_program.hpp"

namespace crucible::kernel {
namespace {

using graph::Operand;
using graph::OpKind;

/// Matrices whose diagonal stands out, so that nothing magnifies roundings.
Operand strong_diagonal(TestProgram& t, DType dtype, const Sizes& sizes) {
  const Operand x = t.input(dtype, sizes);
  const auto rows = static_cast<std::size_t>(sizes[sizes.size() - 2]), columns = static_cast<std::size_t>(sizes.back());
  const std::size_t batches = static_cast<std::size_t>(x.view.elements()) / std::max<std::size_t>(rows * columns, 1);
  for (std::size_t b = 0; b < batches; ++b) {
    for (std::size_t i = 0; i < std::min(rows, columns); ++i) {
      const std::size_t at = (b * rows + i) * columns + i;
      // Each its own, so that eigenvalues stand apart and their vectors are unique.
      graph::store_real(dtype, 2.0 * static_cast<double>(columns) + static_cast<double>(i),
                        t.values[x.value].data() + at * size_bytes(dtype));
    }
  }
  return x;
}

void expect_agreement(const std::deque<TestProgram>& programs) {
  if (HostKernels::compiler().empty()) GTEST_SKIP() << "no clang";
  std::vector<const TestProgram*> list;
  for (const TestProgram& program : programs) list.push_back(&program);
  EXPECT_THAT(run_and_compare(list), testing::IsEmpty());
}

TEST(Factor, EveryKindAgreesWithTheInterpreter) {
  std::deque<TestProgram> programs;
  for (const DType dtype : {DType::kF32, DType::kF64}) {
    for (const Sizes& batch : {Sizes{}, Sizes{3}, Sizes{2, 2}, Sizes{0}}) {
      TestProgram& t = programs.emplace_back(21);
      const auto of = [&](Sizes sizes) {
        sizes.insert(sizes.begin(), batch.begin(), batch.end());
        return sizes;
      };
      for (const std::int64_t n : {7, 1, 0}) {
        const Operand x = strong_diagonal(t, dtype, of({n, n})), right = t.input(dtype, of({n, 3}));
        t.keep(t.op(OpKind::kCholesky, {x}, of({n, n}), dtype));
        for (std::int64_t form = 0; form < 4; ++form) {
          graph::Attributes attributes;
          attributes.index = form;
          // With ones on its diagonal a triangle magnifies: a small one is enough to see its form.
          const bool unit = form >= 2;
          if (unit && n > 1) continue;
          t.keep(t.op(OpKind::kTriangularSolve, {x, right}, of({n, 3}), dtype, attributes));
        }
        t.keep(t.op(OpKind::kEigenSymmetric, {x}, of({n}), dtype));
        t.keep(t.second_result(of({n, n}), dtype));
      }
      graph::Attributes unit;
      unit.index = 2;
      t.keep(t.op(OpKind::kTriangularSolve, {t.input(dtype, of({3, 3})), t.input(dtype, of({3, 2}))}, of({3, 2}), dtype,
                  unit));
      unit.index = 3;
      t.keep(t.op(OpKind::kTriangularSolve, {t.input(dtype, of({3, 3})), t.input(dtype, of({3, 2}))}, of({3, 2}), dtype,
                  unit));
      for (const Sizes& shape : {Sizes{5, 5}, Sizes{8, 4}, Sizes{4, 9}, Sizes{1, 3}, Sizes{3, 0}}) {
        const std::int64_t least = std::min(shape[0], shape[1]);
        const Operand x = t.input(dtype, of(shape)), strong = strong_diagonal(t, dtype, of(shape));
        t.keep(t.op(OpKind::kLu, {x}, of(shape), dtype));
        const Operand pivots = t.second_result(of({least}), DType::kI64);
        t.keep(pivots);
        t.keep(t.op(OpKind::kPivotsToPermutation, {pivots}, of({shape[0]}), DType::kI64));
        t.keep(t.op(OpKind::kPivotsToPermutation, {t.input(DType::kI64, of({least}), -2, 12)}, of({shape[0]}),
                    DType::kI64));
        const Operand reflectors = t.op(OpKind::kHouseholderQr, {strong}, of(shape), dtype);
        const Operand factors = t.second_result(of({least}), dtype);
        t.keep(reflectors), t.keep(factors);
        if (shape[0] < shape[1]) continue;
        for (const std::int64_t columns : {least, shape[0]}) {
          t.keep(t.op(OpKind::kHouseholderProduct, {reflectors, factors}, of({shape[0], columns}), dtype));
        }
        t.keep(t.op(OpKind::kSingularValues, {strong}, of(shape), dtype));
        t.keep(t.second_result(of({shape[1]}), dtype));
        t.keep(t.second_result(of({shape[1], shape[1]}), dtype));
      }
    }
  }
  expect_agreement(programs);
}

/// Operands and results in the order of columns, as LAPACK has them.
TEST(Factor, MatricesInOtherLayouts) {
  std::deque<TestProgram> programs;
  TestProgram& t = programs.emplace_back(22);
  const auto turn_result = [&](std::size_t k) {
    graph::View& view = t.program.ops.back().outputs[k].view;
    std::swap(view.strides[1], view.strides[2]);
    view.strides[1] = 1, view.strides[2] = view.sizes[1];
  };
  const Operand square = permuted(strong_diagonal(t, DType::kF32, {2, 6, 6}), {0, 2, 1});
  const Operand tall = permuted(strong_diagonal(t, DType::kF32, {2, 4, 6}), {0, 2, 1});
  t.keep(t.op(OpKind::kCholesky, {square}, {2, 6, 6})), turn_result(0);
  t.keep(t.op(OpKind::kLu, {square}, {2, 6, 6})), turn_result(0);
  t.keep(t.second_result({2, 6}, DType::kI64));
  t.keep(t.op(OpKind::kHouseholderQr, {tall}, {2, 6, 4})), turn_result(0);
  t.keep(t.second_result({2, 4}, DType::kF32));
  t.keep(t.op(OpKind::kSingularValues, {tall}, {2, 6, 4})), turn_result(0);
  t.keep(t.second_result({2, 4}, DType::kF32));
  t.keep(t.second_result({2, 4, 4}, DType::kF32)), turn_result(2);
  t.keep(t.op(OpKind::kEigenSymmetric, {square}, {2, 6}));
  t.keep(t.second_result({2, 6, 6}, DType::kF32)), turn_result(1);
  expect_agreement(programs);
}

/// u s v' is x, and u and v are orthonormal, also where rank is missing, numbers are tiny or huge, and a hundred
/// columns turn.
TEST(Factor, SingularValuesMultipliedOut) {
  std::deque<TestProgram> programs;
  struct Case {
    DType dtype;
    std::int64_t rows, columns;
    double scale;
    bool poor;
  };
  for (const Case& c :
       {Case{DType::kF32, 9, 5, 1, true}, Case{DType::kF64, 9, 5, 1, true}, Case{DType::kF32, 6, 6, 1e-30, false},
        Case{DType::kF64, 6, 6, 1e200, false}, Case{DType::kF32, 100, 80, 1, true}}) {
    TestProgram& t = programs.emplace_back(23);
    Operand x = t.input(c.dtype, {c.rows, c.columns}, -c.scale, c.scale);
    if (c.poor) {  // all columns but the first two are the second one
      const Operand narrow = t.input(c.dtype, {c.rows, 2});
      const Operand first{narrow.value, {0, {c.rows, 1}, {2, 1}}, {}},
          second{narrow.value, {1, {c.rows, c.columns - 1}, {2, 0}}, {}};
      graph::Attributes along;
      along.dims = {1};
      x = t.op(OpKind::kConcat, {first, second}, {c.rows, c.columns}, c.dtype, along);
    }
    const Operand u = t.op(OpKind::kSingularValues, {x}, {c.rows, c.columns}, c.dtype);
    const Operand s = t.second_result({c.columns}, c.dtype), v = t.second_result({c.columns, c.columns}, c.dtype);
    const Operand scaled = t.op(OpKind::kMultiply, {u, expanded(reshaped(s, {1, c.columns}), {c.rows, c.columns})},
                                {c.rows, c.columns}, c.dtype);
    const Operand again = t.op(OpKind::kMatMul, {scaled, permuted(v, {1, 0})}, {c.rows, c.columns}, c.dtype);
    const Operand uu = t.op(OpKind::kMatMul, {permuted(u, {1, 0}), u}, {c.columns, c.columns}, c.dtype);
    const Operand vv = t.op(OpKind::kMatMul, {permuted(v, {1, 0}), v}, {c.columns, c.columns}, c.dtype);
    for (const Operand& operand : {x, again, uu, vv}) t.keep(operand);
  }
  if (HostKernels::compiler().empty()) GTEST_SKIP() << "no clang";
  for (const TestProgram& t : programs) {
    ASSERT_TRUE(graph::verify(t.program));
    const auto made = schedule(t.program, {});
    ASSERT_TRUE(made) << made.error().message;
    const auto kernels = HostKernels::compile({&*made});
    ASSERT_TRUE(kernels) << kernels.error().message;
    const auto got = run_on_host(t.program, *made, *kernels, t.values, t.slots, {});
    ASSERT_TRUE(got) << got.error().message;
    const auto& outputs = t.program.outputs;
    const auto numbers = [&](std::size_t k) {
      const graph::Value& value = t.program.values[outputs[k].operand.value];
      return graph::load((*got)[outputs[k].operand.value], value.dtype, graph::View::contiguous({value.elements})).real;
    };
    const DType dtype = t.program.values[outputs[0].operand.value].dtype;
    const double close = dtype == DType::kF64 ? 1e-13 : 2e-5;
    const auto x = numbers(0), again = numbers(1);
    double largest = 0;
    for (const double element : x) largest = std::max(largest, std::fabs(element));
    for (std::size_t i = 0; i < x.size(); ++i)
      ASSERT_NEAR(again[i] / largest, x[i] / largest, close) << graph::to_text(t.program);
    for (const std::size_t k : {2u, 3u}) {
      const auto identity = numbers(k);
      const auto side = static_cast<std::size_t>(std::lround(std::sqrt(static_cast<double>(identity.size()))));
      for (std::size_t i = 0; i < identity.size(); ++i)
        ASSERT_NEAR(identity[i], i / side == i % side ? 1 : 0, close) << k << graph::to_text(t.program);
    }
  }
}

}  // namespace
}  // namespace crucible::kernel
