// `--memory-budget`, `--objective` and their refusals as a user meets them, with a recording made by hand.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "core/trace/trace_file.hpp"
#include "core/trace/trace_samples.hpp"
#include "frontends/aten/testing/trace_builder.hpp"
#include "tests/cli/run_command.hpp"

namespace crucible {
namespace {

using aten::TraceBuilder;
using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr std::int64_t kElements = 4096;  // 16 KiB
constexpr int kLayers = 10;

/// x = x * w ten times over, loss = sum(x), then a gradient that reads every x again, and w += -0.5 * gradient. All
/// numbers are powers of two, so the recorded ones are exact.
trace::Trace recording() {
  TraceBuilder b;
  const auto fresh = [&] { return b.fresh({kElements}); };
  const auto t = [](trace::TensorId id) { return TraceBuilder::tensor(id); };
  const trace::TensorId w = fresh();
  const std::vector<float> ones(kElements, 1.0f), halves(kElements, 0.5f);
  for (int iteration = 0; iteration < 2; ++iteration) {
    std::vector<trace::TensorId> x = {fresh()};
    b.external(b.storage_of(x[0]), ones, trace::Role::kInput, "x");
    if (iteration == 0) b.external(b.storage_of(w), ones, trace::Role::kParameter, "weight");
    for (int layer = 0; layer < kLayers; ++layer) {
      x.push_back(fresh());
      b.op(aten::kMul, {t(x[x.size() - 2]), t(w)}, {t(x.back())});
    }
    const trace::TensorId sum = b.fresh({});
    b.op(aten::kSum, {t(x.back()), TraceBuilder::none()}, {t(sum)});
    b.loss(sum, iteration == 0 ? kElements : kElements / 1024.0);
    trace::TensorId gradient = fresh();
    b.op(aten::kMul, {t(x.back()), t(w)}, {t(gradient)}, trace::Phase::kBackward);
    for (int layer = kLayers; layer-- > 0;) {
      const trace::TensorId next = fresh();
      b.op(aten::kMul, {t(gradient), t(x[static_cast<std::size_t>(layer)])}, {t(next)}, trace::Phase::kBackward);
      gradient = next;
    }
    b.op(aten::kAddInPlace, {t(w), t(gradient), TraceBuilder::number(-0.5)}, {t(w)}, trace::Phase::kOptimizer);
    b.end_iteration();
  }
  b.final_state(b.storage_of(w), halves, "weight");
  return b.trace();
}

class MemoryBudget : public ::testing::Test {
 protected:
  void SetUp() override { ASSERT_TRUE(trace::write_file(recording(), path_)); }

  CommandOutcome run(const std::string& command, const std::string& switches) {
    return run_command(command + " " + path_ + " --no-fuse " + switches,
                       "CRUCIBLE_STORE_DIR=" + (folder_ / "cache").string());
  }
  nlohmann::json replay(const std::string& switches) {
    const CommandOutcome outcome = run("replay", "--verify --json " + switches);
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    return outcome.code == 0 ? nlohmann::json::parse(outcome.out) : nlohmann::json();
  }

  trace::samples::Folder folder_;
  std::string path_ = (folder_ / "deep.crtrace").string();
};

TEST_F(MemoryBudget, IsMetAndChangesNoBit) {
  const nlohmann::json free = replay("");
  const std::uint64_t peak = free["peak_bytes"];
  EXPECT_EQ(free["memory"]["steps_repeated"], 0);
  EXPECT_EQ(free["memory"]["budget_bytes"], nullptr);
  EXPECT_EQ(free["memory"]["certificate"]["verdict"], "valid");
  const nlohmann::json tight = replay("--memory-budget " + std::to_string(peak * 6 / 10));
  EXPECT_LE(tight["peak_bytes"], peak * 6 / 10);
  EXPECT_EQ(tight["peak_bytes"], tight["planned_peak_bytes"]);
  EXPECT_GT(tight["memory"]["steps_repeated"], 0);
  EXPECT_GT(tight["memory"]["repeated_share"], 0);
  EXPECT_EQ(tight["result_sha256"], free["result_sha256"]);
  EXPECT_NE(tight["memory"]["certificate"]["sha256"], free["memory"]["certificate"]["sha256"]);
  EXPECT_THAT(run("replay", "--memory-budget " + std::to_string(peak * 6 / 10)).out, HasSubstr("steps run again"));
}

TEST_F(MemoryBudget, ThePlanSaysWhatTheReplayTakes) {
  for (const std::string switches : {"", "--objective fastest", "--objective least-memory", "--memory-budget 150KiB"}) {
    SCOPED_TRACE(switches);
    const CommandOutcome planned = run("plan", "--json " + switches);
    ASSERT_EQ(planned.code, 0) << planned.err;
    EXPECT_EQ(nlohmann::json::parse(planned.out)["peak_bytes"], replay(switches)["peak_bytes"]);
  }
}

TEST_F(MemoryBudget, ThatIsTooSmallNamesTheSmallest) {
  const CommandOutcome refused = run("replay", "--memory-budget 20KB");
  EXPECT_EQ(refused.code, 3);
  EXPECT_THAT(refused.err,
              AllOf(HasSubstr("the memory budget of 20000 bytes cannot be met: the smallest that works is "),
                    HasSubstr("32768 of them are states and constants")));
  const std::string words = "the smallest that works is ";
  const std::uint64_t smallest = std::stoull(refused.err.substr(refused.err.find(words) + words.size()));
  EXPECT_EQ(replay("--memory-budget " + std::to_string(smallest))["peak_bytes"], smallest);
  EXPECT_EQ(run("plan", "--memory-budget " + std::to_string(smallest - 1)).code, 3);
}

TEST_F(MemoryBudget, ADeviceProfileMayLetTensorsWaitOnTheHost) {
  const std::string toy =
      "--set device_profile.toy.memory_bytes=100000 --set device_profile.toy.f32_flops_per_second=1000 "
      "--set device_profile.toy.host_link_bytes_per_second=100000000000 --device-profile toy ";
  const nlohmann::json free = replay(""), tight = replay(toy + "--memory-budget 100000");
  EXPECT_LE(tight["peak_bytes"], 100000);
  EXPECT_GT(tight["memory"]["transfers"], 0);
  EXPECT_GT(tight["memory"]["host_bytes"], 0);
  EXPECT_EQ(tight["result_sha256"], free["result_sha256"]);
  // Asked whether it fits, the plan tries what would.
  const CommandOutcome asked = run("plan", toy + "--json");
  EXPECT_EQ(asked.code, 1) << asked.err;
  const nlohmann::json within = nlohmann::json::parse(asked.out)["device_profile"]["within_budget"];
  EXPECT_EQ(within["fits"], true);
  EXPECT_LE(within["peak_bytes"], 100000);
  EXPECT_THAT(run("plan", toy).out,
              AllOf(HasSubstr("does not fit on toy"), HasSubstr("--memory-budget 100000: then the peak is ")));
}

TEST_F(MemoryBudget, RefusesWhatIsNoSize) {
  for (const std::string size : {"much", "-5", "0", "5XB", "1e400", "12 bananas", "nan"}) {
    const CommandOutcome outcome = run("replay", "--memory-budget '" + size + "'");
    EXPECT_EQ(outcome.code, 2) << size;
    EXPECT_THAT(outcome.err, HasSubstr("--memory-budget '" + size + "' is not a size")) << size;
  }
  EXPECT_EQ(run("replay", "--objective cheapest").code, 2);
  const CommandOutcome reference = run("replay", "--backend reference --memory-budget 1GiB");
  EXPECT_EQ(reference.code, 2) << reference.err;
}

}  // namespace
}  // namespace crucible
