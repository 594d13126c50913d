// Results of f16 and bf16 are rounded once, and a lowering that rounds in the middle is seen.
#include "frontends/aten/algebra/rounding.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "core/graph/reference_numbers.hpp"
#include "frontends/aten/testing/lowered_trace.hpp"

namespace crucible::aten {
namespace {

using testing::Each;
using B = TraceBuilder;

/// 2^11 of f16, 2^8 of bf16: with 1 more it is halfway to the next number, and even.
double wide_number(DType dtype) { return dtype == DType::kF16 ? 2048 : 256; }

class OneOp {
 public:
  explicit OneOp(DType dtype) : dtype_(dtype) {}

  trace::TensorId tensor(std::vector<std::int64_t> sizes, const std::vector<double>& content) {
    const auto id = builder.fresh(std::move(sizes), dtype_);
    std::vector<std::byte> bytes(content.size() * size_bytes(dtype_));
    for (std::size_t i = 0; i < content.size(); ++i)
      graph::store_real(dtype_, content[i], bytes.data() + i * size_bytes(dtype_));
    builder.external_bytes(builder.storage_of(id), bytes, trace::Role::kInput, "");
    return id;
  }
  /// What the op gives, as f32; its lowering rounds nothing in the middle.
  Floats result(const std::string& schema, const std::vector<trace::Arg>& args,
                const std::vector<std::int64_t>& sizes) {
    const auto y = builder.fresh(sizes, dtype_), out = builder.fresh(sizes);
    const auto elements = static_cast<std::size_t>(graph::View::contiguous(sizes).elements());
    builder.external(builder.storage_of(out), Floats(elements, 0.f), trace::Role::kParameter, "out");
    builder.op(schema, args, {B::tensor(y)});
    builder.op(kCopyInPlace, {B::tensor(out), B::tensor(y), B::boolean(false)}, {B::tensor(out)});
    builder.end_iteration();
    builder.final_state(builder.storage_of(out), Floats(elements, 0.f),
                        "out");  // nothing reads it: only so it is a state
    const auto program = lower_without_passes(builder.trace());
    EXPECT_TRUE(program) << program.error().message;
    if (!program) return {};
    EXPECT_TRUE(middle_roundings(*program).empty()) << graph::to_text(*program);
    Floats result = final_state(builder, *program);
    EXPECT_EQ(result.size(), elements);
    return result;
  }

  TraceBuilder builder;

 private:
  const DType dtype_;
};

class Rounding : public testing::TestWithParam<DType> {};
INSTANTIATE_TEST_SUITE_P(Halves, Rounding, testing::Values(DType::kF16, DType::kBF16),
                         [](const auto& info) { return std::string(name(info.param)); });

TEST_P(Rounding, OfProductsIsAfterTheSum) {
  const double n = wide_number(GetParam());
  const std::vector<trace::Arg> ones = {B::integer(1), B::integer(1)};
  const auto with_ones = [&](std::vector<trace::Arg> args) {
    args.insert(args.end(), ones.begin(), ones.end());
    return args;
  };
  const auto wanted = static_cast<float>(n + 2);
  {
    OneOp op(GetParam());
    const auto bias = op.tensor({2}, {1, 1}), a = op.tensor({3, 2}, {n, 1, n, 1, n, 1}),
               b = op.tensor({2, 2}, {1, 1, 1, 1});
    EXPECT_THAT(
        op.result("aten::addmm(Tensor self, Tensor mat1, Tensor mat2, *, Scalar beta=1, Scalar alpha=1) -> Tensor",
                  with_ones({B::tensor(bias), B::tensor(a), B::tensor(b)}), {3, 2}),
        Each(wanted));
  }
  {
    OneOp op(GetParam());
    const auto bias = op.tensor({1, 1, 1}, {1}), a = op.tensor({2, 1, 2}, {n, 1, n, 1}),
               b = op.tensor({2, 2, 1}, {1, 1, 1, 1});
    EXPECT_THAT(
        op.result(
            "aten::baddbmm(Tensor self, Tensor batch1, Tensor batch2, *, Scalar beta=1, Scalar alpha=1) -> Tensor",
            with_ones({B::tensor(bias), B::tensor(a), B::tensor(b)}), {2, 1, 1}),
        Each(wanted));
  }
  {
    OneOp op(GetParam());
    const auto bias = op.tensor({1, 1}, {1}), a = op.tensor({2, 1, 1}, {n, 1}), b = op.tensor({2, 1, 1}, {1, 1});
    EXPECT_THAT(
        op.result("aten::addbmm(Tensor self, Tensor batch1, Tensor batch2, *, Scalar beta=1, Scalar alpha=1) -> Tensor",
                  with_ones({B::tensor(bias), B::tensor(a), B::tensor(b)}), {1, 1}),
        Each(wanted));
  }
  {
    OneOp op(GetParam());
    const auto bias = op.tensor({2}, {1, 1}), a = op.tensor({2, 2}, {n, 1, n, 1}), v = op.tensor({2}, {1, 1});
    EXPECT_THAT(
        op.result("aten::addmv(Tensor self, Tensor mat, Tensor vec, *, Scalar beta=1, Scalar alpha=1) -> Tensor",
                  with_ones({B::tensor(bias), B::tensor(a), B::tensor(v)}), {2}),
        Each(wanted));
  }
  {  // 3 * 683 + 1; 13 * 19.75 + 0.5
    OneOp op(GetParam());
    const bool is_f16 = GetParam() == DType::kF16;
    const auto bias = op.tensor({1, 1}, {is_f16 ? 1 : 0.5}), u = op.tensor({1}, {is_f16 ? 3.0 : 13.0}),
               v = op.tensor({1}, {is_f16 ? 683 : 19.75});
    EXPECT_THAT(
        op.result("aten::addr(Tensor self, Tensor vec1, Tensor vec2, *, Scalar beta=1, Scalar alpha=1) -> Tensor",
                  with_ones({B::tensor(bias), B::tensor(u), B::tensor(v)}), {1, 1}),
        Each(wanted));
  }
}

TEST_P(Rounding, OfConvolutionsIsAfterTheBias) {
  const double n = wide_number(GetParam());
  const auto wanted = static_cast<float>(n + 2);
  for (const std::int64_t sides : {1, 2, 3}) {
    for (const bool transposed : {false, true}) {
      OneOp op(GetParam());
      std::vector<std::int64_t> x_sizes = {1, 2}, w_sizes = {transposed ? 2 : 1, transposed ? 1 : 2}, y_sizes = {1, 1};
      std::vector<double> content;
      for (std::int64_t d = 0; d < sides; ++d) x_sizes.push_back(2), w_sizes.push_back(1), y_sizes.push_back(2);
      for (std::int64_t i = 0; i < 2 << sides; ++i) content.push_back(i < (1 << sides) ? n : 1);
      const auto x = op.tensor(x_sizes, content), w = op.tensor(w_sizes, {1, 1}), bias = op.tensor({1}, {1});
      const auto each = [&](std::int64_t value) {
        return B::integers(std::vector<std::int64_t>(static_cast<std::size_t>(sides), value));
      };
      EXPECT_THAT(op.result("aten::convolution(Tensor input, Tensor weight, Tensor? bias, SymInt[] stride, SymInt[] "
                            "padding, SymInt[] dilation, "
                            "bool transposed, SymInt[] output_padding, SymInt groups) -> Tensor",
                            {B::tensor(x), B::tensor(w), B::tensor(bias), each(1), each(0), each(1),
                             B::boolean(transposed), each(0), B::integer(1)},
                            y_sizes),
                  Each(wanted))
          << sides << (transposed ? " sides, transposed" : " sides");
    }
  }
}

/// A program of one source: x and y are rounded to bf16, added and used again.
graph::Program rounds_in_the_middle(bool moves_before, std::uint32_t second_source) {
  graph::Program program;
  program.iterations = 1;
  program.sources.resize(2);
  Emitter e(program);
  const auto input = e.outside_value(graph::ValueKind::kInput, DType::kBF16, 4, "x");
  program.inputs.push_back({input, {0}, false});
  Term x;
  x.dtype = DType::kBF16;
  x.operand.value = input;
  x.operand.view = graph::View::contiguous({4});
  e.set_source(0);
  Term sum = e.cast(e.binary(graph::OpKind::kAdd, e.cast(x, DType::kF32), Term::number(1)), DType::kBF16);
  if (moves_before) sum = e.concat({sum, sum}, 0);
  e.set_source(second_source);
  e.unary(graph::OpKind::kExp, e.cast(sum, DType::kF32));
  return program;
}

TEST(MiddleRounding, IsSeenWhereOneOpComputesOn) {
  for (const bool moves_before : {false, true}) {
    const auto found = middle_roundings(rounds_in_the_middle(moves_before, 0));
    ASSERT_EQ(found.size(), 1u) << moves_before;
    EXPECT_EQ(found[0].rounds, 2u);
    EXPECT_EQ(found[0].reads, moves_before ? 4u : 3u);
    EXPECT_TRUE(middle_roundings(rounds_in_the_middle(moves_before, 1)).empty())
        << "another recorded op reads what was stored";
  }
}

/// Nearly a whole number of half turns: what is left of the sine has no digit right in f32, after ten squarings.
TEST(MatrixExponential, OfF16IsComputedInF64) {
  OneOp op(DType::kF16);
  const auto x = op.tensor({2, 2}, {0, 355, -355, 0});
  const Floats y = op.result("aten::linalg_matrix_exp(Tensor self) -> Tensor", {B::tensor(x)}, {2, 2});
  ASSERT_EQ(y.size(), 4u);
  EXPECT_NEAR(y[0], -1, 1e-6);
  EXPECT_NEAR(y[1], std::sin(355.0), 0x1p-25);  // half a unit of the subnormal numbers of f16
  EXPECT_NEAR(y[2], -std::sin(355.0), 0x1p-25);
}

TEST(MiddleRounding, RecordedOpsThatRoundOnTheWayAreCounted) {
  for (const bool moves_before : {false, true}) {
    for (const std::uint32_t second : {0u, 1u}) {
      graph::Program program = rounds_in_the_middle(moves_before, second);
      Emitter e(program);
      Term wide;
      wide.dtype = DType::kF32;
      wide.operand = program.ops.back().outputs[0];
      EXPECT_EQ(rounding_ops(program, wide.operand.value), std::set<std::uint32_t>{0});
      e.set_source(second);
      const Term stored = e.copy(e.cast(wide, DType::kBF16));
      EXPECT_EQ(rounding_ops(program, stored.operand.value).size(), second + 1);
    }
  }
}

TEST(MiddleRounding, ProductsThatAreAddedToKeepTheirPrecision) {
  graph::Program program;
  Emitter e(program);
  const auto matrix = [&](DType dtype) {
    Term x;
    x.dtype = dtype;
    x.operand.value = e.outside_value(graph::ValueKind::kInput, dtype, 4, "");
    x.operand.view = graph::View::contiguous({2, 2});
    return x;
  };
  for (const DType dtype : {DType::kF16, DType::kBF16, DType::kF32, DType::kF64}) {
    const Term product = e.matmul(matrix(dtype), matrix(dtype)), kept = unrounded(e, product);
    EXPECT_EQ(kept.dtype, compute_dtype(dtype));
    EXPECT_EQ(program.values[product.operand.value].dtype, compute_dtype(dtype));
    const Term x = matrix(dtype);
    EXPECT_EQ(unrounded(e, x).dtype, dtype) << "an input is what it is";
  }
}

}  // namespace
}  // namespace crucible::aten
