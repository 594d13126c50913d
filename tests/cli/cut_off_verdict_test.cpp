// A verdict whose explaining runs did not fit into their time says so, and how to have all of them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "core/trace/trace_file.hpp"
#include "frontends/aten/testing/trace_builder.hpp"
#include "frontends/replay/replay.hpp"

namespace crucible::replay {
namespace {

using aten::TraceBuilder;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;

/// w += x in two iterations, and a state in the end that is another one.
trace::Trace wrong_recording() {
  TraceBuilder b;
  const trace::TensorId w = b.fresh({4});
  for (int iteration = 0; iteration < 2; ++iteration) {
    const trace::TensorId x = b.fresh({4}), sum = b.fresh({});
    b.external(b.storage_of(x), std::vector<float>{1, 2, 3, 4}, trace::Role::kInput, "x");
    if (iteration == 0)
      b.external(b.storage_of(w), std::vector<float>{1, 1, 1, 1}, trace::Role::kParameter, "layer.weight");
    b.op(aten::kSum, {b.tensor(w), b.none()}, {b.tensor(sum)});
    b.op(aten::kAddInPlace, {b.tensor(w), b.tensor(x), b.number(1)}, {b.tensor(w)}, trace::Phase::kOptimizer);
    b.loss(sum, iteration == 0 ? 4 : 14);
    b.end_iteration();
  }
  b.final_state(b.storage_of(w), std::vector<float>{9, 9, 9, 9}, "layer.weight");
  return b.trace();
}

std::vector<std::string> notes_of(const SpreadOptions& sensitivity) {
  const std::string file = std::filesystem::path(testing::TempDir()) / "cut_off.crtrace";
  EXPECT_TRUE(trace::write_file(wrong_recording(), file));
  Replay replay({.file = file, .device = {.backend = "reference"}, .verify = true, .sensitivity = sensitivity});
  const Result<ReplayReport> report = replay.report();
  EXPECT_TRUE(report) << report.error().message;
  if (!report) return {};
  EXPECT_FALSE(report->verification->verified);
  return report->verification->notes;
}

constexpr const char* kCutOff =
    "of up to 40 runs one rounding apart were made in the time there is for them: "
    "--sensitivity 40 makes all";

TEST(CutOffVerdict, SaysHowManyRunsThereWere) {
  SpreadOptions hurried;
  hurried.seconds = 0;
  const std::string least = std::to_string(SpreadOptions::kLeastRuns) + " ";
  EXPECT_THAT(notes_of(hurried), Contains(HasSubstr(least + kCutOff)));
}

TEST(CutOffVerdict, SaysNothingWhereAllWereMade) {
  SpreadOptions all;
  all.seconds = 0;
  all.runs = 40;  // asked for: made, however long that takes
  EXPECT_THAT(notes_of(all), Not(Contains(HasSubstr(kCutOff))));
}

}  // namespace
}  // namespace crucible::replay
