// Lowering of hand-made traces: aliases, states, inputs, slots and the refusals. What ops mean is tested against the
// framework in tests/aten.
#include "frontends/aten/lower.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <limits>

#include "core/base/progress.hpp"
#include "core/graph/bitcast.hpp"
#include "frontends/aten/lower_table.hpp"
#include "frontends/aten/testing/lowered_trace.hpp"

namespace crucible::aten {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using B = TraceBuilder;

int count(const graph::Program& program, graph::OpKind kind) {
  int n = 0;
  for (const auto& op : program.ops) n += op.kind == kind;
  return n;
}

TEST(Aliases, InPlaceOnTheWholeStorageIsANewValue) {
  TraceBuilder b;
  const auto w = b.fresh({2, 2});
  const auto x = b.fresh({2, 2});
  for (int i = 0; i < 2; ++i) {
    b.external(b.storage_of(x), {1, 2, 3, static_cast<float>(i)}, trace::Role::kInput, "x");
    if (i == 0) b.external(b.storage_of(w), {10, 20, 30, 40}, trace::Role::kParameter, "w");
    b.op(kAddInPlace, {B::tensor(w), B::tensor(x), B::integer(1)}, {B::tensor(w)});
    b.end_iteration();
  }
  const auto program = lowered(b);
  EXPECT_EQ(count(program, graph::OpKind::kUpdate), 0);
  ASSERT_EQ(program.states.size(), 1u);
  ASSERT_EQ(program.inputs.size(), 1u);
  EXPECT_EQ(program.values[program.states[0].start].name, "w");
  EXPECT_THAT(final_state(b, program), ElementsAre(12, 24, 36, 41));
}

TEST(Aliases, InPlaceThroughATransposedViewStillCoversTheStorage) {
  TraceBuilder b;
  const auto w = b.fresh({2, 3});
  const auto wt = b.view(b.storage_of(w), {3, 2}, {1, 3});
  const auto y = b.fresh({3, 2});
  b.external(b.storage_of(w), {1, 2, 3, 4, 5, 6}, trace::Role::kParameter, "w");
  b.external(b.storage_of(y), {10, 20, 30, 40, 50, 60}, trace::Role::kInput, "y");
  b.op(kTranspose, {B::tensor(w)}, {B::tensor(wt)});
  b.op(kAddInPlace, {B::tensor(wt), B::tensor(y), B::integer(1)}, {B::tensor(wt)});
  b.end_iteration();
  const auto program = lowered(b);
  EXPECT_EQ(count(program, graph::OpKind::kUpdate), 0);
  EXPECT_EQ(program.ops.size(), 1u) << graph::to_text(program);
  EXPECT_THAT(final_state(b, program), ElementsAre(11, 32, 53, 24, 45, 66));
}

TEST(Aliases, InPlaceOnAPartIsAnUpdate) {
  TraceBuilder b;
  const auto w = b.fresh({2, 3});
  const auto row = b.view(b.storage_of(w), {3}, {1}, 3);
  const auto column = b.view(b.storage_of(w), {2}, {3}, 1);
  b.external(b.storage_of(w), {1, 2, 3, 4, 5, 6}, trace::Role::kParameter, "w");
  b.op(kMulInPlace, {B::tensor(row), B::number(10)}, {B::tensor(row)});
  b.op(kAddInPlace, {B::tensor(column), B::tensor(column), B::number(1)}, {B::tensor(column)});
  b.end_iteration();
  const auto program = lowered(b);
  EXPECT_EQ(count(program, graph::OpKind::kUpdate), 2);
  EXPECT_THAT(final_state(b, program), ElementsAre(1, 4, 3, 40, 100, 60));
}

TEST(Aliases, WritesThroughAnotherDtypeAreSeen) {
  TraceBuilder b;
  const auto x = b.fresh({3});
  const auto bits = b.view(b.storage_of(x), {1}, {}, 1, DType::kI32);
  const auto half = b.view(b.storage_of(x), {1}, {}, 5, DType::kI16);  // the upper half of the last element
  b.external(b.storage_of(x), {1, 2, 3}, trace::Role::kParameter);
  b.op(kMulInPlace, {B::tensor(x), B::number(2)}, {B::tensor(x)});
  b.op(kAddInPlace, {B::tensor(bits), B::tensor(bits), B::integer(0)}, {B::tensor(bits)});
  b.op(kAddInPlace, {B::tensor(bits), B::integer(1 << 23), B::integer(1)}, {B::tensor(bits)});  // the next power of two
  b.op(kAddInPlace, {B::tensor(half), B::integer(1 << 7), B::integer(1)}, {B::tensor(half)});
  b.op(kMulInPlace, {B::tensor(x), B::number(10)}, {B::tensor(x)});
  b.end_iteration();
  EXPECT_THAT(final_state(b, lowered(b)), ElementsAre(20, 80, 120));
}

TEST(Errors, ADtypeThatRecordingsHaveNoNameForIsRefusedWithWhatItMayBe) {
  TraceBuilder b;
  const auto number = b.fresh({}, DType::kOther);
  b.op(kCopyInPlace, {B::tensor(number), B::tensor(number), B::boolean(false)}, {B::tensor(number)});
  b.end_iteration();
  EXPECT_THAT(refusal(b), HasSubstr("complex numbers of two f16"));
}

TEST(Progress, OfTheLoweringIsTold) {
  TraceBuilder b;
  const auto w = b.fresh({2});
  b.external(b.storage_of(w), {1, 2}, trace::Role::kParameter, "w");
  for (int i = 0; i < 3; ++i) b.op(kMulInPlace, {B::tensor(w), B::number(2)}, {B::tensor(w)});
  b.end_iteration();
  std::vector<std::string> heard;
  const ListenToProgress listen([&](std::string_view pass, std::uint64_t done, std::uint64_t all) {
    if (pass == "lowering") heard.push_back(std::to_string(done) + "/" + std::to_string(all));
  });
  lowered(b);
  EXPECT_THAT(heard, ElementsAre("0/3", "1/3", "2/3"));
}

TEST(Aliases, NanIsNamedWhereItsBitsAreSeenAndArithmeticMadeIt) {
  TraceBuilder b;
  const auto w = b.fresh({3}), x = b.fresh({3});
  const auto bits_of_w = b.view(b.storage_of(w), {3}, {}, 0, DType::kI32),
             bits_of_x = b.view(b.storage_of(x), {6}, {}, 0, DType::kI16);
  for (int i = 0; i < 2; ++i) {
    if (i == 0) b.external(b.storage_of(w), {1, 2, 3}, trace::Role::kParameter, "w");
    b.external(b.storage_of(x), {1, 2, static_cast<float>(i)}, trace::Role::kInput, "x");
    for (const auto floats : {w, x}) b.op(kSum, {B::tensor(floats), B::none()}, {B::tensor(b.fresh({}))});
    b.op(kSum, {B::tensor(bits_of_w), B::none()},
         {B::tensor(b.fresh({}, DType::kI64))});  // which ended as bits of integers
    b.op(kSum, {B::tensor(bits_of_x), B::none()}, {B::tensor(b.fresh({}, DType::kI64))});  // as it came from outside
    b.op(kMulInPlace, {B::tensor(w), B::tensor(x)}, {B::tensor(w)});
    b.op(kAddInPlace, {B::tensor(bits_of_w), B::integer(1), B::integer(1)}, {B::tensor(bits_of_w)});
    b.end_iteration();
  }
  const auto program = lower_without_passes(b.trace());
  ASSERT_TRUE(program) << program.error().message;
  std::string named;
  for (const auto& op : program->ops) {
    if (!graph::is_bitcast(*program, op)) continue;
    const bool is_of_floats = is_floating(program->values[op.inputs[0].value].dtype);
    named += !is_of_floats ? "-" : graph::names_nans(op) ? "1" : "0";
  }
  EXPECT_EQ(named, "001-") << graph::to_text(*program);
}

TEST(Aliases, AViewTakenBeforeAWriteSeesIt) {
  TraceBuilder b;
  const auto w = b.fresh({4});
  const auto head = b.view(b.storage_of(w), {2});
  const auto sum = b.fresh({});
  b.external(b.storage_of(w), {1, 2, 3, 4}, trace::Role::kParameter, "w");
  b.op(
      "aten::slice.Tensor(Tensor(a) self, int dim=0, SymInt? start=None, SymInt? end=None, SymInt step=1) -> Tensor(a)",
      {B::tensor(w), B::integer(0), B::integer(0), B::integer(2), B::integer(1)}, {B::tensor(head)});
  b.op(kMulInPlace, {B::tensor(w), B::number(3)}, {B::tensor(w)});
  b.op(kSum, {B::tensor(head), B::none()}, {B::tensor(sum)});
  b.loss(sum, 9);
  b.end_iteration();
  const auto program = lowered(b);
  auto replay = graph::replay_reference(program, *b.trace().blob_store, 1);
  ASSERT_TRUE(replay);
  EXPECT_EQ(replay->outputs[0][0], 9);
}

TEST(Aliases, TheLossIsReadWhereBackwardBegins) {
  TraceBuilder b;
  const auto w = b.fresh({2});
  const auto loss = b.fresh({});
  b.external(b.storage_of(w), {1, 2}, trace::Role::kParameter, "w");
  b.op(kSum, {B::tensor(w), B::none()}, {B::tensor(loss)});
  b.op(kAddInPlace, {B::tensor(w), B::tensor(loss), B::integer(1)}, {B::tensor(w)}, trace::Phase::kBackward);
  b.op(kMulInPlace, {B::tensor(loss), B::number(100)}, {B::tensor(loss)}, trace::Phase::kBackward);
  b.loss(loss, 3);
  b.end_iteration();
  const auto program = lowered(b);
  auto replay = graph::replay_reference(program, *b.trace().blob_store, 1);
  ASSERT_TRUE(replay);
  EXPECT_EQ(replay->outputs[0][0], 3);
  EXPECT_THAT(floats(replay->states[0]), ElementsAre(4, 5));
}

TEST(Aliases, ACopiedStateDoesNotShareItsEnd) {
  TraceBuilder b;
  const auto w = b.fresh({2}), average = b.fresh({2});
  b.external(b.storage_of(w), {1, 2}, trace::Role::kParameter, "w");
  b.external(b.storage_of(average), {0, 0}, trace::Role::kBuffer, "average");
  b.op(kMulInPlace, {B::tensor(w), B::number(2)}, {B::tensor(w)});
  b.op(kCopyInPlace, {B::tensor(average), B::tensor(w), B::boolean(false)}, {B::tensor(average)});
  b.final_state(b.storage_of(average), {2, 4}, "average");
  b.end_iteration();
  const auto program = lowered(b);
  ASSERT_EQ(program.states.size(), 2u);
  EXPECT_NE(program.states[0].end, program.states[1].end);
  EXPECT_THAT(final_state(b, program, 1), ElementsAre(2, 4));
  EXPECT_NE(program.states[1].final_blob, graph::kNone);
}

TEST(Slots, NumbersThatDifferBecomeSlots) {
  TraceBuilder b;
  const auto w = b.fresh({1}), g = b.fresh({1});
  const double rates[] = {0.5, 0.25, 0.125};
  for (int i = 0; i < 3; ++i) {
    if (i == 0) b.external(b.storage_of(w), {8}, trace::Role::kParameter, "w");
    b.external(b.storage_of(g), {1}, trace::Role::kInput, "g");
    b.op(kMulInPlace, {B::tensor(w), B::tensor(b.python_number(1.0 + i))}, {B::tensor(w)});
    b.op(kAddInPlace, {B::tensor(w), B::tensor(g), B::number(-rates[i])}, {B::tensor(w)});
    b.end_iteration();
  }
  const auto program = lowered(b);
  ASSERT_EQ(program.slots.size(), 2u);
  EXPECT_THAT(program.slots[0].values, ElementsAre(1.0, 2.0, 3.0));
  EXPECT_THAT(program.slots[1].values, ElementsAre(-0.5, -0.25, -0.125));
  EXPECT_THAT(program.slots[1].name, HasSubstr("aten::add_.alpha at train.py:2"));
  EXPECT_THAT(final_state(b, program), ElementsAre(((8 * 1 - 0.5) * 2 - 0.25) * 3 - 0.125));
  EXPECT_EQ(program.constants.size(), 1u) << "g is the same in all iterations";
}

/// A weight that is the integer 1 in the first iteration and real in the others is one slot of real numbers.
TEST(Slots, ANumberMayBeWholeInOneIterationAndRealInAnother) {
  for (const bool real_first : {false, true}) {
    TraceBuilder b;
    const auto w = b.fresh({1});
    for (int i = 0; i < 3; ++i) {
      if (i == 0) b.external(b.storage_of(w), {8}, trace::Role::kParameter, "w");
      const bool is_real = (i == 0) == real_first;
      b.op(kMulInPlace, {B::tensor(w), B::tensor(is_real ? b.python_number(0.5) : b.python_integer(3))},
           {B::tensor(w)});
      b.op(kAddInPlace, {B::tensor(w), B::tensor(w), is_real ? B::number(0.5) : B::integer(1)}, {B::tensor(w)});
      b.end_iteration();
    }
    const auto program = lowered(b);
    ASSERT_EQ(program.slots.size(), 2u);
    const double first = real_first ? 0.5 : 3, other = real_first ? 3 : 0.5;
    EXPECT_THAT(program.slots[0].values, ElementsAre(first, other, other));
    const auto step = [](double x, bool is_real) { return is_real ? x * 0.5 * 1.5 : x * 3 * 2; };
    EXPECT_THAT(final_state(b, program),
                ElementsAre(static_cast<float>(step(step(step(8, real_first), !real_first), !real_first))));
  }
}

constexpr const char* kLess = "aten::lt.Scalar(Tensor self, Scalar other) -> Tensor";

/// Beside whole numbers the number decides in which type is computed, so that these are two ops.
TEST(Slots, ANumberThatDecidesTheTypeOfAnOpMakesAVariant) {
  TraceBuilder b;
  const auto x = b.fresh({2}, DType::kI64), y = b.fresh({2}, DType::kBool);
  const std::int64_t content[] = {1, 2};
  for (int i = 0; i < 2; ++i) {
    b.external_bytes(b.storage_of(x), std::as_bytes(std::span(content)), trace::Role::kInput, "x");
    b.op(kLess, {B::tensor(x), i == 0 ? B::integer(2) : B::number(2.5)}, {B::tensor(y)});
    b.end_iteration();
  }
  EXPECT_THAT(
      difference(b),
      HasSubstr(
          "aten::lt.Scalar: argument other is 2 vs 2.5, a whole number in one iteration and a real one in the other, "
          "so that the op computes in another type"));
}

TEST(Slots, ANumberAndATensorWithoutDimensionsAreNamedApart) {
  TraceBuilder b;
  const auto w = b.fresh({1}), t = b.fresh({}, DType::kF64);
  for (int i = 0; i < 2; ++i) {
    if (i == 0) b.external(b.storage_of(w), {8}, trace::Role::kParameter, "w");
    if (i == 1) b.external_bytes(b.storage_of(t), std::vector<std::byte>(8), trace::Role::kInput, "t");
    b.op(kMulInPlace, {B::tensor(w), B::tensor(i == 0 ? b.python_number(0.5) : t)}, {B::tensor(w)});
    b.end_iteration();
  }
  EXPECT_THAT(difference(b), HasSubstr("argument other: the Python number 0.5 vs a f64 tensor without dimensions"));
}

/// Nanoseconds since 1970, which no double holds: by number and by tensor, and with a product of two numbers that
/// wraps.
TEST(Slots, WholeNumbersKeepEveryDigit) {
  constexpr const char* kAddI64 = "aten::add.Scalar(Tensor self, Scalar other, Scalar alpha=1) -> Tensor";
  for (const bool differs : {true, false}) {
    TraceBuilder b;
    const auto x = b.fresh({3}, DType::kI64), y = b.fresh({3}, DType::kI64);
    const std::int64_t start[] = {0, std::numeric_limits<std::int64_t>::max(),
                                  std::numeric_limits<std::int64_t>::min()};
    std::vector<std::uint64_t> wanted(std::begin(start), std::end(start));
    for (int i = 0; i < 3; ++i) {
      const std::int64_t now = 1'790'000'000'000'000'001 + (differs ? 3 * i : 0),
                         factor = (std::int64_t{1} << 53) + 1 + (differs ? 2 * i : 0);
      if (i == 0) b.external_bytes(b.storage_of(x), std::as_bytes(std::span(start)), trace::Role::kBuffer, "x");
      b.op(kAddI64, {B::tensor(x), B::integer(now), B::integer(factor)}, {B::tensor(y)});
      b.op("aten::add_.Tensor(Tensor(a!) self, Tensor other, *, Scalar alpha=1) -> Tensor(a!)",
           {B::tensor(x), B::tensor(b.python_integer(-now)), B::integer(1)}, {B::tensor(x)});
      b.op(kAddInPlace, {B::tensor(x), B::tensor(y), B::integer(factor)}, {B::tensor(x)});
      b.end_iteration();
      const auto n = static_cast<std::uint64_t>(now), f = static_cast<std::uint64_t>(factor);
      for (std::uint64_t& each : wanted) each = each - n + (each + n * f) * f;
    }
    const auto program = lowered(b);
    for (const graph::Slot& slot : program.slots) EXPECT_TRUE(slot.is_integer) << slot.name;
    EXPECT_EQ(program.slots.size(), differs ? 3u : 0u) << "one slot for each number that differs";
    auto replay = graph::replay_reference(program, *b.trace().blob_store, program.iterations);
    ASSERT_TRUE(replay) << replay.error().message;
    std::vector<std::uint64_t> got(3);
    std::memcpy(got.data(), replay->states[0].data(), 24);
    EXPECT_EQ(got, wanted) << graph::to_text(program);
  }
}

TEST(Slots, EqualNumbersStayNumbers) {
  TraceBuilder b;
  const auto w = b.fresh({1});
  for (int i = 0; i < 2; ++i) {
    if (i == 0) b.external(b.storage_of(w), {8}, trace::Role::kParameter, "w");
    b.op(kMulInPlace, {B::tensor(w), B::tensor(b.python_number(0.5))}, {B::tensor(w)});
    b.end_iteration();
  }
  const auto program = lowered(b);
  EXPECT_TRUE(program.slots.empty());
  EXPECT_TRUE(program.constants.empty());
  EXPECT_THAT(final_state(b, program), ElementsAre(2));
}

TEST(States, ATemporaryReadInTheNextIterationIsCarried) {
  // momentum buffers that are made anew: m' = m * 2 in a new storage, read by the next iteration
  TraceBuilder b;
  auto m = b.fresh({2});
  b.external(b.storage_of(m), {1, 3}, trace::Role::kUnknown, "m");
  for (int i = 0; i < 3; ++i) {
    const auto next = b.fresh({2});
    b.op(kMul, {B::tensor(m), B::number(2)}, {B::tensor(next)});
    b.end_iteration();
    m = next;
  }
  b.final_state(b.storage_of(m), {8, 24}, "m");
  const auto program = lowered(b);
  ASSERT_EQ(program.states.size(), 1u);
  EXPECT_NE(program.states[0].end, program.states[0].start);
  EXPECT_NE(program.states[0].final_blob, graph::kNone);
  EXPECT_THAT(final_state(b, program), ElementsAre(8, 24));
}

TEST(States, WrittenBeforeReadIsVerifiedToo) {
  TraceBuilder b;
  const auto x = b.fresh({2}), out = b.fresh({2});
  for (int i = 0; i < 2; ++i) {
    b.external(b.storage_of(x), {1, static_cast<float>(i)}, trace::Role::kInput, "x");
    if (i == 0) b.external(b.storage_of(out), {7, 7}, trace::Role::kBuffer, "out");
    b.op(kCopyInPlace, {B::tensor(out), B::tensor(x), B::boolean(false)}, {B::tensor(out)});
    b.end_iteration();
  }
  b.final_state(b.storage_of(out), {1, 1}, "out");
  const auto program = lowered(b);
  ASSERT_EQ(program.states.size(), 1u);
  EXPECT_THAT(final_state(b, program), ElementsAre(1, 1));
}

TEST(States, OnlyReadIsAStateThatEndsAsItStarts) {
  TraceBuilder b;
  const auto w = b.fresh({2}), sum = b.fresh({});
  b.external(b.storage_of(w), {1, 2}, trace::Role::kParameter, "w");
  b.op(kSum, {B::tensor(w), B::none()}, {B::tensor(sum)});
  b.loss(sum, 3);
  b.end_iteration();
  const auto program = lowered(b);
  ASSERT_EQ(program.states.size(), 1u);
  EXPECT_EQ(program.states[0].start, program.states[0].end);
}

TEST(Inputs, ANewStoragePerIterationIsOneInput) {
  TraceBuilder b;
  const auto w = b.fresh({2});
  for (int i = 0; i < 2; ++i) {
    const auto x = b.fresh({2});
    if (i == 0) b.external(b.storage_of(w), {0, 0}, trace::Role::kParameter, "w");
    b.external(b.storage_of(x), {1, static_cast<float>(i)}, trace::Role::kInput, "x");
    b.op(kAddInPlace, {B::tensor(w), B::tensor(x), B::integer(1)}, {B::tensor(w)});
    b.end_iteration();
  }
  const auto program = lowered(b);
  ASSERT_EQ(program.inputs.size(), 1u);
  EXPECT_EQ(program.inputs[0].blobs.size(), 2u);
  EXPECT_THAT(final_state(b, program), ElementsAre(2, 1));
}

/// w gets batch 0, 1, 0; the bytes of each entered when it was read first. With `spoils`, iteration 1 also doubles
/// batch 0.
Result<graph::Variants> batches_in_turn(TraceBuilder& b, bool spoils) {
  const auto w = b.fresh({2}), other = b.fresh({2});
  const trace::TensorId batches[2] = {b.fresh({2}), b.fresh({2})};
  for (int i = 0; i < 3; ++i) {
    const auto x = batches[i % 2], twice = spoils && i == 1 ? batches[0] : other;
    if (i == 0) b.external(b.storage_of(w), {0, 0}, trace::Role::kParameter, "w");
    if (spoils) b.external(b.storage_of(twice), {1, 0}, trace::Role::kInput, "twice");
    if (i < 2) b.external(b.storage_of(x), {1, static_cast<float>(10 * i)}, trace::Role::kInput, "x");
    b.op(kAddInPlace, {B::tensor(w), B::tensor(x), B::integer(1)}, {B::tensor(w)});
    if (spoils) b.op(kAddInPlace, {B::tensor(twice), B::tensor(twice), B::integer(1)}, {B::tensor(twice)});
    b.end_iteration();
  }
  return lower_variants(b.trace());
}

TEST(Inputs, BatchesThatComeAgainKeepTheirBytes) {
  TraceBuilder b;
  const auto variants = batches_in_turn(b, false);
  ASSERT_TRUE(variants) << variants.error().message;
  const auto& program = variants->programs[0];
  ASSERT_EQ(program->inputs.size(), 1u);
  EXPECT_EQ(program->inputs[0].blobs[0], program->inputs[0].blobs[2]);
  EXPECT_NE(program->inputs[0].blobs[0], program->inputs[0].blobs[1]);
  EXPECT_THAT(final_state(b, *program), ElementsAre(3, 10));
}

TEST(Inputs, ABatchThatAnOpChangedIsNotWhatItWas) {
  TraceBuilder b;
  const auto variants = batches_in_turn(b, true);
  ASSERT_TRUE(variants) << variants.error().message;
  auto replay = graph::replay_reference(*variants, *b.trace().blob_store, 3);
  ASSERT_TRUE(replay) << replay.error().message;
  EXPECT_THAT(floats(replay->states[0]), ElementsAre(1 + 1 + 2, 0 + 10 + 0));  // batch 0 twice, the second time doubled
}

TEST(Inputs, DrawnValuesAreInputs) {
  TraceBuilder b;
  const auto w = b.fresh({2});
  for (int i = 0; i < 2; ++i) {
    const auto mask = b.fresh({2});
    if (i == 0) b.external(b.storage_of(w), {0, 0}, trace::Role::kParameter, "w");
    b.op("aten::empty.memory_format(SymInt[] size) -> Tensor", {B::integers({2})}, {B::tensor(mask)});
    const auto op =
        b.op("aten::bernoulli_.float(Tensor(a!) self, float p=0.5, *, Generator? generator=None) -> Tensor(a!)",
             {B::tensor(mask), B::number(0.5), B::none()}, {B::tensor(mask)});
    b.draw(op, 0, {1, static_cast<float>(i)});
    b.op(kAddInPlace, {B::tensor(w), B::tensor(mask), B::integer(1)}, {B::tensor(w)});
    b.end_iteration();
  }
  const auto program = lowered(b);
  ASSERT_EQ(program.inputs.size(), 1u);
  EXPECT_TRUE(program.inputs[0].is_draw);
  EXPECT_EQ(program.ops.size(), 1u) << "the empty tensor is dead:\n" << graph::to_text(program);
  EXPECT_THAT(final_state(b, program), ElementsAre(2, 1));
}

constexpr const char* kEmpty = "aten::empty.memory_format(SymInt[] size) -> Tensor";

TEST(Inputs, MemoryThatIsFilledWithoutAnOpHasTheRecordedBytes) {
  TraceBuilder b;
  const auto w = b.fresh({2});
  for (int i = 0; i < 2; ++i) {
    const auto filled = b.fresh({2});
    if (i == 0) b.external(b.storage_of(w), {0, 0}, trace::Role::kParameter, "w");
    b.op(kEmpty, {B::integers({2})}, {B::tensor(filled)});
    b.external(b.storage_of(filled), {3, static_cast<float>(5 + i)}, trace::Role::kUnknown);
    b.op(kAddInPlace, {B::tensor(w), B::tensor(filled), B::integer(1)}, {B::tensor(w)});
    b.end_iteration();
  }
  const auto program = lowered(b);
  EXPECT_EQ(program.inputs.size(), 1u) << graph::to_text(program);
  EXPECT_THAT(final_state(b, program), ElementsAre(6, 11));
}

TEST(Inputs, MemoryThatChangesBetweenTwoOpsWithoutAnOp) {
  TraceBuilder b;
  const auto w = b.fresh({2}), filled = b.fresh({2});
  b.external(b.storage_of(w), {0, 0}, trace::Role::kParameter, "w");
  b.op(kEmpty, {B::integers({2})}, {B::tensor(filled)});
  b.external(b.storage_of(filled), {3, 4}, trace::Role::kUnknown);
  b.op(kAddInPlace, {B::tensor(w), B::tensor(filled), B::integer(1)}, {B::tensor(w)});
  b.external(b.storage_of(filled), {5, 6}, trace::Role::kUnknown);
  b.op(kAddInPlace, {B::tensor(w), B::tensor(filled), B::integer(1)}, {B::tensor(w)});
  b.end_iteration();
  const auto program = lowered(b);
  EXPECT_THAT(final_state(b, program), ElementsAre(8, 10));
}

TEST(Inputs, MemoryThatIsFilledAgainAndCarriedOn) {
  TraceBuilder b;
  const auto w = b.fresh({2}), batch = b.fresh({2});
  b.external(b.storage_of(w), {0, 0}, trace::Role::kParameter, "w");
  b.external(b.storage_of(batch), {1, 1}, trace::Role::kUnknown);
  const auto add = [&] { b.op(kAddInPlace, {B::tensor(w), B::tensor(batch), B::integer(1)}, {B::tensor(w)}); };
  const std::vector<float> filled = {10, 100, 1000};
  for (const float number : filled) {  // each reads what was filled in before it, and then what is filled in now
    add();
    b.op(kMulInPlace, {B::tensor(batch), B::number(2)}, {B::tensor(batch)});
    add();
    b.external(b.storage_of(batch), {number, number}, trace::Role::kUnknown);
    add();
    b.end_iteration();
  }
  const auto program = lowered(b);
  EXPECT_EQ(program.inputs.size(), 1u);
  EXPECT_THAT(final_state(b, program), ElementsAre(3 + 10 + 30 + 100 + 300 + 1000, 1443));
}

TEST(Inputs, MemoryThatIsFilledAgainInSomeIterationsOnly) {
  TraceBuilder b;
  const auto w = b.fresh({2}), batch = b.fresh({2});
  b.external(b.storage_of(w), {0, 0}, trace::Role::kParameter, "w");
  b.external(b.storage_of(batch), {1, 1}, trace::Role::kUnknown);
  for (int i = 0; i < 4; ++i) {
    b.op(kAddInPlace, {B::tensor(w), B::tensor(batch), B::integer(1)}, {B::tensor(w)});
    if (i % 2 == 1) b.external(b.storage_of(batch), {10, 10}, trace::Role::kUnknown);
    b.op(kAddInPlace, {B::tensor(w), B::tensor(batch), B::integer(1)}, {B::tensor(w)});
    b.end_iteration();
  }
  b.final_state(b.storage_of(w), {1 + 1 + 1 + 10 + 10 + 10 + 10 + 10, 53}, "w");
  const auto variants = lower_variants(b.trace());
  ASSERT_TRUE(variants) << variants.error().message;
  ASSERT_EQ(variants->programs.size(), 2u);
  EXPECT_THAT(variants->differences[1],
              HasSubstr("something other than an op changed memory before it in one of them"));
  const auto replay = graph::replay_reference(*variants, *b.trace().blob_store, 4);
  ASSERT_TRUE(replay) << replay.error().message;
  EXPECT_THAT(replay->states, testing::Contains(testing::ResultOf(floats, ElementsAre(53, 53))));
}

TEST(Errors, MemoryThatChangesAfterItsLastReader) {
  TraceBuilder b;
  const auto w = b.fresh({2}), batch = b.fresh({2});
  b.external(b.storage_of(w), {0, 0}, trace::Role::kParameter, "w");
  b.external(b.storage_of(batch), {1, 1}, trace::Role::kUnknown);
  b.op(kAddInPlace, {B::tensor(w), B::tensor(batch), B::integer(1)}, {B::tensor(w)});
  b.external(b.storage_of(batch), {5, 6}, trace::Role::kUnknown);
  b.op("aten::item(Tensor self) -> Scalar", {B::tensor(batch)}, {B::number(5)});
  b.end_iteration();
  EXPECT_THAT(refusal(b), HasSubstr("fill another tensor, or say with crucible.step()"));
}

TEST(Errors, UnknownOpsAreListedTogether) {
  TraceBuilder b;
  const auto x = b.fresh({2}), y = b.fresh({2});
  b.external(b.storage_of(x), {1, 2});
  b.op("aten::foo.Bar(Tensor self) -> Tensor", {B::tensor(x)}, {B::tensor(y)});
  b.op("aten::foo.Bar(Tensor self) -> Tensor", {B::tensor(x)}, {B::tensor(b.fresh({2}))});
  b.op("mylib::baz(Tensor self) -> Tensor", {B::tensor(x)}, {B::tensor(b.fresh({2}))});
  b.end_iteration();
  const auto message = refusal(b);
  EXPECT_THAT(message, HasSubstr("2 ops have no lowering"));
  EXPECT_THAT(message, HasSubstr("aten::foo.Bar: 2 per iteration, first at train.py:1"));
  EXPECT_THAT(message, HasSubstr("mylib::baz: 1 per iteration, first at train.py:3"));
}

TEST(Errors, NoCompleteIteration) {
  TraceBuilder b;
  const auto x = b.fresh({2});
  b.op(kZero, {B::tensor(x)}, {B::tensor(x)});
  b.end_iteration(false);
  EXPECT_THAT(refusal(b), HasSubstr("no complete iteration"));
}

TEST(States, CarriedInSomeIterationsOnly) {
  TraceBuilder b;
  const auto x = b.fresh({1});
  for (int i = 0; i < 3; ++i) {
    if (i != 1) b.external(b.storage_of(x), {1}, trace::Role::kUnknown, "x");
    b.op(kMulInPlace, {B::tensor(x), B::number(2)}, {B::tensor(x)});
    b.end_iteration();
  }
  const auto variants = lower_variants(b.trace());
  ASSERT_TRUE(variants) << variants.error().message;
  EXPECT_EQ(variants->programs.size(), 1u);
  EXPECT_EQ(variants->seams(), 1u);
  EXPECT_FALSE(variants->turns[1].given.size());
}

TEST(Errors, MissingBytes) {
  TraceBuilder b;
  const auto x = b.fresh({1});
  b.op(kMul, {B::tensor(x), B::number(2)}, {B::tensor(b.fresh({1}))});
  b.loss(1, 2);
  b.end_iteration();
  EXPECT_THAT(refusal(b), HasSubstr("bytes of the tensor first read by aten::mul.Tensor at train.py:1"));
}

TEST(Iterations, IncompleteOnesAndQuestionsAreIgnored) {
  TraceBuilder b;
  const auto x = b.fresh({1});
  b.external(b.storage_of(x), {1}, trace::Role::kParameter);
  for (int i = 0; i < 3; ++i) {
    b.op(kMulInPlace, {B::tensor(x), B::number(2)}, {B::tensor(x)});
    if (i == 1) b.op("aten::_local_scalar_dense(Tensor self) -> Scalar", {B::tensor(x)}, {B::number(4)});
    if (i == 2) b.op(kZero, {B::tensor(x)}, {B::tensor(x)});
    b.end_iteration(i < 2);
  }
  const auto program = lowered(b);
  EXPECT_EQ(program.iterations, 2u);
  EXPECT_THAT(final_state(b, program), ElementsAre(4));
}

TEST(Table, NamesAreUniqueAndSorted) {
  const auto names = lowered_names();
  EXPECT_GT(names.size(), 150u);
  std::size_t entries = 0;
#define CRUCIBLE_COUNT(NAME) entries += NAME##_entries().size();
  CRUCIBLE_ATEN_TABLES(CRUCIBLE_COUNT)
#undef CRUCIBLE_COUNT
  EXPECT_EQ(entries, names.size()) << "an op stands in the table twice";
}

}  // namespace
}  // namespace crucible::aten
