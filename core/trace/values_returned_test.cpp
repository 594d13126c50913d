// Values that left and came back: what counts, and what every ordinary program does and must not be told.
#include "core/trace/values_returned.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <span>
#include <string>
#include <vector>

#include "core/base/hash.hpp"
#include "core/trace/reservations.hpp"
#include "core/trace/trace_maker.hpp"
#include "core/trace/trace_samples.hpp"

namespace crucible::trace {
namespace {

using samples::integer;
using samples::list_of;
using samples::number;
using samples::tensor_of;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr const char* kList = "python::tolist(Tensor(a) self) -> (Scalar[] values, int sum)";
constexpr const char* kItem = "aten::_local_scalar_dense(Tensor self) -> Scalar";
constexpr const char* kRelu = "aten::relu(Tensor self) -> Tensor";
constexpr const char* kAdd = "aten::add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor";
constexpr const char* kSum = "aten::sum(Tensor self) -> Tensor";

struct Options {
  std::uint32_t iterations = 3;
  std::string way = kList;
  float value = 1;     // how much what left grows from one iteration to the next
  float entered = 10;  // the same of what enters afterwards
  bool enters = true;
  bool is_loss = false;  // what left is a loss
  Phase phase = Phase::kForward;
  double alpha = 0;  // how much a number among the arguments behind it grows
};

/// Per iteration: y = relu(x), y leaves, z = y + t, where x and t enter.
Trace in_between(const Options& options) {
  samples::TraceMaker maker;
  const TensorId w = maker.tensor({2});
  for (std::uint32_t i = 0; i < options.iterations; ++i) {
    maker.begin_iteration();
    const auto step = static_cast<float>(i);
    const TensorId x = maker.tensor({2}), y = maker.tensor({2}), t = maker.tensor({2}), z = maker.tensor({2});
    maker.external(x, Role::kUnknown, "", step * options.value);
    maker.op(kRelu, {tensor_of(x)}, {tensor_of(y)});
    const float left = step * options.value;
    if (options.way == kList) {
      maker.op(kList, {tensor_of(y)},
               {list_of({number(left), number(left + 1)}), integer(static_cast<std::int64_t>(left))});
    } else {
      maker.op(options.way, {tensor_of(y)}, {number(left)});
    }
    maker.trace.ops.back().phase = options.phase;
    if (i == 0) maker.external(w, Role::kParameter, "w", 5);  // as states enter in the first iteration
    if (options.enters) maker.external(t, Role::kUnknown, "", 100 + step * options.entered);
    maker.op(kAdd, {tensor_of(y), tensor_of(options.enters ? t : w), number(1 + options.alpha * step)}, {tensor_of(z)});
    if (options.is_loss) maker.trace.iterations.back().losses.push_back({y, left});
  }
  return maker.take();
}

TEST(ValuesReturned, WhatEntersAfterwardsAndChangesIsTold) {
  const auto found = values_returned(in_between({}));
  ASSERT_TRUE(found);
  EXPECT_EQ(found->values, 2u);
  EXPECT_EQ(found->tensors, 1u);
  EXPECT_EQ(found->numbers, 0u);
  EXPECT_EQ(found->changed, true);
  EXPECT_FALSE(found->across_iterations);
  EXPECT_EQ(found->text,
            "in each iteration 2 values left the program at train.py:11, and 1 tensor that entered afterwards (at "
            "train.py:12) is taken from the "
            "recording: what Python did in between is not replayed");
}

TEST(ValuesReturned, NewMemoryThatIsCopiedIntoIsNotTold) {
  samples::TraceMaker maker;
  for (std::uint32_t i = 0; i < 3; ++i) {
    maker.begin_iteration();
    const TensorId x = maker.tensor({2}), y = maker.tensor({2}), copy = maker.tensor({2});
    maker.external(x, Role::kUnknown, "", static_cast<float>(i));
    maker.op(kRelu, {tensor_of(x)}, {tensor_of(y)});
    maker.op(kItem, {tensor_of(y)}, {number(i)});
    maker.external(copy, Role::kUnknown, "", 10 * static_cast<float>(i));  // whatever was there
    maker.op("aten::copy_(Tensor(a!) self, Tensor src, bool non_blocking=False) -> Tensor(a!)",
             {tensor_of(copy), tensor_of(y), integer(0)}, {tensor_of(copy)});
  }
  EXPECT_EQ(values_returned(maker.take()), std::nullopt);
}

/// As torch.save does with a device's storages: memory of its own, a tensor that lies there, the copy.
TEST(ValuesReturned, NewMemoryThatATensorIsSetToAndThatIsCopiedIntoIsNotTold) {
  for (const bool is_copied_into : {true, false}) {
    samples::TraceMaker maker;
    for (std::uint32_t i = 0; i < 3; ++i) {
      maker.begin_iteration();
      const TensorId x = maker.tensor({2}), y = maker.tensor({2}), memory = maker.tensor({2}), z = maker.tensor({2});
      maker.external(x, Role::kUnknown, "", static_cast<float>(i));
      maker.op(kRelu, {tensor_of(x)}, {tensor_of(y)});
      maker.op(kItem, {tensor_of(y)}, {number(i)});
      const TensorId empty = maker.tensor({2});
      maker.op("aten::empty.memory_format() -> Tensor", {}, {tensor_of(empty)});
      maker.external(memory, Role::kUnknown, "", 10 * static_cast<float>(i));  // whatever was there
      maker.op("aten::set_.source_Storage(Tensor(a!) self, Storage source) -> Tensor(a!)",
               {tensor_of(empty), tensor_of(memory)}, {tensor_of(memory)});
      if (is_copied_into) {
        maker.op("aten::copy_(Tensor(a!) self, Tensor src, bool non_blocking=False) -> Tensor(a!)",
                 {tensor_of(memory), tensor_of(y), integer(0)}, {tensor_of(memory)});
      }
      maker.op(kRelu, {tensor_of(memory)}, {tensor_of(z)});
    }
    EXPECT_EQ(values_returned(maker.take()).has_value(), !is_copied_into);
  }
}

TEST(ValuesReturned, WhatALoaderGivesIsNotTold) {
  Trace trace = in_between({});
  for (External& external : trace.externals) {
    if (external.role == Role::kUnknown) external.role = Role::kInput;
  }
  EXPECT_EQ(values_returned(trace), std::nullopt);
}

TEST(ValuesReturned, EveryWayOfLeavingCounts) { EXPECT_TRUE(values_returned(in_between({.way = kItem}))); }

TEST(ValuesReturned, NothingEntersAfterwards) {
  EXPECT_EQ(values_returned(in_between({.enters = false})), std::nullopt);
}

TEST(ValuesReturned, WhatStaysWhileTheValuesChangeDoesNotDependOnThem) {
  EXPECT_EQ(values_returned(in_between({.entered = 0})), std::nullopt);
}

TEST(ValuesReturned, WhereNothingChangesItMayDepend) {
  const auto found = values_returned(in_between({.value = 0, .entered = 0}));
  ASSERT_TRUE(found);
  EXPECT_EQ(found->changed, false);
  EXPECT_THAT(found->text, HasSubstr("is taken from the recording (the same in all recorded iterations)"));
}

TEST(ValuesReturned, TwoIterationsAreEnough) { EXPECT_TRUE(values_returned(in_between({.iterations = 2}))); }

TEST(ValuesReturned, OneIterationDoesNotSayWhetherItChanges) {
  const auto found = values_returned(in_between({.iterations = 1}));
  ASSERT_TRUE(found);
  EXPECT_EQ(found->changed, std::nullopt);
  EXPECT_THAT(found->text, HasSubstr("(one iteration: whether this changes is not known)"));
}

TEST(ValuesReturned, ALossThatIsLoggedIsNotTold) {
  EXPECT_EQ(values_returned(in_between({.way = kItem, .is_loss = true})), std::nullopt);
}

TEST(ValuesReturned, WhatIsPrintedIsNotTold) {
  EXPECT_EQ(values_returned(in_between({.way = "python::print(Tensor(a) self) -> Scalar"})), std::nullopt);
}

TEST(ValuesReturned, WhatOptimizersReadIsNotTold) {
  EXPECT_EQ(values_returned(in_between({.way = kItem, .phase = Phase::kOptimizer})), std::nullopt);
}

TEST(ValuesReturned, ANumberThatChangesIsTold) {
  const auto found = values_returned(in_between({.enters = false, .alpha = 0.5}));
  ASSERT_TRUE(found);
  EXPECT_EQ(found->tensors, 0u);
  EXPECT_EQ(found->numbers, 1u);
}

/// Per iteration: the sum of what the iteration before had made leaves, then x enters and y = x + w. `follows`: x
/// begins with that sum.
Trace between_iterations(bool follows, bool trains) {
  samples::TraceMaker maker;
  const TensorId w = maker.tensor({1});
  TensorId before = kNone;
  for (std::uint32_t i = 0; i < 4; ++i) {
    maker.begin_iteration();
    const float left = 7 * static_cast<float>(i);
    if (before != kNone) {
      const TensorId sum = maker.tensor({});
      maker.op(kSum, {tensor_of(before)}, {tensor_of(sum)});
      maker.op(kItem, {tensor_of(sum)}, {number(left)});
    }
    const TensorId x = maker.tensor({1}), y = maker.tensor({1});
    maker.external(x, Role::kUnknown, "", follows ? left : 100 - left);
    if (i == 0) maker.external(w, Role::kParameter, "w", 5);
    maker.op(kAdd, {tensor_of(x), tensor_of(w), number(1)}, {tensor_of(y)});
    if (trains) maker.trace.iterations.back().losses.push_back({y, left});
    before = y;
  }
  return maker.take();
}

TEST(ValuesReturned, AMetricBeforeTheNextBatchIsNotTold) {
  EXPECT_EQ(values_returned(between_iterations(false, true)), std::nullopt);
  EXPECT_EQ(values_returned(between_iterations(false, false)), std::nullopt);
}

TEST(ValuesReturned, AMetricTimesANumberOfTheProgramsIsNotTold) {
  samples::TraceMaker maker;
  TensorId before = kNone;
  for (std::uint32_t i = 0; i < 4; ++i) {
    maker.begin_iteration();
    if (before != kNone) {
      const TensorId factor = maker.tensor({}), scaled = maker.tensor({1});
      maker.trace.tensors[factor].is_wrapped_number = true;
      maker.external(factor, Role::kUnknown, "", 2);
      maker.op(kAdd, {tensor_of(before), tensor_of(factor), number(1)}, {tensor_of(scaled)});
      maker.op(kItem, {tensor_of(scaled)}, {number(0.5 + i)});
    }
    const TensorId x = maker.tensor({1}), y = maker.tensor({1});
    maker.external(x, Role::kUnknown, "", 10 * static_cast<float>(i));
    maker.op(kRelu, {tensor_of(x)}, {tensor_of(y)});
    before = y;
  }
  EXPECT_EQ(values_returned(maker.take()), std::nullopt);
}

TEST(ValuesReturned, NumbersThatFollowFromTheSizesOfABatchAreNotTold) {
  samples::TraceMaker maker;
  for (std::uint32_t i = 0; i < 4; ++i) {
    maker.begin_iteration();
    const std::int64_t size = 2 + i / 2;
    const TensorId x = maker.tensor({size}), y = maker.tensor({size}), z = maker.tensor({size});
    maker.external(x, Role::kUnknown, "", static_cast<float>(i));
    maker.op(kRelu, {tensor_of(x)}, {tensor_of(y)});
    maker.op(kItem, {tensor_of(y)}, {number(0.5 + i)});
    maker.op(kAdd, {tensor_of(y), tensor_of(y), number(static_cast<double>(size))}, {tensor_of(z)});
  }
  EXPECT_EQ(values_returned(maker.take()), std::nullopt);
}

TEST(ValuesReturned, WhatLeavesAndIsTheNextIterationsInputIsTold) {
  for (const bool trains : {false, true}) {
    const auto found = values_returned(between_iterations(true, trains));
    ASSERT_TRUE(found);
    EXPECT_TRUE(found->across_iterations);
    EXPECT_EQ(found->values, 1u);
    EXPECT_THAT(
        found->text,
        HasSubstr("1 tensor that entered in the next one with them (at train.py:10) is taken from the recording"));
  }
}

TEST(ValuesReturned, WhatEntersIsNotTheProgramsBeforeAnOpReadsIt) {
  // A value of an iteration that was passed over enters when it is read for the log; then the batch enters.
  samples::TraceMaker maker;
  for (std::uint32_t i = 0; i < 3; ++i) {
    maker.begin_iteration();
    const TensorId loss = maker.tensor({}), x = maker.tensor({2}), y = maker.tensor({2});
    maker.external(loss, Role::kUnknown, "", static_cast<float>(i));
    maker.op(kItem, {tensor_of(loss)}, {number(i)});
    maker.external(x, Role::kUnknown, "", 10 * static_cast<float>(i));
    maker.op(kRelu, {tensor_of(x)}, {tensor_of(y)});
  }
  EXPECT_EQ(values_returned(maker.take()), std::nullopt);
}

TEST(ValuesReturned, OneIterationOfSeveralIsNoProof) {
  // As in_between(), but what leaves is made of what entered in one iteration alone, and of what the one before left in
  // the others.
  samples::TraceMaker maker;
  TensorId before = maker.tensor({2});
  for (std::uint32_t i = 0; i < 4; ++i) {
    maker.begin_iteration();
    const TensorId metric = maker.tensor({2}), x = maker.tensor({2}), y = maker.tensor({2});
    if (i == 0 || i == 2) maker.external(before, Role::kUnknown, "", static_cast<float>(i));
    maker.op(kSum, {tensor_of(before)}, {tensor_of(metric)});
    maker.op(kItem, {tensor_of(metric)}, {number(0.5 + i)});
    maker.external(x, Role::kUnknown, "", 10 * static_cast<float>(i));
    maker.op(kRelu, {tensor_of(x)}, {tensor_of(y)});
    before = i == 1 ? maker.tensor({2}) : y;  // of the iteration that was passed over
  }
  EXPECT_EQ(values_returned(maker.take()), std::nullopt);
}

TEST(ValuesReturned, NumbersOfIterationsWithOtherOpsAreNotCompared) {
  samples::TraceMaker maker;
  for (std::uint32_t i = 0; i < 3; ++i) {
    maker.begin_iteration();
    const TensorId x = maker.tensor({2}), y = maker.tensor({2}), z = maker.tensor({2});
    maker.external(x, Role::kUnknown, "", static_cast<float>(i));
    maker.op(kRelu, {tensor_of(x)}, {tensor_of(y)});
    maker.op(kItem, {tensor_of(y)}, {number(i)});
    if (i == 1) maker.op(kRelu, {tensor_of(y)}, {tensor_of(maker.tensor({2}))});
    maker.op(kAdd, {tensor_of(y), tensor_of(y), number(1)}, {tensor_of(z)});
    maker.op(kAdd, {tensor_of(y), tensor_of(z), number(2)}, {tensor_of(z)});
  }
  EXPECT_EQ(values_returned(maker.take()), std::nullopt);
}

TEST(ValuesReturned, ALongListIsKnownByItsSum) {
  samples::TraceMaker maker;
  TensorId before = kNone;
  for (std::uint32_t i = 0; i < 3; ++i) {
    maker.begin_iteration();
    std::vector<float> content(100);
    for (std::size_t k = 0; k < content.size(); ++k) content[k] = static_cast<float>(i + k);
    if (before != kNone) {
      const std::uint64_t sum = checksum64(std::as_bytes(std::span(content)));
      maker.op(kList, {tensor_of(before)}, {list_of({}), integer(std::bit_cast<std::int64_t>(sum))});
    }
    const TensorId x = maker.tensor({100}), y = maker.tensor({100});
    maker.external(x, Role::kUnknown, "", static_cast<float>(i));
    maker.op(kRelu, {tensor_of(x)}, {tensor_of(y)});
    before = y;
  }
  const auto found = values_returned(maker.take());
  ASSERT_TRUE(found);
  EXPECT_EQ(found->values, 100u);
}

TEST(ValuesReturned, OrdinaryTrainingHasNone) {
  EXPECT_EQ(values_returned(samples::training_trace()), std::nullopt);
  EXPECT_THAT(reservations(samples::training_trace()), IsEmpty());
}

TEST(Reservations, ThreadsAndSettings) {
  Trace trace = samples::training_trace();
  trace.not_recorded = {
      {std::string(kOtherThreads), 3, 0}, {"the setting x: y", 1, kNone}, {"something else", 1, kNone}};
  EXPECT_THAT(
      reservations(trace),
      ElementsAre(HasSubstr(
          "3 ops ran on threads that are not recorded, with tensors of the recorded program (first at train.py:10)")));
  EXPECT_THAT(settings_not_followed(trace), ElementsAre("x: y"));
}

TEST(Reservations, DataOfTheProgram) {
  Trace trace = samples::training_trace();
  trace.not_recorded = {{std::string(kReadForInput), 2, 0}};
  EXPECT_THAT(
      reservations(trace),
      ElementsAre(HasSubstr("2 ops made data of what the recorded program computes (first at train.py:10), and that")));
}

TEST(Reservations, NoLossAndNoOutput) {
  Trace trace = samples::training_trace();
  for (Iteration& iteration : trace.iterations) iteration.losses.clear();
  EXPECT_THAT(reservations(trace), ElementsAre(HasSubstr("no loss and no output is in the recording")));
  trace.outputs.push_back({0, "0", 0, 0});
  EXPECT_THAT(reservations(trace), IsEmpty());
}

}  // namespace
}  // namespace crucible::trace
