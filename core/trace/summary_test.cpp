// Counts and slots of hand-made traces.
#include "core/trace/summary.hpp"

#include <gtest/gtest.h>

#include "core/trace/trace_samples.hpp"

namespace crucible::trace {
namespace {

TEST(Summary, CountsWhatIsThere) {
  const Summary summary = summarize(samples::small_trace());
  EXPECT_EQ(summary.iterations, 2u);
  EXPECT_EQ(summary.complete_iterations, 1u);
  EXPECT_EQ(summary.ops, 3u);
  EXPECT_EQ(summary.ops_per_iteration, (std::vector<std::uint32_t>{2, 1}));
  EXPECT_EQ(summary.unique_ops, 2u);
  EXPECT_EQ(summary.externals[static_cast<int>(Role::kParameter)].count, 1u);
  EXPECT_EQ(summary.externals[static_cast<int>(Role::kParameter)].size_bytes, 300u);
  EXPECT_EQ(summary.externals[static_cast<int>(Role::kInput)].size_bytes, 500u);
  EXPECT_EQ(summary.external_bytes, 800u);
  EXPECT_EQ(summary.blob_bytes, 800u);
}

TEST(Summary, OneCompleteIterationHasNoSlotsToTell) {
  const Summary summary = summarize(samples::scalar_trace({0.1}));
  EXPECT_FALSE(summary.slots);
  EXPECT_EQ(summary.no_slots_reason, "1 complete iteration, at least 2 are needed");
}

TEST(Summary, EqualScalarsAreNoSlots) { EXPECT_EQ(summarize(samples::scalar_trace({0.1, 0.1, 0.1})).slots, 0u); }

TEST(Summary, ScalarThatDiffersInAnyIterationIsOneSlot) {
  EXPECT_EQ(summarize(samples::scalar_trace({0.1, 0.1, 0.2, 0.3})).slots, 1u);
  EXPECT_EQ(summarize(samples::scalar_trace({0.0, -0.0})).slots, 1u);
}

TEST(Summary, IncompleteIterationsAreLeftOut) {
  Trace trace = samples::scalar_trace({0.1, 0.1, 0.2});
  trace.iterations.back().complete = false;
  EXPECT_EQ(summarize(trace).slots, 0u);
}

TEST(Summary, OtherStructureIsNamed) {
  Trace other_op = samples::scalar_trace({0.1, 0.1});
  other_op.schemas.push_back({"aten::mul", "Scalar", ""});
  other_op.ops[1].schema = 1;
  EXPECT_EQ(summarize(other_op).no_slots_reason,
            "iteration 1 differs from iteration 0: op 0 is aten::mul.Scalar instead of aten::add.Scalar");
  Trace other_shape = samples::scalar_trace({0.1, 0.1});
  other_shape.tensors.push_back({0, DType::kF32, false, false, 0, {4, 31}, {32, 1}});
  other_shape.ops[1].args[0].tensor = 2;
  EXPECT_FALSE(summarize(other_shape).slots);
  Trace other_count = samples::scalar_trace({0.1, 0.1, 0.1});
  other_count.iterations = {{0, 1, true, {}}, {1, 2, true, {}}};
  EXPECT_EQ(summarize(other_count).no_slots_reason, "iteration 1 differs from iteration 0: 2 ops instead of 1");
}

}  // namespace
}  // namespace crucible::trace
