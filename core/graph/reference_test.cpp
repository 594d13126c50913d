// The interpreter against numbers worked out by hand or by independent means, op by op.
#include "core/graph/reference.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <tuple>

#include "core/graph/bitcast.hpp"
#include "core/graph/op_table.hpp"

namespace crucible::graph {
namespace {

using testing::ElementsAre;
using testing::ElementsAreArray;
using Floats = std::vector<float>;

template <class T>
Bytes bytes_of(const std::vector<T>& values) {
  Bytes bytes(values.size() * sizeof(T));
  if (!bytes.empty()) std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

template <class T>
std::vector<T> values_of(const Bytes& bytes) {
  std::vector<T> values(bytes.size() / sizeof(T));
  if (!bytes.empty()) std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

/// One op under test: operands with their bytes, one or two results.
struct OneOp {
  Program program;
  std::vector<Bytes> values;

  explicit OneOp(OpKind kind) {
    program.iterations = 1;
    program.ops.resize(1);
    program.ops[0].kind = kind;
  }
  template <class T>
  OneOp& input(View view, DType dtype, const std::vector<T>& data) {
    const auto id = static_cast<ValueId>(program.values.size());
    program.values.push_back({ValueKind::kInput, dtype, static_cast<std::int64_t>(data.size()), "", kNone});
    program.inputs.push_back({id, {0}, false});
    program.ops[0].inputs.push_back({id, std::move(view), {}});
    values.push_back(bytes_of(data));
    return *this;
  }
  OneOp& floats(std::vector<std::int64_t> sizes, const Floats& data) {
    return input(View::contiguous(std::move(sizes)), DType::kF32, data);
  }
  OneOp& scalar(double real) {
    Operand o;
    o.scalar.real = real;
    program.ops[0].inputs.push_back(o);
    return *this;
  }
  OneOp& output(View view, DType dtype = DType::kF32) {
    const auto id = static_cast<ValueId>(program.values.size());
    program.values.push_back({ValueKind::kTemporary, dtype, view.elements(), "", 0});
    program.ops[0].outputs.push_back({id, std::move(view), {}});
    return *this;
  }
  Attributes& attributes() { return program.ops[0].attributes; }
  Bytes run(std::size_t result = 0) {
    auto valid = verify(program);
    EXPECT_TRUE(valid) << valid.error().message;
    auto after = run_iteration(program, values, {});
    EXPECT_TRUE(after) << after.error().message;
    return after ? (*after)[program.ops[0].outputs[result].value] : Bytes{};
  }
  Floats run_floats() { return values_of<float>(run()); }
};

View row(std::int64_t n) { return View::contiguous({n}); }

TEST(Reference, ViewsAreIndexMaps) {
  // transposed and broadcast operands, a result laid out column by column
  OneOp op(OpKind::kAdd);
  op.input(View{0, {2, 3}, {1, 2}}, DType::kF32, Floats{1, 2, 3, 4, 5, 6});
  op.input(View{1, {2, 3}, {1, 0}}, DType::kF32, Floats{0, 10, 20});
  op.output(View{0, {2, 3}, {1, 2}});
  EXPECT_THAT(op.run_floats(), ElementsAre(11, 22, 13, 24, 15, 26));
}

TEST(Reference, UnaryFunctions) {
  const Floats x = {-1.5f, 0.25f, 2.0f};
  const std::pair<OpKind, double (*)(double)> cases[] = {
      {OpKind::kNegate, [](double v) { return -v; }},
      {OpKind::kAbsolute, [](double v) { return std::fabs(v); }},
      {OpKind::kExp, [](double v) { return std::exp(v); }},
      {OpKind::kTanh, [](double v) { return std::tanh(v); }},
      {OpKind::kErf, [](double v) { return std::erf(v); }},
      {OpKind::kSigmoid, [](double v) { return 1 / (1 + std::exp(-v)); }},
      {OpKind::kSin, [](double v) { return std::sin(v); }},
      {OpKind::kCos, [](double v) { return std::cos(v); }},
      {OpKind::kFloor, [](double v) { return std::floor(v); }},
      {OpKind::kReciprocal, [](double v) { return 1 / v; }},
  };
  for (const auto& [kind, function] : cases) {
    OneOp op(kind);
    op.floats({3}, x).output(row(3));
    Floats wanted;
    for (float v : x) wanted.push_back(static_cast<float>(function(v)));
    EXPECT_THAT(op.run_floats(), ElementsAreArray(wanted)) << name(kind);
  }
  EXPECT_THAT(OneOp(OpKind::kSqrt).floats({2}, {4, 2}).output(row(2)).run_floats(), ElementsAre(2, std::sqrt(2.0f)));
  EXPECT_THAT(OneOp(OpKind::kReciprocalSqrt).floats({1}, {4}).output(row(1)).run_floats(), ElementsAre(0.5f));
  EXPECT_THAT(OneOp(OpKind::kLog).floats({1}, {1}).output(row(1)).run_floats(), ElementsAre(0));
}

TEST(Reference, BinaryFunctions) {
  const Floats x = {-1.5f, 0.25f, 2.0f}, y = {2.0f, 0.5f, -3.0f};
  const std::pair<OpKind, Floats> cases[] = {
      {OpKind::kAdd, {0.5f, 0.75f, -1.0f}},        {OpKind::kSubtract, {-3.5f, -0.25f, 5.0f}},
      {OpKind::kMultiply, {-3.0f, 0.125f, -6.0f}}, {OpKind::kDivide, {-0.75f, 0.5f, 2.0f / -3.0f}},
      {OpKind::kMaximum, {2.0f, 0.5f, 2.0f}},      {OpKind::kMinimum, {-1.5f, 0.25f, -3.0f}},
      {OpKind::kPower, {2.25f, 0.5f, 0.125f}},
  };
  for (const auto& [kind, wanted] : cases) {
    EXPECT_THAT(OneOp(kind).floats({3}, x).floats({3}, y).output(row(3)).run_floats(), ElementsAreArray(wanted))
        << name(kind);
  }
  const std::pair<OpKind, std::vector<std::uint8_t>> tests[] = {
      {OpKind::kLess, {1, 0, 0}},         {OpKind::kLessEqual, {1, 0, 1}}, {OpKind::kGreater, {0, 1, 0}},
      {OpKind::kGreaterEqual, {0, 1, 1}}, {OpKind::kEqual, {0, 0, 1}},     {OpKind::kNotEqual, {1, 1, 0}},
      {OpKind::kLogicalAnd, {0, 0, 1}},   {OpKind::kLogicalOr, {1, 1, 1}},
  };
  for (const auto& [kind, wanted] : tests) {
    OneOp op(kind);
    op.floats({3}, {0, 5, 2}).floats({3}, {1, 0, 2}).output(row(3), DType::kBool);
    EXPECT_THAT(values_of<std::uint8_t>(op.run()), ElementsAreArray(wanted)) << name(kind);
  }
}

TEST(Reference, NanWinsInMaximum) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  for (OpKind kind : {OpKind::kMaximum, OpKind::kMinimum}) {
    const auto result = OneOp(kind).floats({3}, {nan, 1, 2}).floats({3}, {1, nan, 3}).output(row(3)).run_floats();
    EXPECT_TRUE(std::isnan(result[0]) && std::isnan(result[1]));
    EXPECT_EQ(result[2], kind == OpKind::kMaximum ? 3 : 2);
  }
  OneOp max(OpKind::kReduceMax);
  max.floats({2, 2}, {1, nan, -3, -2}).output(View{0, {2, 1}, {1, 0}});
  max.attributes().dims = {1};
  const auto result = max.run_floats();
  EXPECT_TRUE(std::isnan(result[0]));
  EXPECT_EQ(result[1], -2);
}

TEST(Reference, IntegersWrapAndConvert) {
  OneOp add(OpKind::kAdd);
  add.input(row(1), DType::kI32, std::vector<std::int32_t>{2147483647}).scalar(1).output(row(1), DType::kI32);
  EXPECT_THAT(values_of<std::int32_t>(add.run()), ElementsAre(-2147483648));
  OneOp big(OpKind::kAdd);
  big.input(row(1), DType::kI64, std::vector<std::int64_t>{(std::int64_t{1} << 60) + 1});
  big.input(row(1), DType::kI64, std::vector<std::int64_t>{1}).output(row(1), DType::kI64);
  EXPECT_THAT(values_of<std::int64_t>(big.run()), ElementsAre((std::int64_t{1} << 60) + 2));
  OneOp down(OpKind::kCopy);
  down.floats({3}, {-1.7f, 2.7f, 300}).output(row(3), DType::kI64);
  EXPECT_THAT(values_of<std::int64_t>(down.run()), ElementsAre(-1, 2, 300));
  // As x86 processors, and eager PyTorch on them, say of what has no place.
  const float nan = std::numeric_limits<float>::quiet_NaN(), inf = std::numeric_limits<float>::infinity();
  const auto converted = [&](DType dtype) {
    OneOp far(OpKind::kCopy);
    far.floats({5}, {nan, inf, -inf, 5e9f, 70000.5f}).output(row(5), dtype);
    return far.run();
  };
  constexpr std::int64_t kLeast = std::numeric_limits<std::int64_t>::min();
  constexpr std::int32_t kLeast32 = std::numeric_limits<std::int32_t>::min();
  EXPECT_THAT(values_of<std::int64_t>(converted(DType::kI64)), ElementsAre(kLeast, kLeast, kLeast, 5000000000, 70000));
  EXPECT_THAT(values_of<std::int32_t>(converted(DType::kI32)),
              ElementsAre(kLeast32, kLeast32, kLeast32, kLeast32, 70000));
  EXPECT_THAT(values_of<std::int16_t>(converted(DType::kI16)), ElementsAre(0, 0, 0, 0, 4464));
  EXPECT_THAT(values_of<std::int8_t>(converted(DType::kI8)), ElementsAre(0, 0, 0, 0, 112));
  EXPECT_THAT(values_of<std::uint8_t>(converted(DType::kU8)), ElementsAre(0, 0, 0, 0, 112));
  OneOp truth(OpKind::kCopy);
  truth.floats({3}, {0, -0.0f, 0.1f}).output(row(3), DType::kBool);
  EXPECT_THAT(values_of<std::uint8_t>(truth.run()), ElementsAre(0, 0, 1));
}

/// Just above halfway between two halves, which f32 cannot tell from halfway.
TEST(Reference, DoublesBecomeHalvesByWayOfF32) {
  for (const auto& [dtype, step, one] :
       {std::tuple(DType::kF16, 0x1p-11, 0x3c00), std::tuple(DType::kBF16, 0x1p-8, 0x3f80)}) {
    OneOp op(OpKind::kCopy);
    op.input(row(1), DType::kF64, std::vector<double>{1 + step + 0x1p-40}).output(row(1), dtype);
    EXPECT_THAT(values_of<std::uint16_t>(op.run()), ElementsAre(one));
  }
}

TEST(Reference, ComparisonsUseTheFirstOperandsDtype) {
  OneOp op(OpKind::kLess);
  op.input(row(2), DType::kI64, std::vector<std::int64_t>{1, 2}).scalar(1.9).output(row(2), DType::kBool);
  EXPECT_THAT(values_of<std::uint8_t>(op.run()), ElementsAre(0, 0)) << "1.9 is 1 as i64";
}

TEST(Reference, HalfPrecisionRoundsToNearestEven) {
  EXPECT_EQ(round_to(DType::kF16, 2049), 2048);
  EXPECT_EQ(round_to(DType::kF16, 2051), 2052);
  EXPECT_EQ(round_to(DType::kF16, 65519), 65504);
  EXPECT_TRUE(std::isinf(round_to(DType::kF16, 65520)));
  EXPECT_EQ(round_to(DType::kF16, std::ldexp(1.0, -24)), std::ldexp(1.0, -24));
  EXPECT_EQ(round_to(DType::kF16, std::ldexp(1.0, -26)), 0);
  EXPECT_EQ(round_to(DType::kBF16, 257), 256);
  EXPECT_EQ(round_to(DType::kBF16, 259), 260);
  for (int bits = 0; bits < 65536; ++bits) {
    for (DType dtype : {DType::kF16, DType::kBF16}) {
      std::byte cell[2], back[2];
      const auto pattern = static_cast<std::uint16_t>(bits);
      std::memcpy(cell, &pattern, 2);
      const double value = load_real(dtype, cell);
      if (std::isnan(value)) continue;
      store_real(dtype, value, back);
      EXPECT_EQ(std::memcmp(cell, back, 2), 0) << name(dtype) << " " << bits;
    }
  }
}

TEST(Reference, SelectFillCoordinate) {
  OneOp select(OpKind::kSelect);
  select.input(row(3), DType::kBool, std::vector<std::uint8_t>{1, 0, 1});
  select.floats({3}, {1, 2, 3}).scalar(-1).output(row(3));
  EXPECT_THAT(select.run_floats(), ElementsAre(1, -1, 3));
  EXPECT_THAT(OneOp(OpKind::kFill).scalar(0.5).output(row(2)).run_floats(), ElementsAre(0.5f, 0.5f));
  OneOp coordinate(OpKind::kCoordinate);
  coordinate.output(View{0, {2, 3}, {1, 2}}, DType::kI64);
  coordinate.attributes().dims = {1};
  EXPECT_THAT(values_of<std::int64_t>(coordinate.run()), ElementsAre(0, 0, 1, 1, 2, 2));
}

TEST(Reference, SumsOverSeveralDims) {
  OneOp op(OpKind::kReduceSum);
  op.floats({2, 3, 2}, {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}).output(View{0, {1, 3, 1}, {0, 1, 0}});
  op.attributes().dims = {0, 2};
  EXPECT_THAT(op.run_floats(), ElementsAre(18, 26, 34));
  OneOp many(OpKind::kReduceSum);  // accumulated in double: 2^24 ones and more
  many.input(View{0, {1 << 25}, {0}}, DType::kF32, Floats{1}).output(View{0, {1}, {0}});
  many.attributes().dims = {0};
  EXPECT_THAT(many.run_floats(), ElementsAre(33554432.0f));
}

TEST(Reference, RowsGatheredScatteredConcatenatedUpdated) {
  const std::vector<std::int64_t> ids = {2, 0, 2};
  OneOp gather(OpKind::kGatherRows);
  gather.floats({3, 2}, {1, 2, 3, 4, 5, 6}).input(row(3), DType::kI64, ids).output(View::contiguous({3, 2}));
  EXPECT_THAT(gather.run_floats(), ElementsAre(5, 6, 1, 2, 5, 6));
  OneOp scatter(OpKind::kScatterAddRows);
  scatter.floats({3, 2}, {1, 2, 3, 4, 5, 6}).input(row(3), DType::kI64, ids).output(View::contiguous({4, 2}));
  EXPECT_THAT(scatter.run_floats(), ElementsAre(3, 4, 0, 0, 6, 8, 0, 0));
  scatter.attributes().index = 0;
  EXPECT_THAT(scatter.run_floats(), ElementsAre(0, 0, 0, 0, 6, 8, 0, 0));
  OneOp concat(OpKind::kConcat);
  concat.floats({2, 1}, {1, 2}).floats({2, 2}, {3, 4, 5, 6}).output(View::contiguous({2, 3}));
  concat.attributes().dims = {1};
  EXPECT_THAT(concat.run_floats(), ElementsAre(1, 3, 4, 2, 5, 6));
  OneOp update(OpKind::kUpdate);
  update.floats({6}, {1, 2, 3, 4, 5, 6}).floats({2, 1}, {20, 50}).output(row(6));
  update.attributes().region = View{1, {2, 1}, {3, 1}};
  EXPECT_THAT(update.run_floats(), ElementsAre(1, 20, 3, 4, 50, 6));
}

TEST(Reference, BitcastsKeepEveryBit) {
  const std::vector<std::int32_t> bits = {0x3f800000, -1, 0x7f800001, 0x40490fdb};
  OneOp floats(OpKind::kConcat);
  floats.attributes().dims = {0};
  floats.input(View{0, {2}, {2}}, DType::kI32, bits).output(row(2), DType::kF32);
  EXPECT_THAT(values_of<std::int32_t>(floats.run()), ElementsAre(0x3f800000, 0x7f800001));
  OneOp narrow(OpKind::kConcat);
  narrow.attributes().dims = {0};
  narrow.input(View{3, {1}, {1}}, DType::kI32, bits).output(row(4), DType::kU8);
  EXPECT_THAT(values_of<std::uint8_t>(narrow.run()), ElementsAre(0xdb, 0x0f, 0x49, 0x40));
  OneOp wide(OpKind::kConcat);
  wide.attributes().dims = {0};
  wide.input(View{1, {2}, {2}}, DType::kI32, bits).output(row(1), DType::kI64);
  EXPECT_THAT(values_of<std::int64_t>(wide.run()), ElementsAre(0x40490fdbffffffff));
}

TEST(Reference, BitcastsNameNansWhereTheyAreAskedTo) {
  OneOp whole(OpKind::kConcat);
  whole.attributes().dims = {0};
  whole.attributes().index = kNamesNans;
  whole
      .input(View{0, {4}, {1}}, DType::kF32, std::vector<std::uint32_t>{0xffc00001, 0x7f800000, 0x80000000, 0x7f800001})
      .output(row(4), DType::kI32);
  EXPECT_THAT(values_of<std::int32_t>(whole.run()), ElementsAre(0x7fc00000, 0x7f800000, INT32_MIN, 0x7fc00000));
  OneOp narrow(OpKind::kConcat);
  narrow.attributes() = whole.attributes();
  narrow.input(View{0, {2}, {1}}, DType::kF16, std::vector<std::uint16_t>{0xfe00, 0xfc00}).output(row(4), DType::kU8);
  EXPECT_THAT(values_of<std::uint8_t>(narrow.run()), ElementsAre(0x00, 0x7e, 0x00, 0xfc));
}

TEST(Reference, BadIdsAreErrors) {
  OneOp gather(OpKind::kGatherRows);
  gather.floats({2, 1}, {1, 2})
      .input(row(1), DType::kI64, std::vector<std::int64_t>{2})
      .output(View::contiguous({1, 1}));
  auto result = run_iteration(gather.program, gather.values, {});
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().message, "op 0 (gather_rows): id 2 is no row of 2");
}

TEST(Reference, MatMulWithBroadcastBatchAndAlpha) {
  OneOp op(OpKind::kMatMul);
  op.floats({2, 1, 2}, {1, 2, 3, 4});
  op.input(View{0, {2, 2, 2}, {0, 1, 2}}, DType::kF32, Floats{1, 2, 3, 4});  // one matrix, transposed, for both batches
  op.output(View::contiguous({2, 1, 2}));
  op.attributes().alpha = 2;
  EXPECT_THAT(op.run_floats(), ElementsAre(10, 22, 22, 50));
}

/// Each gradient against the definition: conv is linear in x and in weight, so <g, conv(x, w)> must equal <dx, x> and
/// <dw, w> for random g, x and w.
TEST(Reference, ConvolutionGradientsAreAdjoints) {
  struct Shape {
    std::vector<std::int64_t> x, w, y;
    std::int64_t stride, padding, dilation, groups;
  };
  for (const Shape& s : {Shape{{2, 3, 5, 6}, {4, 3, 3, 3}, {2, 4, 5, 6}, 1, 1, 1, 1},
                         Shape{{1, 4, 7, 7}, {6, 2, 3, 3}, {1, 6, 3, 3}, 2, 1, 2, 2},
                         Shape{{2, 2, 4, 4}, {2, 1, 1, 1}, {2, 2, 2, 2}, 2, 0, 1, 2}}) {
    auto random = [n = 1u](const std::vector<std::int64_t>& sizes) mutable {
      Floats data(static_cast<std::size_t>(View::contiguous(sizes).elements()));
      for (auto& v : data) v = static_cast<float>(static_cast<int>((n = n * 1103515245u + 12345u) >> 16) % 100) / 50.f;
      return data;
    };
    const Floats x = random(s.x), w = random(s.w), g = random(s.y);
    const auto run = [&](OpKind kind, auto& sa, auto& a, auto& sb, auto& b, auto& out) {
      OneOp op(kind);
      op.floats(sa, a).floats(sb, b).output(View::contiguous(out));
      for (int d = 0; d < 2; ++d) {
        op.attributes().stride[d] = s.stride;
        op.attributes().padding[d] = s.padding;
        op.attributes().dilation[d] = s.dilation;
      }
      op.attributes().groups = s.groups;
      return op.run_floats();
    };
    const auto dot = [](const Floats& a, const Floats& b) {
      double sum = 0;
      for (std::size_t i = 0; i < a.size(); ++i) sum += static_cast<double>(a[i]) * b[i];
      return sum;
    };
    const double wanted = dot(g, run(OpKind::kConv2d, s.x, x, s.w, w, s.y));
    EXPECT_NEAR(dot(run(OpKind::kConv2dBackwardInput, s.y, g, s.w, w, s.x), x), wanted, 1e-4);
    EXPECT_NEAR(dot(run(OpKind::kConv2dBackwardWeight, s.y, g, s.x, x, s.w), w), wanted, 1e-4);
  }
  OneOp box(OpKind::kConv2d);  // and one by hand: a box filter with padding
  box.floats({1, 1, 2, 2}, {1, 2, 3, 4}).floats({1, 1, 3, 3}, Floats(9, 1)).output(View::contiguous({1, 1, 2, 2}));
  box.attributes().padding[0] = box.attributes().padding[1] = 1;
  EXPECT_THAT(box.run_floats(), ElementsAre(10, 10, 10, 10));
}

TEST(Reference, MaxPoolTakesTheFirstMaximum) {
  OneOp pool(OpKind::kMaxPool2d);
  pool.floats({1, 1, 3, 4}, {1, 5, 2, 0, 5, 5, 7, 7, -1, -2, 7, 9}).output(View::contiguous({1, 1, 2, 2}));
  pool.output(View::contiguous({1, 1, 2, 2}), DType::kI64);
  for (int d = 0; d < 2; ++d) {
    pool.attributes().kernel[d] = 3;
    pool.attributes().stride[d] = 2;
    pool.attributes().padding[d] = 1;
  }
  EXPECT_THAT(pool.run_floats(), ElementsAre(5, 7, 5, 9));
  EXPECT_THAT(values_of<std::int64_t>(pool.run(1)), ElementsAre(1, 6, 4, 11));
  OneOp back(OpKind::kMaxPool2dBackward);
  back.floats({1, 1, 2, 2}, {1, 2, 3, 4});
  back.input(View::contiguous({1, 1, 2, 2}), DType::kI64, std::vector<std::int64_t>{1, 1, 4, 0});
  back.output(View::contiguous({1, 1, 2, 3}));
  EXPECT_THAT(back.run_floats(), ElementsAre(4, 3, 0, 0, 3, 0));
}

}  // namespace
}  // namespace crucible::graph
