// Products in pieces (split_products.hpp): the bits of the whole product, for all shapes, layouts, types and factors;
// programs that are right in themselves; and only where they are worth it.
#include "core/kernel/fuse/split_products.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "core/graph/parse.hpp"
#include "core/graph/reference.hpp"
#include "core/kernel/schedule_check.hpp"
#include "core/kernel/testing/test_program.hpp"

namespace crucible::kernel {
namespace {

using graph::Operand;
using graph::OpKind;
using ::testing::HasSubstr;

constexpr DeviceShape kLanes{.workers = 4096, .lanes = 32};

std::size_t products_in_pieces(const graph::Program& program) {
  return static_cast<std::size_t>(std::ranges::count_if(
      program.ops, [](const graph::Op& op) { return op.kind != OpKind::kReduceSum && op.attributes.pieces > 0; }));
}

/// Results of a schedule by compiled kernels, or by the interpreter, which watches each access.
std::vector<graph::Bytes> results(const TestProgram& t, const graph::Program& program, const Schedule& schedule,
                                  bool interpreted) {
  std::vector<graph::Bytes> values = t.values;
  values.resize(program.values.size());
  const Result<void> checked = check_schedule(program, schedule);
  EXPECT_TRUE(checked) << checked.error().message;
  if (interpreted) {
    const auto interpreter = ScheduleInterpreter::create(program, schedule);
    auto got = interpreter->run(program, schedule, std::move(values), t.slots, {.pieces = 2}, true);
    EXPECT_TRUE(got) << got.error().message;
    return got ? std::move(*got) : std::vector<graph::Bytes>();
  }
  const auto kernels = HostKernels::compile({&schedule});
  EXPECT_TRUE(kernels) << kernels.error().message;
  auto got = run_on_host(program, schedule, *kernels, std::move(values), t.slots, {.pieces = 3});
  EXPECT_TRUE(got) << got.error().message;
  return got ? std::move(*got) : std::vector<graph::Bytes>();
}

std::string printed(const graph::Program& program) { return graph::to_text(program); }

/// What is kept has the bits of the products as they are, fused and not, in both numerics (where no sum but those of
/// the products is, there is no other order in either); `products` of them are in pieces.
void expect_same_bits(const TestProgram& t, std::size_t products, const DeviceShape& device = kLanes,
                      bool is_watched = true) {
  const auto whole = schedule(t.program, {.numerics = Numerics::kStrict});
  ASSERT_TRUE(whole) << whole.error().message;
  const std::vector<graph::Bytes> wanted = results(t, t.program, *whole, HostKernels::compiler().empty());
  for (const Numerics numerics : {Numerics::kStrict, Numerics::kFast}) {
    for (const bool fuse : {true, false}) {
      SCOPED_TRACE(
          fmt::format("{}, {}", numerics == Numerics::kStrict ? "strict" : "fast", fuse ? "fused" : "not fused"));
      const auto prepared = prepare(t.program, {.fuse = fuse, .numerics = numerics, .device = device});
      ASSERT_TRUE(prepared) << prepared.error().message;
      const graph::Program& program = prepared->program ? *prepared->program : t.program;
      ASSERT_EQ(products_in_pieces(program), products);
      const auto verified = graph::verify(program);
      ASSERT_TRUE(verified) << verified.error().message;
      const auto read = graph::parse_program(printed(program));
      ASSERT_TRUE(read) << read.error().message;
      EXPECT_EQ(printed(*read), printed(program));
      const bool interpreted = HostKernels::compiler().empty() || (fuse && is_watched);
      const std::vector<graph::Bytes> got = results(t, program, prepared->schedule, interpreted);
      ASSERT_FALSE(got.empty());
      for (const graph::Output& output : t.program.outputs)
        EXPECT_TRUE(got[output.operand.value] == wanted[output.operand.value]) << "value " << output.operand.value;
    }
  }
}

/// The reference interpreter finds the same numbers in the program with pieces as in the one without.
void expect_same_numbers(const TestProgram& t) {
  const auto split = split_products(t.program, {.device = kLanes});
  ASSERT_TRUE(split);
  std::vector<graph::Bytes> values = t.values;
  const auto wanted = graph::run_iteration(t.program, values, t.slots);
  values.resize(split->values.size());
  const auto got = graph::run_iteration(*split, values, t.slots);
  ASSERT_TRUE(wanted) << wanted.error().message;
  ASSERT_TRUE(got) << got.error().message;
  for (const graph::Output& output : t.program.outputs)
    EXPECT_EQ(
        difference(t.program, output.operand.value, (*got)[output.operand.value], (*wanted)[output.operand.value]), "");
}

/// The result goes into an element-wise op and out.
TestProgram product(const Sizes& sizes, DType dtype, double alpha, bool left_across, bool right_across,
                    double magnitude = 1) {
  const std::int64_t batch = sizes[0], m = sizes[1], k = sizes[2], n = sizes[3];
  TestProgram t(static_cast<std::uint64_t>(m * 131 + k * 17 + n));
  const auto matrix = [&](std::int64_t rows, std::int64_t columns, bool across) {
    if (!across) return t.input(dtype, {batch, rows, columns}, -magnitude, magnitude);
    return permuted(t.input(dtype, {batch, columns, rows}, -magnitude, magnitude), {0, 2, 1});
  };
  const Operand a = matrix(m, k, left_across), b = matrix(k, n, right_across);
  graph::Attributes attributes;
  attributes.alpha = alpha;
  const Operand c = t.op(OpKind::kMatMul, {a, b}, {batch, m, n}, dtype, attributes);
  t.keep(c);
  t.keep(t.op(OpKind::kNegate, {c}, {batch, m, n}, dtype));
  return t;
}

TEST(SplitProducts, MatricesKeepTheirBits) {
  const std::vector<Sizes> shapes = {{1, 20, 515, 24}, {2, 7, 512, 9},   {1, 1, 700, 40},
                                     {1, 40, 700, 1},  {1, 5, 4100, 16}, {3, 4, 2304, 4}};
  for (const Sizes& shape : shapes) {
    SCOPED_TRACE(fmt::format("{}", fmt::join(shape, " x ")));
    expect_same_bits(product(shape, DType::kF32, 1, shape[1] % 2 == 0, shape[3] % 3 == 0), 1);
  }
}

TEST(SplitProducts, NarrowTypesAreRoundedOnceAndFactorsComeLast) {
  for (const DType dtype : {DType::kF64, DType::kBF16, DType::kF16}) {
    for (const double alpha : {1.0, 0.3}) {
      SCOPED_TRACE(fmt::format("{}, times {}", name(dtype), alpha));
      expect_same_bits(product({1, 12, 900, 20}, dtype, alpha, false, true), 1);
    }
  }
}

/// Products that vanish: a chunk's sum may be -0, which +0 in front of it would change.
TEST(SplitProducts, TheSignOfZeroStays) {
  TestProgram t(3);
  const Operand a = t.input(DType::kF32, {8, 600}, 1e-30, 2e-30), b = t.input(DType::kF32, {600, 8}, -2e-30, -1e-30);
  t.keep(t.op(OpKind::kMatMul, {a, b}, {8, 8}));
  expect_same_bits(t, 1);
  const auto whole = schedule(t.program, {.numerics = Numerics::kStrict});
  const auto got = results(t, t.program, *whole, true);
  float first = 0;
  std::memcpy(&first, got[t.program.outputs[0].operand.value].data(), sizeof first);
  EXPECT_TRUE(first == 0 && std::signbit(first)) << "the case is none";
}

struct Case {
  std::int64_t images, channels, outputs, height, width, kernel = 3, stride = 1, padding = 1, dilation = 1, groups = 1;
};

TestProgram convolutions(const Case& c) {
  TestProgram t(static_cast<std::uint64_t>(c.channels * 131 + c.width));
  const auto out = [&](std::int64_t in) {
    return (in + 2 * c.padding - c.dilation * (c.kernel - 1) - 1) / c.stride + 1;
  };
  const Sizes xs = {c.images, c.channels, c.height, c.width}, ys = {c.images, c.outputs, out(c.height), out(c.width)},
              ws = {c.outputs, c.channels / c.groups, c.kernel, c.kernel};
  const Operand x = t.input(DType::kF32, xs), w = t.input(DType::kF32, ws), dy = t.input(DType::kF32, ys);
  graph::Attributes a;
  a.groups = c.groups;
  for (int d = 0; d < 2; ++d) a.stride[d] = c.stride, a.padding[d] = c.padding, a.dilation[d] = c.dilation;
  t.keep(t.op(OpKind::kConv2d, {x, w}, ys, DType::kF32, a));
  t.keep(t.op(OpKind::kConv2dBackwardInput, {dy, w}, xs, DType::kF32, a));
  t.keep(t.op(OpKind::kConv2dBackwardWeight, {dy, x}, ws, DType::kF32, a));
  return t;
}

TEST(SplitProducts, ConvolutionsKeepTheirBits) {
  const std::pair<Case, std::size_t> cases[] = {
      {{6, 60, 64, 10, 10}, 3},                // a last chunk that is short
      {{8, 64, 64, 8, 8}, 3},                  // whole chunks
      {{2, 140, 140, 6, 10, 3, 2}, 2},         // phases of one, two and four taps
      {{5, 12, 8, 9, 9, 1, 2, 0}, 0},          // as few steps as one chunk has
      {{2, 80, 80, 8, 12, 4, 4, 0, 1, 2}, 1},  // groups
      {{2, 150, 12, 9, 10, 3, 1, 2, 2}, 1},    // dilated
      {{3, 520, 520, 8, 4, 1, 2, 0}, 2},       // phases that no tap meets
  };
  for (const auto& [c, products] : cases) {
    SCOPED_TRACE(fmt::format("{} x {} to {}", c.images, c.channels, c.outputs));
    expect_same_bits(convolutions(c), products, kLanes, c.images < 3 && c.channels < 140);
  }
}

TEST(SplitProducts, RandomShapesKeepTheirBits) {
  std::minstd_rand random(7);
  const auto between = [&](std::int64_t low, std::int64_t high) {
    return low + static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(high - low + 1));
  };
  for (int i = 0; i < 8; ++i) {
    const Sizes shape = {between(1, 2), between(1, 24), between(512, 1600), between(2, 24)};
    SCOPED_TRACE(fmt::format("{}", fmt::join(shape, " x ")));
    expect_same_bits(product(shape, DType::kF32, 1, between(0, 1) == 1, between(0, 1) == 1), 1);
  }
}

TEST(SplitProducts, TheReferenceInterpreterKnowsPieces) {
  expect_same_numbers(product({2, 7, 700, 9}, DType::kF32, 0.5, true, false));
  for (const Case& c : {Case{6, 60, 64, 10, 10}, Case{2, 140, 140, 6, 10, 3, 2}, Case{2, 80, 80, 8, 12, 4, 4, 0, 1, 2}})
    expect_same_numbers(convolutions(c));
}

TEST(SplitProducts, OnlyWhereADeviceWithLanesWouldBeIdle) {
  const DeviceShape gpu{.workers = 16896, .lanes = 32};
  EXPECT_EQ(pieces_of(1000, 511, gpu), 0);
  EXPECT_EQ(pieces_of(1000, 513, gpu), 3);
  EXPECT_EQ(pieces_of(16384, 4608, gpu), 18);
  EXPECT_EQ(pieces_of(1000, 13 * 256, gpu), 14);  // thirteen can not be taken several at once
  EXPECT_EQ(pieces_of(1000, 401408, gpu), 1568);
  EXPECT_EQ(pieces_of(std::int64_t{16896} * 24, 4608, gpu), 0);
  EXPECT_EQ(pieces_of(1000, 4608, {.workers = 64}), 0);
  EXPECT_FALSE(split_products(product({1, 8, 600, 8}, DType::kF32, 1, false, false).program, {}));
}

TEST(SplitProducts, ALibrarysProductsStayWhole) {
  const TestProgram t = product({1, 8, 600, 8}, DType::kF32, 1, false, false);
  const auto claims = [](const LibraryCall&) { return true; };
  EXPECT_FALSE(split_products(t.program, {.claims = claims, .device = kLanes}));
  EXPECT_TRUE(split_products(t.program, {.claims = claims, .numerics = Numerics::kStrict, .device = kLanes}));
}

TEST(SplitProducts, ASumOfPiecesFusesWithWhatTakesIt) {
  const TestProgram t = product({1, 16, 600, 32}, DType::kF32, 0.5, false, false);
  const auto prepared = prepare(t.program, {.device = kLanes});
  ASSERT_TRUE(prepared) << prepared.error().message;
  EXPECT_EQ(prepared->schedule.steps.size(), 2u);  // the pieces; their sum, the factor and the negation
}

TEST(SplitProducts, WrongPiecesAreRefused) {
  const TestProgram t = product({1, 8, 600, 8}, DType::kF32, 1, false, false);
  const auto split = split_products(t.program, {.device = kLanes});
  ASSERT_TRUE(split);
  const auto refused = [&](auto change) {
    graph::Program p = *split;
    change(p);
    const auto verified = graph::verify(p);
    return verified ? std::string() : verified.error().message;
  };
  EXPECT_EQ(refused([](graph::Program&) {}), "");
  EXPECT_THAT(refused([](graph::Program& p) { p.ops[0].attributes.pieces = 2; }), HasSubstr("must cover"));
  EXPECT_THAT(refused([](graph::Program& p) { p.ops[0].attributes.alpha = 2; }), HasSubstr("not scaled"));
  EXPECT_THAT(refused([](graph::Program& p) { p.ops[0].attributes.pieces = -3; }), HasSubstr("must cover"));
  EXPECT_THAT(refused([](graph::Program& p) { p.ops[1].attributes.pieces = 2; }), HasSubstr("along dimension 0"));
  EXPECT_THAT(refused([](graph::Program& p) { p.ops[2].attributes.pieces = 3; }), HasSubstr("not used"));
}

}  // namespace
}  // namespace crucible::kernel
