// The identity of programs: what must not change it, what must, and golden values.
#include "core/graph/program_hash.hpp"

#include <gtest/gtest.h>

#include <algorithm>

#include "core/graph/passes.hpp"
#include "core/graph/random_program.hpp"
#include "core/graph/testing/disguise.hpp"

namespace crucible::graph {
namespace {

std::vector<ContentHash> no_constants() { return {}; }

Program random(std::uint64_t seed, std::uint32_t ops = 40) {
  RandomOptions options;
  options.seed = seed;
  options.ops = ops;
  return random_program(options).program;
}

TEST(ProgramHash, IsThatOfTheComputation) {
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    Program program = random(seed);
    eliminate_dead(program);
    merge_equal(program);  // what is left has no two ops that nothing tells apart
    eliminate_dead(program);
    const Program other = disguised(program, seed + 1);
    EXPECT_EQ(program_hash(program, no_constants()).hex(), program_hash(other, no_constants()).hex())
        << "seed " << seed;
  }
}

TEST(ProgramHash, DiffersBetweenPrograms) {
  std::vector<std::string> hashes;
  for (std::uint64_t seed = 0; seed < 200; ++seed) hashes.push_back(program_hash(random(seed), no_constants()).hex());
  std::ranges::sort(hashes);
  EXPECT_EQ(std::ranges::adjacent_find(hashes), hashes.end());
}

TEST(ProgramHash, CanonicalOrderHasEveryOpOnceBehindItsOperands) {
  const Program program = random(5, 80);
  const auto order = canonical_order(program, no_constants());
  std::vector<bool> placed(program.ops.size(), false);
  for (const OpId id : order) {
    for (const Operand& input : program.ops[id].inputs) {
      if (!input.is_scalar() && program.values[input.value].producer != kNone) {
        EXPECT_TRUE(placed[program.values[input.value].producer]);
      }
    }
    EXPECT_FALSE(placed[id]);
    placed[id] = true;
  }
  EXPECT_EQ(order.size(), program.ops.size());
}

Operand number(double real) {
  Operand operand;
  operand.scalar.real = real;
  return operand;
}

/// w becomes w * 0.5 + sum over the columns of x; the loss is that sum's first element.
Program small() {
  Program p;
  p.iterations = 1;
  const View square = View::contiguous({3, 4}), column = View::contiguous({3, 1}), flat = View::contiguous({3});
  p.values = {{ValueKind::kState, DType::kF32, 3, "w", kNone}, {ValueKind::kInput, DType::kF32, 12, "x", kNone},
              {ValueKind::kTemporary, DType::kF32, 3, "", 0},  {ValueKind::kTemporary, DType::kF32, 3, "", 1},
              {ValueKind::kTemporary, DType::kF32, 3, "", 2},  {ValueKind::kConstant, DType::kF32, 3, "c", kNone}};
  Attributes columns;
  columns.dims = {1};
  p.ops = {{OpKind::kReduceSum, {{1, square, {}}}, {{2, column, {}}}, columns, kNone},
           {OpKind::kMultiply, {{0, flat, {}}, number(0.5)}, {{3, flat, {}}}, {}, kNone},
           {OpKind::kAdd, {{3, flat, {}}, {2, flat, {}}}, {{4, flat, {}}}, {}, kNone}};
  p.states = {{0, 4, 0, 0}};
  p.inputs = {{1, {0}, false}};
  p.constants = {{5, 0}};
  p.outputs = {{"loss", {2, View{0, {}, {}}, {}}, {1.0}}};
  return p;
}

TEST(ProgramHash, EveryFieldOfTheComputationCounts) {
  const Program program = small();
  ASSERT_TRUE(verify(program)) << verify(program).error().message;
  const std::vector<void (*)(Program&)> changes = {
      [](Program& p) { p.ops[1].kind = OpKind::kMaximum; },
      [](Program& p) { p.ops[1].inputs[1].scalar.real = 0.25; },
      [](Program& p) { std::swap(p.ops[2].inputs[0], p.ops[2].inputs[1]); },
      [](Program& p) { p.ops[2].inputs[1].view.strides = {0}; },
      [](Program& p) { p.ops[0].attributes.dims = {0}; },
      [](Program& p) { p.values[1].dtype = DType::kF64; },
      [](Program& p) { p.inputs[0].is_draw = true; },
      [](Program& p) { p.states[0].end = 3; },
      [](Program& p) { p.outputs[0].operand.view.offset = 1; },
      [](Program& p) { p.outputs.clear(); },
      [](Program& p) {
        p.ops[1].inputs[1].scalar.slot = 0;
        p.slots = {{"lr", {1.0}}};
      },
  };
  std::vector<std::string> hashes = {program_hash(program, no_constants()).hex()};
  for (const auto change : changes) {
    Program changed = program;
    change(changed);
    hashes.push_back(program_hash(changed, no_constants()).hex());
  }
  std::ranges::sort(hashes);
  EXPECT_EQ(std::ranges::adjacent_find(hashes), hashes.end());
}

TEST(ProgramHash, TheContentOfAConstantCounts) {
  Program program = small();
  program.ops[1].inputs[0].value = 5;
  const std::vector<ContentHash> zeros(1), ones = {sha256(std::as_bytes(std::span("1")))};
  EXPECT_NE(program_hash(program, zeros), program_hash(program, ones));
  Program elsewhere = program;
  elsewhere.constants[0].blob = 1;
  EXPECT_EQ(program_hash(elsewhere, std::vector<ContentHash>{ones[0], zeros[0]}), program_hash(program, zeros));
}

// A change of these means that every stored hash has lost its meaning: give the format line in program_hash.cpp a new
// number.
TEST(ProgramHash, GoldenValues) {
  EXPECT_EQ(program_hash(small(), no_constants()).hex(),
            "6d9cfa816fb2c1107da89f30b1815434facc5ac76faeffa127713d0fb1d8bb23");
  EXPECT_EQ(program_hash(Program{}, no_constants()).hex(),
            "9ba0bc319c32f93f5812a27b7ffca352b3b9bb8b62a9e9274fb285c8b1cb3d27");
}

}  // namespace
}  // namespace crucible::graph
