// What values are by name stays true through every pass, and goes with the values.
#include "core/graph/meaning.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "core/graph/outline.hpp"
#include "core/graph/parse.hpp"
#include "core/graph/passes.hpp"
#include "core/graph/program_hash.hpp"
#include "core/graph/random_program.hpp"
#include "core/graph/reference.hpp"
#include "core/graph/view.hpp"

namespace crucible::graph {
namespace {

using ::testing::HasSubstr;

/// y = x + x, by name the attention of x in another order; a copy of a row of x is nobody's.
constexpr const char* kText = R"(crucible program 2: 2 ops, 3 values, 1 iterations
input %0 "x": f32[6] (blobs [0])
  %1: f32[3, 2] = copy(%0[3, 2]{1, 3})
  %2: f32[3, 2] = add(%1[3, 2], %1[3, 2])
output "y" %2[3, 2] (blobs [0])
meaning "output" %2[3, 2] = attention(scale=0.5, causal=1) of "query" %1[3, 2], "key" %0[2]+1
)";

Program parsed(const std::string& text = kText) {
  auto program = parse_program(text);
  EXPECT_TRUE(program) << program.error().message;
  return program ? *std::move(program) : Program{};
}

TEST(Meaning, IsReadByItsNames) {
  const Program program = parsed();
  EXPECT_EQ(to_text(program), kText);
  ASSERT_EQ(program.meanings.size(), 1u);
  const Meaning& meaning = program.meanings[0];
  EXPECT_EQ(meaning.name, "attention");
  EXPECT_EQ(find_input(meaning, "key")->operand.view.offset, 1);
  EXPECT_EQ(find_output(meaning, "output")->operand.value, 2u);
  EXPECT_EQ(find_input(meaning, "value"), nullptr);
  EXPECT_EQ(find_output(meaning, "log_sum"), nullptr);
  EXPECT_EQ(number_of(meaning, "scale", 1), 0.5);
  EXPECT_EQ(number_of(meaning, "causal", 0), 1);
  EXPECT_EQ(number_of(meaning, "shift", 7), 7);
  EXPECT_EQ(find_attribute(meaning, "left"), nullptr);
}

TEST(Meaning, EveryRuleRefuses) {
  const std::pair<const char*, std::function<void(Meaning&)>> entries[] = {
      {"meaning 0: 'Attention' cannot be its name", [](Meaning& m) { m.name = "Attention"; }},
      {"meaning 0: 'add' cannot be its name", [](Meaning& m) { m.name = "add"; }},
      {"meaning 0 (attention): two attributes are called scale", [](Meaning& m) { m.attributes[1].name = "scale"; }},
      {"meaning 0 (attention): has no results", [](Meaning& m) { m.outputs.clear(); }},
      {"meaning 0 (attention): query is %3; there are 3 values", [](Meaning& m) { m.inputs[0].operand.value = 3; }},
      {"meaning 0 (attention): key is no view of %0", [](Meaning& m) { m.inputs[1].operand.view.offset = 5; }},
      {"meaning 0 (attention): output is no view of %2", [](Meaning& m) { m.outputs[0].operand.scalar.real = 1; }},
  };
  for (const auto& [rule, change] : entries) {
    Program program = parsed();
    change(program.meanings[0]);
    const auto valid = verify(program);
    ASSERT_FALSE(valid) << rule;
    EXPECT_THAT(valid.error().message, HasSubstr(rule));
  }
}

TEST(Meaning, IsNoPartOfTheHash) {
  Program program = parsed();
  const ContentHash with = program_hash(program, {});
  program.meanings.clear();
  EXPECT_EQ(program_hash(program, {}), with);
}

TEST(Meaning, OfWhatGoesItNamesWhatThatWasACopyOf) {
  Program program = parsed();
  leave_meanings_to(program, {true, false, true});
  ASSERT_EQ(program.meanings.size(), 1u);
  EXPECT_EQ(find_input(program.meanings[0], "query")->operand.value, 0u);
  EXPECT_EQ(find_input(program.meanings[0], "query")->operand.view, (View{0, {3, 2}, {1, 3}}));
  Program without_operand = parsed(), without_result = parsed();
  leave_meanings_to(without_operand, {false, true, true});
  EXPECT_TRUE(without_operand.meanings.empty());
  leave_meanings_to(without_result, {true, true, false});
  EXPECT_TRUE(without_result.meanings.empty());
}

/// Two equal sums and two equal fills, of which the second ones are meant.
TEST(Meaning, FollowsWhatIsMerged) {
  Program program = parsed(R"(crucible program 2: 6 ops, 7 values, 1 iterations
input %0 "x": f32[6] (blobs [0])
  %1: f32[6] = fill(2.0)
  %2: f32[6] = fill(2.0)
  %3: f32[6] = multiply(%0[6], %1[6])
  %4: f32[6] = multiply(%0[6], %2[6])
  %5: f32[6] = exp(%3[6])
  %6: f32[6] = add(%4[6], %5[6])
output "y" %6[6] (blobs [0])
meaning "output" %6[6] = attention() of "query" %4[6], "key" %2[6]
)");
  ASSERT_TRUE(run_passes(program));
  EXPECT_EQ(program.ops.size(), 4u);
  ASSERT_EQ(program.meanings.size(), 1u);
  EXPECT_EQ(find_input(program.meanings[0], "query")->operand.value, program.ops[2].inputs[0].value);
  EXPECT_EQ(find_input(program.meanings[0], "key")->operand.value, program.ops[0].outputs[0].value);
}

TEST(Meaning, StaysOfThoseCompositesThatSchedulingAsksFor) {
  for (const char* name : {"attention", "attention_backward", "softmax"}) {
    Program program = parsed();
    program.meanings.clear();
    ASSERT_EQ(
        outline(program,
                {{1, 2, name, {}, {{"query", program.ops[1].inputs[0]}}, {{"output", program.ops[1].outputs[0]}}}}),
        1u);
    ASSERT_TRUE(run_passes(program));
    EXPECT_EQ(program.meanings.size(), is_scheduled_by_name(name) ? 1u : 0u);
    if (!program.meanings.empty()) {
      EXPECT_EQ(program.meanings[0].name, name);
      EXPECT_EQ(find_input(program.meanings[0], "query")->operand.value, program.ops[0].outputs[0].value);
      EXPECT_EQ(find_output(program.meanings[0], "output")->operand.value, program.outputs[0].operand.value);
    }
  }
}

Bytes elements_of(const Program& program, const Operand& operand, const std::vector<Bytes>& values) {
  const std::size_t size = size_bytes(program.values[operand.value].dtype);
  Bytes bytes;
  for (const std::int64_t index : indices(operand.view)) {
    const auto at = values[operand.value].begin() + index * static_cast<std::int64_t>(size);
    bytes.insert(bytes.end(), at, at + static_cast<std::ptrdiff_t>(size));
  }
  return bytes;
}

/// Every op's operands and results are meant by number: what is left of these after all passes has the elements that
/// it had.
TEST(Meaning, StaysTrueThroughAllPasses) {
  std::size_t kept = 0, moved = 0;
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    const RandomProgram random = random_program({.seed = seed, .ops = 40, .generators = seed % 2 == 0});
    Program before = random.program;
    for (ValueId v = 0; v < before.values.size(); ++v) before.values[v].name = std::to_string(v);
    for (OpId id = 0; id < before.ops.size(); ++id) {
      Meaning meaning{"attention", {{"op", false, {Scalar{kNone, true, 0, id}}}}, {}, {}};
      for (const Operand& input : before.ops[id].inputs) {
        if (!input.is_scalar()) meaning.inputs.push_back({std::to_string(meaning.inputs.size()), input});
      }
      for (const Operand& output : before.ops[id].outputs)
        meaning.outputs.push_back({std::to_string(meaning.outputs.size()), output});
      before.meanings.push_back(std::move(meaning));
    }
    const auto values = run_iteration(before, random.values, random.slots);
    ASSERT_TRUE(values) << values.error().message;
    Program after = before;
    ASSERT_TRUE(run_passes(after));
    std::vector<Bytes> outside(after.values.size());
    for (ValueId v = 0; v < after.values.size(); ++v) {
      if (after.values[v].kind != ValueKind::kTemporary) outside[v] = random.values[std::stoul(after.values[v].name)];
    }
    std::vector<Number> slots;
    for (const Slot& slot : after.slots) slots.push_back(slot.values[0]);
    const auto result = run_iteration(after, std::move(outside), slots);
    ASSERT_TRUE(result) << result.error().message;
    for (const Meaning& meaning : after.meanings) {
      const Meaning& was = before.meanings[static_cast<std::size_t>(number_of(meaning, "op", -1))];
      ASSERT_EQ(meaning.inputs.size(), was.inputs.size());
      ++kept;
      const auto compare = [&](const Role& role, const Role& old) {
        moved += role.operand.view != old.operand.view;
        EXPECT_EQ(elements_of(after, role.operand, *result), elements_of(before, old.operand, *values))
            << "seed " << seed << ", op " << number_of(meaning, "op", -1) << ", " << role.name << "\n"
            << to_text(before) << to_text(after);
      };
      for (std::size_t i = 0; i < was.inputs.size(); ++i) compare(meaning.inputs[i], was.inputs[i]);
      for (const Role& role : meaning.outputs) compare(role, *find_output(was, role.name));
    }
  }
  EXPECT_GT(kept, 1000u);
  EXPECT_GT(moved, 0u);
}

}  // namespace
}  // namespace crucible::graph
