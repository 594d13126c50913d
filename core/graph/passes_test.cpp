// Passes on small programs; random programs are in random_program_test.cpp.
#include "core/graph/passes.hpp"

#include <gtest/gtest.h>

#include <span>

#include "core/graph/random_program.hpp"

namespace crucible::graph {
namespace {

Operand number(double real) {
  Operand o;
  o.scalar.real = real;
  return o;
}

/// Two fills of 1 with different layouts, their sum, a dead exp, a state w that becomes w + sum.
Program example() {
  Program p;
  p.iterations = 1;
  const View row = View::contiguous({2, 3}), column{0, {2, 3}, {1, 2}};
  const auto temporary = [&](OpId producer) { return Value{ValueKind::kTemporary, DType::kF32, 6, "", producer}; };
  p.values = {{ValueKind::kState, DType::kF32, 6, "w", kNone},
              temporary(0),
              temporary(1),
              temporary(2),
              temporary(3),
              temporary(4),
              {ValueKind::kInput, DType::kF32, 1, "unused", kNone}};
  p.states = {{0, 5, 0, 0}};
  p.inputs = {{6, {0}, false}};
  p.slots = {{"unused", {1.0}}};
  p.sources = {{"dead", "", "", Phase::kForward, 0}, {"live", "", "", Phase::kForward, 1}};
  p.ops = {{OpKind::kFill, {number(1)}, {{1, row, {}}}, {}, kNone},
           {OpKind::kFill, {number(1)}, {{2, column, {}}}, {}, kNone},
           {OpKind::kExp, {{0, row, {}}}, {{3, row, {}}}, {}, 0},
           {OpKind::kAdd, {{1, row, {}}, {2, column, {}}}, {{4, row, {}}}, {}, 1},
           {OpKind::kAdd, {{0, row, {}}, {4, row, {}}}, {{5, row, {}}}, {}, 1}};
  return p;
}

TEST(Passes, DeadCodeGoesAndNumbersStayInOrder) {
  Program p = example();
  ASSERT_TRUE(verify(p)) << verify(p).error().message;
  eliminate_dead(p);
  ASSERT_TRUE(verify(p)) << verify(p).error().message;
  EXPECT_EQ(p.ops.size(), 4u);
  EXPECT_EQ(p.values.size(), 5u);
  EXPECT_TRUE(p.inputs.empty());
  EXPECT_TRUE(p.slots.empty());
  ASSERT_EQ(p.sources.size(), 1u);
  EXPECT_EQ(p.sources[0].op, "live");
}

TEST(Passes, EqualFillsMergeWhateverTheirLayout) {
  Program p = example();
  merge_generators(p);
  ASSERT_TRUE(verify(p)) << verify(p).error().message;
  eliminate_dead(p);
  EXPECT_EQ(p.ops.size(), 3u) << to_text(p);
}

TEST(Passes, FillsOfOtherNumbersStayApart) {
  Program p = example();
  p.ops[1].inputs[0] = number(-0.0);
  p.ops[0].inputs[0] = number(0.0);
  merge_generators(p);
  eliminate_dead(p);
  EXPECT_EQ(p.ops.size(), 4u) << "0.0 and -0.0 are different numbers";
}

TEST(Passes, AFillThatEndsAStateStaysItsOwn) {
  Program p = example();
  p.states[0].end = 1;
  p.values.push_back({ValueKind::kState, DType::kF32, 6, "v", kNone});
  p.states.push_back({7, 2, 0, 0});
  merge_generators(p);
  eliminate_dead(p);
  ASSERT_TRUE(verify(p)) << verify(p).error().message;
  EXPECT_NE(p.states[0].end, p.states[1].end);
}

TEST(Passes, AllRunAndReport) {
  Program p = example();
  std::size_t seen = 0;
  auto result = run_passes(p, {}, [&](const Pass& pass, const Program&, std::uint64_t) {
    EXPECT_FALSE(pass.name.empty());
    ++seen;
  });
  ASSERT_TRUE(result);
  EXPECT_EQ(seen, passes().size());
}

/// Blob k is the k-th list of bytes.
struct Blobs : trace::BlobStore {
  std::vector<std::vector<std::byte>> bytes;
  Result<std::vector<std::byte>> load(trace::BlobId id) const override { return bytes.at(id); }
};

/// w * c, where c is a constant of one element, and its multiples by two slots; the sum ends w.
Program with_constant(DType constant) {
  Program p;
  p.iterations = 2;
  const View row = View::contiguous({6});
  const auto temporary = [&](OpId producer) { return Value{ValueKind::kTemporary, DType::kF32, 6, "", producer}; };
  p.values = {{ValueKind::kState, DType::kF32, 6, "w", kNone},
              {ValueKind::kConstant, constant, 1, "c", kNone},
              temporary(0),
              temporary(1),
              temporary(2),
              temporary(3)};
  Operand slots[2];
  for (SlotId s : {0u, 1u}) slots[s].scalar.slot = s;
  p.slots = {{"lr of a", {1.0, 2.0}}, {"lr of b", {1.0, 2.0}}};
  p.ops = {{OpKind::kMultiply, {{0, row, {}}, {1, View{0, {6}, {0}}, {}}}, {{2, row, {}}}, {}, kNone},
           {OpKind::kMultiply, {{2, row, {}}, slots[0]}, {{3, row, {}}}, {}, kNone},
           {OpKind::kMultiply, {{2, row, {}}, slots[1]}, {{4, row, {}}}, {}, kNone},
           {OpKind::kAdd, {{3, row, {}}, {4, row, {}}}, {{5, row, {}}}, {}, kNone}};
  p.states = {{0, 5, 0, 0}};
  p.constants = {{1, 0}};
  return p;
}

TEST(Passes, AConstantOfOneElementBecomesANumber) {
  Program p = with_constant(DType::kF32);
  Blobs blobs;
  const float quarter = 0.25F;
  blobs.bytes = {{std::as_bytes(std::span(&quarter, 1)).begin(), std::as_bytes(std::span(&quarter, 1)).end()}};
  ASSERT_TRUE(inline_constants(p, blobs));
  ASSERT_TRUE(verify(p)) << verify(p).error().message;
  ASSERT_TRUE(p.ops[0].inputs[1].is_scalar());
  EXPECT_EQ(p.ops[0].inputs[1].scalar.real, 0.25);
  eliminate_dead(p);
  EXPECT_TRUE(p.constants.empty());
}

TEST(Passes, AConstantOfAnotherCategoryStaysATensor) {
  Program p = with_constant(DType::kI64);
  Blobs blobs;
  const std::int64_t three = 3;
  blobs.bytes = {{std::as_bytes(std::span(&three, 1)).begin(), std::as_bytes(std::span(&three, 1)).end()}};
  ASSERT_TRUE(inline_constants(p, blobs));
  EXPECT_FALSE(p.ops[0].inputs[1].is_scalar());
}

TEST(Passes, WholeNumbersInFloatingOpsAreFloating) {
  Program p = with_constant(DType::kF32);
  p.ops[0].inputs[1] = {kNone, {}, Scalar{kNone, true, 0, 3}};
  p.ops[1].inputs[1] = {kNone, {}, Scalar{kNone, true, 0, (std::int64_t{1} << 53) + 1}};
  number_kinds(p);
  EXPECT_EQ(p.ops[0].inputs[1].scalar, (Scalar{kNone, false, 3.0, 0}));
  EXPECT_TRUE(p.ops[1].inputs[1].scalar.is_integer) << "no double holds it";
}

TEST(Passes, SlotsThatAlwaysAgreeBecomeOne) {
  Program p = with_constant(DType::kF32);
  Program apart = p;
  apart.slots[1].values = {1.0, 3.0};
  Program signs = p;  // -0 is another number than 0
  signs.slots[0].values = {0.0, 1.0};
  signs.slots[1].values = {-0.0, 1.0};
  Program once = p;
  once.iterations = 1;
  for (Slot& slot : once.slots) slot.values = {1.0};
  for (Program* each : {&p, &apart, &signs, &once}) {
    merge_slots(*each);
    merge_equal(*each);
    eliminate_dead(*each);
    ASSERT_TRUE(verify(*each));
  }
  EXPECT_EQ(p.ops.size(), 3u);
  EXPECT_EQ(p.slots.size(), 1u);
  EXPECT_EQ(apart.ops.size(), 4u);
  EXPECT_EQ(signs.ops.size(), 4u);
  EXPECT_EQ(once.ops.size(), 4u) << "one recorded number says nothing about the next";
}

TEST(Passes, IdentitiesGoAndOthersStay) {
  const auto left = [](OpKind kind, double by) {
    Program p = with_constant(DType::kF32);
    p.ops[0].kind = kind;
    p.ops[0].inputs[1] = number(by);
    drop_identities(p);
    eliminate_dead(p);
    EXPECT_TRUE(verify(p));
    return p.ops.size();
  };
  EXPECT_EQ(left(OpKind::kMultiply, 1), 3u);
  EXPECT_EQ(left(OpKind::kDivide, 1), 3u);
  EXPECT_EQ(left(OpKind::kSubtract, 0.0), 3u);
  EXPECT_EQ(left(OpKind::kSubtract, -0.0), 4u) << "-0 - -0 is +0";
  EXPECT_EQ(left(OpKind::kAdd, 0.0), 4u) << "-0 + 0 is +0";
  EXPECT_EQ(left(OpKind::kMultiply, 0.0), 4u) << "NaN * 0 is NaN";
}

TEST(Passes, AnUpdateKeepsItsBaseWhole) {
  Program p;  // x[1:2] * 1, of which one element is written: the product may not become the part of x
  p.iterations = 1;
  const View one = View::contiguous({1}), part{1, {1}, {1}};
  p.values = {{ValueKind::kInput, DType::kF32, 3, "x", kNone},
              {ValueKind::kTemporary, DType::kF32, 1, "", 0},
              {ValueKind::kTemporary, DType::kF32, 1, "", 1},
              {ValueKind::kInput, DType::kF32, 1, "y", kNone}};
  p.inputs = {{0, {0}, false}, {3, {0}, false}};
  Attributes region;
  region.region = one;
  p.ops = {{OpKind::kMultiply, {{0, part, {}}, number(1)}, {{1, one, {}}}, {}, kNone},
           {OpKind::kUpdate, {{1, one, {}}, {3, one, {}}}, {{2, one, {}}}, region, kNone}};
  p.outputs = {{"z", {2, one, {}}, {}, {0}}};
  ASSERT_TRUE(verify(p)) << verify(p).error().message;
  drop_identities(p);
  EXPECT_TRUE(verify(p)) << verify(p).error().message;
  EXPECT_EQ(p.ops[1].inputs[0].value, 1u);
}

TEST(Passes, IdentitiesAreFollowedToTheirBeginning) {
  Program p;  // no view of x [3, 3] is the first four of its quotient, but one is the first of these four
  p.iterations = 1;
  p.values = {{ValueKind::kInput, DType::kF32, 12, "x", kNone},
              {ValueKind::kTemporary, DType::kF32, 9, "", 0},
              {ValueKind::kTemporary, DType::kF32, 4, "", 1},
              {ValueKind::kTemporary, DType::kF32, 1, "", 2}};
  p.inputs = {{0, {0}, false}};
  const View rows{0, {3, 3}, {4, 1}}, four = View::contiguous({4}), one = View::contiguous({1});
  p.ops = {{OpKind::kDivide, {{0, rows, {}}, number(1)}, {{1, View::contiguous({3, 3}), {}}}, {}, kNone},
           {OpKind::kCopy, {{1, four, {}}}, {{2, four, {}}}, {}, kNone},
           {OpKind::kNegate, {{2, one, {}}}, {{3, one, {}}}, {}, kNone}};
  p.outputs = {{"z", {3, one, {}}, {}, {0}}};
  ASSERT_TRUE(verify(p)) << verify(p).error().message;
  drop_identities(p);
  EXPECT_TRUE(verify(p)) << verify(p).error().message;
  EXPECT_EQ(p.ops[1].inputs[0].value, 1u);
  EXPECT_EQ(p.ops[2].inputs[0].value, 0u);
}

/// y = copy of a view of x, of which z = y y^T and n = -y are made.
Program copied_for_a_product(std::int64_t elements, const View& copied) {
  Program p;
  p.iterations = 1;
  const View dense = View::contiguous(copied.sizes),
             turned{0, {copied.sizes[1], copied.sizes[0]}, {1, copied.sizes[1]}},
             square = View::contiguous({copied.sizes[0], copied.sizes[0]});
  p.values = {{ValueKind::kInput, DType::kF32, elements, "x", kNone},
              {ValueKind::kTemporary, DType::kF32, dense.elements(), "", 0},
              {ValueKind::kTemporary, DType::kF32, square.elements(), "", 1},
              {ValueKind::kTemporary, DType::kF32, dense.elements(), "", 2}};
  p.inputs = {{0, {0}, false}};
  p.ops = {{OpKind::kCopy, {{0, copied, {}}}, {{1, dense, {}}}, {}, kNone},
           {OpKind::kMatMul, {{1, dense, {}}, {1, turned, {}}}, {{2, square, {}}}, {}, kNone},
           {OpKind::kNegate, {{1, dense, {}}}, {{3, dense, {}}}, {}, kNone}};
  p.outputs = {{"z", {2, square, {}}, {}, {0}}, {"n", {3, dense, {}}, {}, {0}}};
  EXPECT_TRUE(verify(p)) << verify(p).error().message;
  drop_identities(p);
  EXPECT_TRUE(verify(p)) << verify(p).error().message;
  return p;
}

TEST(Passes, AProductReadsThroughACopyOfAnotherLayout) {
  const Program keys = copied_for_a_product(30, View{2, {3, 4}, {10, 1}});  // columns 2 to 5 of a matrix of ten
  EXPECT_EQ(keys.ops[1].inputs[0].value, 0u);
  EXPECT_EQ(keys.ops[1].inputs[0].view, (View{2, {3, 4}, {10, 1}}));
  EXPECT_EQ(keys.ops[1].inputs[1].value, 0u);
  EXPECT_EQ(keys.ops[1].inputs[1].view, (View{2, {4, 3}, {1, 10}}));
  EXPECT_EQ(keys.ops[2].inputs[0].value, 1u) << "other ops read side by side";
  EXPECT_EQ(copied_for_a_product(300, View{2, {3, 4}, {10, 1}}).ops[1].inputs[0].value, 1u)
      << "x would be kept for a small part of it";
  EXPECT_EQ(copied_for_a_product(30, View{0, {3, 4}, {8, 2}}).ops[1].inputs[0].value, 1u)
      << "neither rows nor columns lie side by side";
}

TEST(Passes, ASecondRunChangesNothing) {
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    RandomOptions options;
    options.seed = seed;
    Program p = random_program(options).program;
    ASSERT_TRUE(run_passes(p));
    const std::string once = to_text(p);
    ASSERT_TRUE(run_passes(p));
    ASSERT_EQ(to_text(p), once) << "seed " << seed;
  }
}

}  // namespace
}  // namespace crucible::graph
