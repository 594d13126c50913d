#include "runtime/plan/predict.hpp"

#include <gtest/gtest.h>

#include "runtime/testing/test_programs.hpp"

namespace crucible::runtime {
namespace {

/// 1 byte a nanosecond from memory, 100 from a cache of 5000 bytes; 10 operations a nanosecond; launches cost nothing.
hardware::DeviceProfile toy() {
  hardware::DeviceProfile profile{.name = "toy"};
  const auto set = [&](const char* key, double value) { profile.figures[key] = {.value = value}; };
  set("memory.size", 1e9);
  set("level.llc.size", 5000);
  set("level.llc.bandwidth", 100e9);
  set("level.dram.bandwidth", 1e9);
  set("peak.vector.f32", 10e9);
  set("host_link.bandwidth", 2e9);
  return profile;
}

/// y = x + x; z = tanh(y): 1000 bytes each; w = z * big, where big has 40000 bytes.
struct Steps {
  graph::Program program;
  kernel::Schedule schedule;
  graph::ValueId x = 0, y = 1, z = 2, big = 3, w = 4;

  Steps() {
    for (const std::int64_t elements : {250, 250, 250, 10000, 250}) {
      graph::Value value;
      value.elements = elements;
      program.values.push_back(value);
    }
    add({{x, false}, {y, true}}, 2000, 250);
    add({{y, false}, {z, true}}, 2000, 250);
    add({{z, false}, {big, false}, {w, true}}, 42000, 10000);
  }
  void add(std::vector<kernel::BufferArgument> buffers, std::uint64_t bytes, std::uint64_t flops) {
    kernel::Step step;
    step.buffers = std::move(buffers);
    step.bytes = bytes;
    step.flops = flops;
    schedule.steps.push_back(std::move(step));
  }
};

TEST(PredictSteps, WhatWasTouchedLatelyIsInTheCache) {
  const Steps steps;
  const auto predictions = predict_steps(steps.program, steps.schedule, toy());
  ASSERT_EQ(predictions.size(), 3u);
  EXPECT_DOUBLE_EQ(predictions[0].memory_ns, 1000 / 1.0 + 1000 / 100.0);    // x was last touched an iteration ago
  EXPECT_DOUBLE_EQ(predictions[1].memory_ns, 1000 / 100.0 + 1000 / 100.0);  // y the step before
  EXPECT_DOUBLE_EQ(predictions[2].memory_ns, 42000.0);                      // the step alone is too large for the cache
  EXPECT_DOUBLE_EQ(predictions[0].compute_ns, 25);
  EXPECT_EQ(predictions[2].bound(), hardware::Bound::kMemory);
}

TEST(PredictSteps, AStateIsWhatTheIterationBeforeLeft) {
  Steps steps;
  steps.program.states.push_back({.start = steps.x, .end = steps.w});
  steps.schedule.steps.pop_back();
  steps.add({{steps.z, false}, {steps.w, true}}, 2000, 250);
  const auto predictions = predict_steps(steps.program, steps.schedule, toy());
  EXPECT_DOUBLE_EQ(predictions[0].memory_ns, 20);  // written by the last step of the iteration before
}

TEST(PredictSteps, OnlyWhatIsReallyReadCounts) {
  Steps steps;
  steps.schedule.steps.pop_back();
  steps.add({{steps.z, false}, {steps.big, false}, {steps.w, true}}, 4200, 100);  // a gather of a few rows
  EXPECT_DOUBLE_EQ(predict_steps(steps.program, steps.schedule, toy())[2].memory_ns, 4200);
}

TEST(PredictSteps, TransfersGoOverTheLink) {
  Steps steps;
  steps.schedule.steps[0].kind = kernel::StepKind::kTransfer;
  EXPECT_DOUBLE_EQ(predict_steps(steps.program, steps.schedule, toy())[0].memory_ns, 500);
}

TEST(PredictSteps, EveryStepOfAProgramHasAPrediction) {
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    const graph::Program program = deep_program(seed).program;
    const kernel::Schedule schedule = naive_schedule(program, true);
    const auto predictions = predict_steps(program, schedule, toy());
    ASSERT_EQ(predictions.size(), schedule.steps.size());
    for (const hardware::Prediction& prediction : predictions) EXPECT_GE(prediction.total_ns(), 0);
  }
}

}  // namespace
}  // namespace crucible::runtime
