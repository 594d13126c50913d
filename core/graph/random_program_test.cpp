// Random programs: valid for every seed, deterministic, and bounded when the interpreter runs them.
#include "core/graph/random_program.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "core/graph/passes.hpp"
#include "core/graph/reference.hpp"

namespace crucible::graph {
namespace {

TEST(RandomProgram, ValidAndBounded) {
  std::set<OpKind> kinds;
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    RandomOptions options;
    options.seed = seed;
    options.ops = 10 + static_cast<std::uint32_t>(seed % 50);
    const RandomProgram random = random_program(options);
    for (const Op& op : random.program.ops) kinds.insert(op.kind);
    auto valid = verify(random.program);
    ASSERT_TRUE(valid) << "seed " << seed << ": " << valid.error().message;
    auto values = run_iteration(random.program, random.values, random.slots);
    ASSERT_TRUE(values) << "seed " << seed << ": " << values.error().message;
    const double loss = read_output(random.program, random.program.outputs[0], *values);
    EXPECT_TRUE(std::isfinite(loss)) << "seed " << seed;
  }
  EXPECT_GE(kinds.size(), 32u) << "the generator reaches too few kinds";
}

TEST(RandomProgram, SameSeedSameProgram) {
  const RandomProgram a = random_program({.seed = 5}), b = random_program({.seed = 5}), c = random_program({.seed = 6});
  EXPECT_EQ(to_text(a.program), to_text(b.program));
  EXPECT_EQ(a.values, b.values);
  EXPECT_NE(to_text(a.program), to_text(c.program));
}

TEST(RandomProgram, PassesKeepItsMeaning) {
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    const RandomProgram random = random_program({.seed = seed, .ops = 40});
    auto values = run_iteration(random.program, random.values, random.slots);
    ASSERT_TRUE(values);
    // Passes renumber values, so the buffers from outside are found again by their place in the lists.
    Program after = random.program;
    for (ValueId v = 0; v < after.values.size(); ++v) after.values[v].name = std::to_string(v);
    auto passed = run_passes(after);
    ASSERT_TRUE(passed) << passed.error().message;
    EXPECT_LE(after.ops.size(), random.program.ops.size());
    std::vector<Bytes> inputs(after.values.size());
    for (ValueId v = 0; v < after.values.size(); ++v) {
      if (after.values[v].kind != ValueKind::kTemporary) inputs[v] = random.values[std::stoul(after.values[v].name)];
    }
    std::vector<Number> slots;
    for (const Slot& slot : after.slots) slots.push_back(slot.values[0]);
    auto result = run_iteration(after, inputs, slots);
    ASSERT_TRUE(result) << result.error().message;
    EXPECT_EQ(read_output(after, after.outputs[0], *result),
              read_output(random.program, random.program.outputs[0], *values));
    for (std::size_t s = 0; s < after.states.size(); ++s) {
      EXPECT_EQ((*result)[after.states[s].end], (*values)[random.program.states[s].end]);
    }
  }
}

}  // namespace
}  // namespace crucible::graph
