// Trimming: what a cut keeps, takes in, renumbers and refuses.
#include "core/trace/trim.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/trace/trace_maker.hpp"
#include "core/trace/validate.hpp"

namespace crucible::trace {
namespace {

using samples::TraceMaker;
using samples::number;
using samples::tensor_of;
using ::testing::HasSubstr;
using ::testing::Not;

const char* const kRelu = "aten::relu(Tensor self) -> Tensor";
const char* const kAdd = "aten::add_.Tensor(Tensor(a!) self, Tensor other, *, Scalar alpha=1) -> Tensor(a!)";

TEST(Trim, FromZeroOnAlwaysWorks) {
  const Trace whole = samples::training_trace();
  const auto kept = trim(whole, 0, 1);
  ASSERT_TRUE(kept) << kept.error().message;
  ASSERT_TRUE(validate(*kept));
  EXPECT_EQ(kept->iterations.size(), 2u);
  EXPECT_EQ(kept->ops.size(), 12u);
  EXPECT_EQ(kept->externals.size(), 4u);
  // One of the two is written by no iteration: it is what it was.
  EXPECT_EQ(kept->final_states.size(), 1u);
  EXPECT_EQ(kept->metadata.incomplete_reason,
            "trimmed to iterations 0-1 of 4: without 1 of 2 final states, which later iterations wrote");
  EXPECT_EQ(kept->storages.size(), 2u + 2 * 5);
  EXPECT_LT(kept->tensors.size(), whole.tensors.size());
}

TEST(Trim, EverythingIsEverything) {
  const Trace whole = samples::training_trace();
  const auto kept = trim(whole, 0, 3);
  ASSERT_TRUE(kept) << kept.error().message;
  EXPECT_EQ(kept->ops.size(), whole.ops.size());
  EXPECT_EQ(kept->final_states.size(), 2u);
  EXPECT_EQ(kept->metadata.incomplete_reason, "");
}

TEST(Trim, RefusesWhatDroppedIterationsWrote) {
  const auto kept = trim(samples::training_trace(), 2, 3);
  ASSERT_FALSE(kept);
  EXPECT_EQ(kept.error().code, ErrorCode::kBadInput);
  EXPECT_THAT(kept.error().message,
              HasSubstr("cannot begin with iteration 2: dropped iterations wrote 1 storage that"));
  EXPECT_THAT(kept.error().message, HasSubstr("keep the iterations from 0 on (0-3)"));
  EXPECT_THAT(kept.error().message,
              HasSubstr("\n  fc.weight (parameter), written by op 11, aten::add_.Tensor at train.py:15"));
  EXPECT_THAT(kept.error().message, Not(HasSubstr("scale")));
}

/// An inference program: w is read in every iteration and never written.
Trace inference(bool with_reuse) {
  TraceMaker maker;
  const TensorId w = maker.tensor({2});
  const TensorId cache = maker.tensor({2});
  for (int i = 0; i < 3; ++i) {
    maker.begin_iteration();
    if (i == 0) maker.external(w, Role::kParameter, "w", 5);
    maker.op(kRelu, {tensor_of(w)}, {tensor_of(maker.tensor({2}))});
    if (with_reuse) {
      maker.op("aten::zero_(Tensor(a!) self) -> Tensor(a!)", {tensor_of(cache)}, {tensor_of(cache)});
      maker.op(kAdd, {tensor_of(cache), tensor_of(w), number(1)}, {tensor_of(cache)});
    }
    maker.trace.draws.push_back(
        {static_cast<std::uint32_t>(maker.trace.ops.size() - 1), 0, maker.blob(w, static_cast<float>(i))});
    maker.trace.generators.push_back({static_cast<std::uint32_t>(i), "cpu", maker.blob(w, static_cast<float>(10 + i))});
    maker.trace.outputs.push_back({static_cast<std::uint32_t>(i), "0", w, maker.blob(w, static_cast<float>(20 + i))});
  }
  maker.trace.op_hashes.resize(maker.trace.ops.size());
  for (std::size_t i = 0; i < maker.trace.op_hashes.size(); ++i) maker.trace.op_hashes[i] = {i};
  return maker.take();
}

TEST(Trim, TakesInBytesThatNobodyWroteSince) {
  const Trace whole = inference(false);
  const auto kept = trim(whole, 1, 2);
  ASSERT_TRUE(kept) << kept.error().message;
  ASSERT_TRUE(validate(*kept));
  ASSERT_EQ(kept->externals.size(), 1u);
  const External& taken = kept->externals[0];
  EXPECT_EQ(taken.name, "w");
  EXPECT_EQ(taken.role, Role::kParameter);
  EXPECT_EQ(taken.iteration, 0u);
  EXPECT_EQ(taken.op, 0u);
  EXPECT_EQ(kept->blobs[taken.blob].hash, whole.blobs[whole.externals[0].blob].hash);
  EXPECT_EQ(*kept->blob_store->load(taken.blob), *whole.blob_store->load(whole.externals[0].blob));
  EXPECT_EQ(kept->metadata.warmup_iterations, 1u);
}

TEST(Trim, RenumbersWhatBelongsToIterationsAndOps) {
  const Trace whole = inference(false);
  const auto kept = trim(whole, 1, 1);
  ASSERT_TRUE(kept) << kept.error().message;
  ASSERT_EQ(kept->draws.size(), 1u);
  EXPECT_EQ(kept->draws[0].op, 0u);
  EXPECT_EQ(kept->blobs[kept->draws[0].blob].hash, whole.blobs[whole.draws[1].blob].hash);
  ASSERT_EQ(kept->generators.size(), 1u);
  EXPECT_EQ(kept->generators[0].iteration, 0u);
  EXPECT_EQ(kept->blobs[kept->generators[0].blob].hash, whole.blobs[whole.generators[1].blob].hash);
  ASSERT_EQ(kept->outputs.size(), 1u);
  EXPECT_EQ(kept->outputs[0].iteration, 0u);
  EXPECT_EQ(kept->blobs[kept->outputs[0].blob].hash, whole.blobs[whole.outputs[1].blob].hash);
  ASSERT_EQ(kept->op_hashes.size(), 1u);
  EXPECT_EQ(kept->op_hashes[0], std::vector<std::uint64_t>{1});
  EXPECT_EQ(kept->iterations[0].first_op, 0u);
}

TEST(Trim, WhatIsOverwrittenFirstNeedsNoBytes) {
  const auto kept = trim(inference(true), 2, 2);
  ASSERT_TRUE(kept) << kept.error().message;
  EXPECT_EQ(kept->externals.size(), 1u);
}

TEST(Trim, WhatADroppedIterationMadeIsRefused) {
  TraceMaker maker;
  const TensorId a = maker.tensor({2}), b = maker.tensor({2});
  maker.begin_iteration();
  maker.external(a, Role::kInput, "", 0);
  maker.op(kRelu, {tensor_of(a)}, {tensor_of(b)});
  maker.begin_iteration();
  maker.op(kRelu, {tensor_of(b)}, {tensor_of(maker.tensor({2}))});
  const auto kept = trim(maker.take(), 1, 1);
  ASSERT_FALSE(kept);
  EXPECT_THAT(kept.error().message, HasSubstr("storage 1, made by op 0, aten::relu at train.py:10"));
}

TEST(Trim, RunningStatisticsAreWrittenOnlyInTraining) {
  for (const bool training : {true, false}) {
    TraceMaker maker;
    const TensorId x = maker.tensor({2}), mean = maker.tensor({2});
    Arg flag;
    flag.kind = Arg::Kind::kBool;
    flag.integer = training;
    for (int i = 0; i < 2; ++i) {
      maker.begin_iteration();
      maker.external(x, Role::kInput, "", 0);
      if (i == 0) maker.external(mean, Role::kBuffer, "bn.running_mean", 0);
      maker.op("aten::native_batch_norm(Tensor input, Tensor? running_mean, bool training) -> Tensor",
               {tensor_of(x), tensor_of(mean), flag}, {tensor_of(maker.tensor({2}))});
    }
    EXPECT_EQ(trim(maker.take(), 1, 1).has_value(), !training);
  }
}

TEST(Trim, RangesThatAreNotThere) {
  const Trace whole = samples::training_trace();
  EXPECT_EQ(trim(whole, 2, 1).error().message, "iterations 2-1 are none: the first number is the smaller one");
  EXPECT_EQ(trim(whole, 0, 4).error().message, "there is no iteration 4: the recording has 4, counted from 0");
  EXPECT_EQ(trim(whole, 0, 4).error().code, ErrorCode::kUsage);
}

}  // namespace
}  // namespace crucible::trace
