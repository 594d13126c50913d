// Slots have a type and keep all of its digits: in the reference interpreter, after all passes, in both forms, and what
// verify() refuses.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "core/graph/awkward_program.hpp"
#include "core/graph/binary.hpp"
#include "core/graph/parse.hpp"
#include "core/graph/passes.hpp"
#include "core/graph/reference.hpp"
#include "core/graph/view.hpp"
#include "core/graph/whole_slot_program.hpp"

namespace crucible::graph {
namespace {

using testing::HasSubstr;

TEST(WholeSlots, TheReferenceKeepsEveryDigit) {
  const WholeSlotProgram made = whole_slot_program();
  ASSERT_TRUE(verify(made.program)) << verify(made.program).error().message;
  for (std::size_t i = 0; i < kWholeNumbers.size(); ++i) {
    const auto values = run_iteration(made.program, made.values, made.slots[i]);
    ASSERT_TRUE(values) << values.error().message;
    EXPECT_EQ(difference(made, i, made.program, *values), "");
  }
}

TEST(WholeSlots, PassesKeepEveryDigit) {
  const WholeSlotProgram made = whole_slot_program();
  Program after = made.program;
  for (ValueId v = 0; v < after.values.size(); ++v) after.values[v].name = std::to_string(v);
  const auto passed = run_passes(after);
  ASSERT_TRUE(passed) << passed.error().message;
  std::vector<Bytes> inputs(after.values.size());
  for (const Input& input : after.inputs) inputs[input.value] = made.values[std::stoul(after.values[input.value].name)];
  for (std::size_t i = 0; i < kWholeNumbers.size(); ++i) {
    std::vector<Number> slots;
    for (const Slot& slot : after.slots) slots.push_back(slot.values[i]);
    const auto values = run_iteration(after, inputs, slots);
    ASSERT_TRUE(values) << values.error().message;
    EXPECT_EQ(difference(made, i, after, *values), "");
  }
}

TEST(WholeSlots, BothFormsKeepEveryDigit) {
  const WholeSlotProgram made = whole_slot_program();
  const auto parsed = parse_program(to_text(made.program));
  ASSERT_TRUE(parsed) << parsed.error().message;
  EXPECT_EQ(difference(made.program, *parsed), "");
  const auto read = from_binary(to_binary(made.program));
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(difference(made.program, *read), "");
  EXPECT_EQ(read->slots[1].values, made.program.slots[1].values);
  EXPECT_THAT(to_text(made.program), HasSubstr("slot 1i \"time stamp\": [9007199254740993, 4611686018427387907, "
                                               "-9223372036854775808, 9223372036854775807, -3, "));
}

TEST(WholeSlots, OtherTypesAreRefused) {
  struct Case {
    std::function<void(Program&)> change;
    const char* message;
  };
  const auto reader_of = [](Program& program, SlotId slot) -> Scalar& {
    for (Op& op : program.ops) {
      for (Operand& input : op.inputs) {
        if (input.is_scalar() && input.scalar.slot == slot) return input.scalar;
      }
    }
    return program.ops[0].inputs[0].scalar;
  };
  const Case cases[] = {
      {[&](Program& p) { reader_of(p, 1).is_integer = false; },
       "slot 1 holds whole numbers, the operand reads it as a real one"},
      {[&](Program& p) { reader_of(p, 0).is_integer = true; },
       "slot 0 holds real numbers, the operand reads it as a whole one"},
      {[](Program& p) { p.slots[1].values[2] = 2.0; },
       "slot 1 (time stamp): is of whole numbers, one of its values is real"},
      {[](Program& p) { p.slots[0].values[0] = std::int64_t{2}; },
       "slot 0 (rate): is of real numbers, one of its values is whole"},
  };
  for (const Case& each : cases) {
    Program program = whole_slot_program().program;
    each.change(program);
    const auto verified = verify(program);
    ASSERT_FALSE(verified) << each.message;
    EXPECT_THAT(verified.error().message, HasSubstr(each.message));
  }
}

/// The slot of which all numbers fit a double, and all readers compute in real numbers, is one of real numbers; others
/// stay.
TEST(WholeSlots, SmallOnesOfRealOpsBecomeReal) {
  Program program;
  program.iterations = 2;
  program.slots = {{"steps", {std::int64_t{1}, std::int64_t{2}}, true},
                   {"time stamp", {std::int64_t{1}, (std::int64_t{1} << 53) + 1}, true},
                   {"both", {std::int64_t{1}, std::int64_t{2}}, true}};
  const auto fill = [&](SlotId slot, DType dtype) {
    Value value;
    value.dtype = dtype;
    value.elements = 3;
    value.producer = static_cast<OpId>(program.ops.size());
    program.values.push_back(value);
    Op op;
    op.kind = OpKind::kFill;
    Operand number;
    number.scalar = {.slot = slot, .is_integer = true};
    op.inputs = {number};
    op.outputs = {{static_cast<ValueId>(program.values.size() - 1), View::contiguous({3}), {}}};
    program.ops.push_back(op);
  };
  fill(0, DType::kF32);
  fill(1, DType::kF32);
  fill(2, DType::kF32);
  fill(2, DType::kI64);
  number_kinds(program);
  EXPECT_FALSE(program.slots[0].is_integer);
  EXPECT_EQ(program.slots[0].values, (std::vector<Number>{1.0, 2.0}));
  EXPECT_TRUE(program.slots[1].is_integer);
  EXPECT_TRUE(program.slots[2].is_integer);
  EXPECT_TRUE(verify(program)) << verify(program).error().message;
}

}  // namespace
}  // namespace crucible::graph
