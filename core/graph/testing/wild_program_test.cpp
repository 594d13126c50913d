// Wild programs: valid for every seed, deterministic, of every kind and dtype.
#include "core/graph/testing/wild_program.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "core/graph/op_table.hpp"
#include "core/graph/reference.hpp"

namespace crucible::graph {
namespace {

TEST(WildProgram, ValidAndOfEveryKind) {
  std::set<OpKind> kinds;
  std::set<DType> dtypes;
  std::size_t composites = 0, draws = 0, tensors = 0, numbers = 0, changed = 0, read_only = 0, slots = 0, strided = 0;
  for (std::uint64_t seed = 0; seed < 400; ++seed) {
    const RandomProgram random = wild_program({.seed = seed});
    auto valid = verify(random.program);
    ASSERT_TRUE(valid) << "seed " << seed << ": " << valid.error().message << "\n" << to_text(random.program);
    auto values = run_iteration(random.program, random.values, random.slots);
    ASSERT_TRUE(values) << "seed " << seed << ": " << values.error().message;
    for (const Op& op : random.program.ops) {
      kinds.insert(op.kind);
      composites += op.kind == OpKind::kComposite;
      for (const Operand& input : op.inputs) {
        slots += input.is_scalar() && input.scalar.slot != kNone;
        strided += !input.is_scalar() && !input.view.is_contiguous();
      }
      for (const Operand& output : op.outputs) dtypes.insert(random.program.values[output.value].dtype);
    }
    for (const Input& input : random.program.inputs) draws += input.is_draw;
    for (const State& state : random.program.states) ++(state.end == state.start ? read_only : changed);
    for (const Output& output : random.program.outputs) ++(output.is_tensor() ? tensors : numbers);
  }
  std::string missing;
  for (int kind = 0; kind < kOpKindCount; ++kind) {
    if (!kinds.contains(static_cast<OpKind>(kind))) missing += " " + std::string(name(static_cast<OpKind>(kind)));
  }
  EXPECT_EQ(missing, "") << "kinds that no program has";
  EXPECT_EQ(dtypes.size(), 10u);
  for (const std::size_t count : {composites, draws, tensors, numbers, changed, read_only, slots, strided})
    EXPECT_GT(count, 50u);
}

TEST(WildProgram, SameSeedSameProgram) {
  const RandomProgram a = wild_program({.seed = 5}), b = wild_program({.seed = 5}), c = wild_program({.seed = 6});
  EXPECT_EQ(to_text(a.program), to_text(b.program));
  EXPECT_EQ(a.values, b.values);
  EXPECT_NE(to_text(a.program), to_text(c.program));
}

}  // namespace
}  // namespace crucible::graph
