// Values that left: where, how often, and what the iterations say about them.
#include "core/trace/values_left.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/trace/trace_maker.hpp"
#include "core/trace/trace_samples.hpp"

namespace crucible::trace {
namespace {

using ::testing::StartsWith;

TEST(ValuesLeft, DifferWhileTheOpsDoNot) {
  const Trace trace = samples::training_trace();
  const ValuesLeft found = values_left(trace);
  ASSERT_EQ(found.lines.size(), 1u);
  EXPECT_EQ(found.lines[0].schema, "aten::_local_scalar_dense");
  EXPECT_EQ(trace.site_text(found.lines[0].site), "train.py:14");
  EXPECT_EQ(found.lines[0].count, 4u);
  EXPECT_EQ(found.lines[0].values_differ, true);
  EXPECT_EQ(found.sequence_depends, false);
  EXPECT_EQ(found.reason, "values differ between iterations, the op sequence does not");
}

TEST(ValuesLeft, OpSequencesDiffer) {
  samples::TrainingOptions options;
  options.extra_op = true;
  const ValuesLeft found = values_left(samples::training_trace(options));
  EXPECT_EQ(found.sequence_depends, true);
  EXPECT_THAT(found.reason, StartsWith("the op sequences differ: iteration 1 differs from iteration 0: "));
}

TEST(ValuesLeft, OneIterationSaysNothing) {
  samples::TrainingOptions options;
  options.iterations = 1;
  const ValuesLeft found = values_left(samples::training_trace(options));
  EXPECT_EQ(found.sequence_depends, std::nullopt);
  EXPECT_EQ(found.lines[0].values_differ, std::nullopt);
  EXPECT_EQ(found.reason, "unknown (one iteration)");
}

TEST(ValuesLeft, TheSameValuesSayNothing) {
  Trace trace = samples::training_trace();
  for (Op& op : trace.ops) {
    for (Arg& output : op.outputs) {
      if (output.kind == Arg::Kind::kDouble) output.real = 1;
    }
  }
  const ValuesLeft found = values_left(trace);
  EXPECT_EQ(found.lines[0].values_differ, false);
  EXPECT_EQ(found.sequence_depends, std::nullopt);
  EXPECT_EQ(found.reason, "unknown (the same values in every iteration)");
}

TEST(ValuesLeft, None) {
  const ValuesLeft found = values_left(samples::scalar_trace({1, 2}));
  EXPECT_TRUE(found.lines.empty());
  EXPECT_EQ(found.sequence_depends, false);
}

}  // namespace
}  // namespace crucible::trace
