// Step counters and the bias corrections that hang on them.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "core/graph/passes.hpp"
#include "core/graph/reference.hpp"

namespace crucible::graph {
namespace {

/// Blob k is the k-th list of bytes.
struct Blobs : trace::BlobStore {
  std::vector<Bytes> bytes;
  Result<std::vector<std::byte>> load(trace::BlobId id) const override { return bytes.at(id); }
  void add(float number) {
    bytes.emplace_back(sizeof(number));
    std::memcpy(bytes.back().data(), &number, sizeof(number));
  }
};

Operand number(double real) { return {kNone, {}, {kNone, false, real, 0}}; }
Operand slot(SlotId id) { return {kNone, {}, {id, false, 0, 0}}; }
Operand one(ValueId value) { return {value, View::contiguous({}), {}}; }

constexpr double kRate = 3e-4, kFirst = 0.9, kSecond = 0.999;

/// Two weights with a counter each: w += slot 0 * (w * 0.1) / slot 1, where slot 0 is -rate / (1 - 0.9^t) and slot 1
/// the root of 1 - 0.999^t; 0.999 is a number of the program beside the 0.1.
struct Training {
  Program program;
  Blobs blobs;
  explicit Training(float first_count = 0, float second_count = 0) {
    program.iterations = 4;
    for (const float x : {first_count, second_count, 1.5F, -2.5F}) blobs.add(x);
    const auto state = [&](const char* name) {
      program.values.push_back({ValueKind::kState, DType::kF32, 1, name, kNone});
      return static_cast<ValueId>(program.values.size() - 1);
    };
    const auto op = [&](OpKind kind, Operand a, Operand b) {
      const auto result = static_cast<ValueId>(program.values.size());
      program.values.push_back({ValueKind::kTemporary, DType::kF32, 1, "", static_cast<OpId>(program.ops.size())});
      program.ops.push_back({kind, {a, b}, {one(result)}, {}, kNone});
      return result;
    };
    program.slots = {{"step size", {}}, {"root", {}}};
    for (int i = 1; i <= 4; ++i) {
      program.slots[0].values.push_back(-(kRate / (1 - std::pow(kFirst, first_count + static_cast<float>(i)))));
      program.slots[1].values.push_back(std::pow(1 - std::pow(kSecond, first_count + static_cast<float>(i)), 0.5));
    }
    for (std::uint32_t k = 0; k < 2; ++k) {
      const ValueId count = state("step"), weight = state("w");
      const ValueId counted = op(OpKind::kAdd, one(count), number(1));
      const ValueId moment = op(OpKind::kMultiply, one(weight), number(1 - kFirst));
      const ValueId square = op(OpKind::kMultiply, one(moment), number(kSecond));
      const ValueId divisor = op(OpKind::kDivide, one(square), slot(1));
      const ValueId scaled = op(OpKind::kMultiply, one(divisor), slot(0));
      const ValueId end = op(OpKind::kAdd, one(weight), one(scaled));
      program.states.push_back({count, counted, k, kNone});
      program.states.push_back({weight, end, 2 + k, kNone});
    }
  }

  std::vector<Bytes> states_after(std::uint32_t iterations) const {
    auto replay = replay_reference(program, blobs, iterations);
    EXPECT_TRUE(replay) << replay.error().message;
    return replay->states;
  }
  void run() {
    const PassContext context{&blobs};
    auto done = run_passes(program, context);
    ASSERT_TRUE(done) << done.error().message;
  }
};

TEST(Counters, CorrectionsAreComputedFromThem) {
  Training training;
  const auto before = training.states_after(4);
  training.run();
  EXPECT_TRUE(training.program.slots.empty()) << to_text(training.program);
  EXPECT_EQ(training.states_after(4), before) << "to the bit";
}

TEST(Counters, CorrectionsGoOnAfterTheRecordedIterations) {
  Training recorded, longer;
  recorded.run();
  ASSERT_TRUE(recorded.program.slots.empty());
  recorded.program.iterations = 9;
  longer.program.iterations = 9;
  for (int i = 5; i <= 9; ++i) {
    longer.program.slots[0].values.push_back(-(kRate / (1 - std::pow(kFirst, i))));
    longer.program.slots[1].values.push_back(std::pow(1 - std::pow(kSecond, i), 0.5));
  }
  EXPECT_EQ(recorded.states_after(9), longer.states_after(9));
}

TEST(Counters, ThoseThatAlwaysAgreeAreReadAsOne) {
  Training training;
  training.run();
  std::size_t powers = 0;
  for (const Op& op : training.program.ops) powers += op.kind == OpKind::kPower;
  EXPECT_EQ(powers, 2u) << "one for each base, not for each weight";
  EXPECT_EQ(training.program.states.size(), 4u) << "each goes on counting";
}

TEST(Counters, ThoseThatStartApartStayApart) {
  // The second weight's counter is ahead, but its slots are the first one's: what the recording says counts.
  Training training(3, 5);
  const auto before = training.states_after(4);
  training.run();
  EXPECT_TRUE(training.program.slots.empty());
  EXPECT_EQ(training.states_after(4), before);
}

TEST(Counters, ReadersAreMergedWhereTheyAlwaysAgreeOnly) {
  for (const float second : {3.0F, 5.0F}) {
    Training training(3, second);
    Program& program = training.program;
    // The second weight's counter, before and after its step, is read.
    const ValueId before = program.states[2].start, after = program.states[2].end;
    const auto sum = static_cast<ValueId>(program.values.size());
    program.values.push_back({ValueKind::kTemporary, DType::kF32, 1, "", static_cast<OpId>(program.ops.size())});
    program.ops.push_back({OpKind::kAdd, {one(before), one(after)}, {one(sum)}, {}, kNone});
    program.outputs = {{"sum", one(sum), {7, 9, 11, 13}, {}}};
    ASSERT_TRUE(verify(program)) << verify(program).error().message;
    ASSERT_TRUE(merge_counters(program, training.blobs));
    ASSERT_TRUE(verify(program));
    const bool is_merged = program.ops.back().inputs[0].value == program.states[0].start &&
                           program.ops.back().inputs[1].value == program.states[0].end;
    EXPECT_EQ(is_merged, second == 3.0F);
    const auto replay = replay_reference(program, training.blobs, 2);
    ASSERT_TRUE(replay) << replay.error().message;
    EXPECT_EQ(replay->outputs[1][0], second == 3.0F ? 9 : 13);
  }
}

TEST(Counters, OtherNumbersStaySlots) {
  Training training;
  training.program.slots[0].values[2] = training.program.slots[0].values[2].real() * (1 + 1e-12);
  training.program.slots[1].values = {0.5, 0.25, 0.125, 0.0625};
  training.run();
  EXPECT_EQ(training.program.slots.size(), 2u) << to_text(training.program);
}

TEST(Counters, ABaseThatTheProgramDoesNotHaveIsNotGuessed) {
  Training training;
  for (int i = 0; i < 4; ++i)
    training.program.slots[0].values[static_cast<std::size_t>(i)] = kRate / (1 - std::pow(0.8, i + 1));
  training.run();
  EXPECT_EQ(training.program.slots.size(), 1u) << to_text(training.program);
}

/// Adam's own ops on one weight w with moment m and square s, a gradient g and a rate that falls: in f32, with one
/// counter.
struct Scheduled {
  Program program;
  Blobs blobs;
  Scheduled() {
    program.iterations = 4;
    for (const float x : {0.0F, 1.5F, 0.25F, 0.5F, -0.75F}) blobs.add(x);
    const auto outside = [&](ValueKind kind, const char* name) {
      program.values.push_back({kind, DType::kF32, 1, name, kNone});
      return static_cast<ValueId>(program.values.size() - 1);
    };
    const auto op = [&](OpKind kind, std::vector<Operand> inputs) {
      const auto result = static_cast<ValueId>(program.values.size());
      program.values.push_back({ValueKind::kTemporary, DType::kF32, 1, "", static_cast<OpId>(program.ops.size())});
      program.ops.push_back({kind, std::move(inputs), {one(result)}, {}, kNone});
      return result;
    };
    program.slots = {{"step size", {}}, {"root", {}}};
    double rate = kRate;
    for (int i = 1; i <= 4; ++i, rate *= 0.97) {
      program.slots[0].values.push_back(-(rate / (1 - std::pow(kFirst, i))));
      program.slots[1].values.push_back(std::pow(1 - std::pow(kSecond, i), 0.5));
    }
    const ValueId count = outside(ValueKind::kState, "step"), w = outside(ValueKind::kState, "w"),
                  m = outside(ValueKind::kState, "m"), s = outside(ValueKind::kState, "s"),
                  g = outside(ValueKind::kInput, "g");
    program.inputs = {{g, {4, 4, 4, 4}, false}};
    const ValueId counted = op(OpKind::kAdd, {one(count), number(1)});
    const ValueId difference = op(OpKind::kSubtract, {one(g), one(m)});
    const ValueId change = op(OpKind::kMultiply, {one(difference), number(1 - kFirst)});
    const ValueId moment = op(OpKind::kAdd, {one(m), one(change)});
    const ValueId kept = op(OpKind::kMultiply, {one(s), number(kSecond)}),
                  squared = op(OpKind::kMultiply, {one(g), one(g)});
    const ValueId square = op(OpKind::kAdd, {one(kept), one(squared)});
    const ValueId root = op(OpKind::kSqrt, {one(square)}), scaled = op(OpKind::kDivide, {one(root), slot(1)});
    const ValueId divisor = op(OpKind::kAdd, {one(scaled), number(1e-8)});
    const ValueId step = op(OpKind::kMultiply, {one(moment), slot(0)}),
                  quotient = op(OpKind::kDivide, {one(step), one(divisor)});
    const ValueId end = op(OpKind::kAdd, {one(w), one(quotient)});
    program.states = {{count, counted, 0, kNone}, {w, end, 1, kNone}, {m, moment, 2, kNone}, {s, square, 3, kNone}};
  }
};

TEST(Counters, ASchedulesRatesStayNumbers) {
  Scheduled training;
  const auto before = replay_reference(training.program, training.blobs, 4);
  ASSERT_TRUE(before) << before.error().message;
  ASSERT_TRUE(run_passes(training.program, {&training.blobs}));
  ASSERT_EQ(training.program.slots.size(), 1u) << to_text(training.program);
  double rate = kRate;
  for (const Number& number : training.program.slots[0].values) {
    const double found = number.real();
    EXPECT_NEAR(found, -rate, 1e-18);
    rate *= 0.97;
  }
  const auto after = replay_reference(training.program, training.blobs, 4);
  ASSERT_TRUE(after);
  EXPECT_EQ(before->states, after->states) << "to the bit";
}

TEST(Counters, AStepSizeAtAnotherPlaceStaysANumber) {
  Scheduled training;  // it also multiplies the gradient
  Program& program = training.program;
  const auto result = static_cast<ValueId>(program.values.size());
  program.values.push_back({ValueKind::kTemporary, DType::kF32, 1, "", static_cast<OpId>(program.ops.size())});
  program.ops.push_back({OpKind::kMultiply, {one(4), slot(0)}, {one(result)}, {}, kNone});
  program.outputs = {{"watched", one(result), {}, {4, 4, 4, 4}}};
  ASSERT_TRUE(run_passes(program, {&training.blobs}));
  ASSERT_EQ(program.slots.size(), 1u);
  EXPECT_EQ(program.slots[0].name, "step size");
}

TEST(Counters, OneIterationSaysNothing) {
  Training training;
  training.program.iterations = 1;
  for (Slot& each : training.program.slots) each.values.resize(1);
  training.run();
  EXPECT_EQ(training.program.slots.size(), 2u);
}

TEST(Counters, ReadersInHalfPrecisionKeepTheirNumber) {
  Training training;  // a number there is rounded once, to f32; a tensor would be rounded to bf16 first
  Program& program = training.program;
  for (Value& value : program.values)
    value.dtype = value.name == "step" || value.producer == 0 || value.producer == 6 ? DType::kF32 : DType::kBF16;
  training.blobs.bytes[2].resize(2);
  training.blobs.bytes[3].resize(2);
  ASSERT_TRUE(verify(program)) << verify(program).error().message;
  ASSERT_TRUE(follow_counters(program, training.blobs));
  ASSERT_TRUE(verify(program));
  EXPECT_EQ(program.slots.size(), 2u);
  EXPECT_TRUE(program.ops[3].inputs[1].is_scalar());
}

TEST(Counters, ASecondRunChangesNothing) {
  Training training;
  training.run();
  const std::string once = to_text(training.program);
  training.run();
  EXPECT_EQ(to_text(training.program), once);
}

}  // namespace
}  // namespace crucible::graph
