// `crucible plan` and `crucible devices --profiles` as a user meets them: roles, tables, the page, and whether it fits.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <string>

#include "core/trace/trace_file.hpp"
#include "core/trace/trace_samples.hpp"
#include "frontends/aten/testing/trace_builder.hpp"
#include "tests/cli/run_command.hpp"

namespace crucible {
namespace {

using aten::TraceBuilder;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsSupersetOf;

constexpr const char* kExp = "aten::exp(Tensor self) -> Tensor";
constexpr std::int64_t kElements = 4096;  // 16 KiB

/// a = exp(x w) in "net.body", loss = sum(a); backward: g = a x, h = a + x; optimizer: v = v - rate h, m = m + g, w = w
/// - rate m. All of 64 rows.
trace::Trace recording() {
  TraceBuilder b;
  const auto fresh = [&] { return b.fresh({64, kElements / 64}); };
  const auto t = [](trace::TensorId id) { return TraceBuilder::tensor(id); };
  const trace::TensorId w = fresh(), m = fresh(), v = fresh();
  const std::vector<float> zeros(kElements, 0.0f), ones(kElements, 1.0f);
  for (int iteration = 0; iteration < 2; ++iteration) {
    const trace::TensorId x = fresh(), y = fresh(), a = fresh(), g = fresh(), h = fresh(), sum = b.fresh({});
    const auto rate = TraceBuilder::number(-0.5 / (iteration + 1));
    b.external(b.storage_of(x), iteration == 0 ? zeros : ones, trace::Role::kInput, "x");
    if (iteration == 0) {
      b.external(b.storage_of(w), zeros, trace::Role::kParameter, "net.body.weight");
      b.external(b.storage_of(v), zeros, trace::Role::kParameter, "net.body.shift");
      b.external(b.storage_of(m), zeros, trace::Role::kOptimizerState, "momentum of net.body.weight");
    }
    b.module("net.body");
    b.op(aten::kMul, {t(x), t(w)}, {t(y)});
    b.op(kExp, {t(y)}, {t(a)});
    b.op(aten::kSum, {t(a), TraceBuilder::none()}, {t(sum)});
    b.loss(sum, kElements);
    b.module("");
    b.op(aten::kMul, {t(a), t(x)}, {t(g)}, trace::Phase::kBackward);
    b.op(aten::kAdd, {t(a), t(x), TraceBuilder::integer(1)}, {t(h)}, trace::Phase::kBackward);
    b.op(aten::kAddInPlace, {t(v), t(h), rate}, {t(v)}, trace::Phase::kOptimizer);
    b.op(aten::kAddInPlace, {t(m), t(g), TraceBuilder::integer(1)}, {t(m)}, trace::Phase::kOptimizer);
    b.op(aten::kAddInPlace, {t(w), t(m), rate}, {t(w)}, trace::Phase::kOptimizer);
    b.end_iteration();
  }
  for (const auto& [tensor, name] :
       {std::pair(w, "net.body.weight"), std::pair(v, "net.body.shift"), std::pair(m, "momentum of net.body.weight")}) {
    b.final_state(b.storage_of(tensor), zeros, name);
  }
  return b.trace();
}

class PlanCommand : public ::testing::Test {
 protected:
  PlanCommand() : path_((folder_ / "a.crtrace").string()) { EXPECT_TRUE(trace::write_file(recording(), path_)); }
  /// Of generated kernels, one per op: what shares a buffer does not depend on the machine.
  CommandOutcome plan(const std::string& arguments, const std::string& environment = "") {
    return run_command("plan " + path_ + " --backend none --no-fuse " + arguments,
                       "HOME=" + folder_.path().string() + " " + environment);
  }
  /// A crucible.toml for every command that runs in the environment that it returns.
  std::string configured(const std::string& text) {
    std::filesystem::create_directories(folder_ / "crucible");
    std::ofstream(folder_ / "crucible/crucible.toml") << text;
    return "XDG_CONFIG_HOME=" + folder_.path().string();
  }

  trace::samples::Folder folder_;
  std::string path_;
};

TEST_F(PlanCommand, EveryBufferHasARole) {
  const CommandOutcome outcome = plan("--json");
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  const auto document = nlohmann::json::parse(outcome.out);
  std::set<std::string> roles;
  for (const auto& row : document["table"]) {
    roles.insert(row["role"]);
    if (row["role"] == "parameter") {
      EXPECT_THAT(row["name"].get<std::string>(), HasSubstr("net.body."));
      EXPECT_EQ(row["module"], "net.body");
    }
    if (row["role"] == "gradient") {
      EXPECT_THAT(row["name"].get<std::string>(), HasSubstr("grad of net.body.weight"));
      EXPECT_EQ(row["module"], "net.body");
    }
  }
  EXPECT_THAT(roles, IsSupersetOf({"parameter", "optimizer state", "gradient", "activation", "input"}));
  EXPECT_EQ(document["phases"].size(), 3u);
  EXPECT_EQ(document["modules"][0]["module"], "net.body");
  EXPECT_FALSE(document.contains("device_profile"));
  EXPECT_THAT(plan("").out, AllOf(HasSubstr("optimizer state"), HasSubstr("net.body.weight"),
                                  HasSubstr("alive at the peak, by module")));
  EXPECT_THAT(plan("--depth 1").out, HasSubstr("\nnet  "));
  EXPECT_EQ(plan("--depth 0").code, 2);
}

TEST_F(PlanCommand, WritesAPage) {
  const std::string html = (folder_ / "plan.html").string();
  const CommandOutcome outcome = plan("--html " + html);
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  std::ifstream file(html);
  const std::string page{std::istreambuf_iterator<char>(file), {}};
  EXPECT_THAT(page, AllOf(HasSubstr("<!DOCTYPE html>"), HasSubstr("net.body.weight"), HasSubstr("</html>")));
  const CommandOutcome refused = plan("--html " + (folder_ / "no/such/folder.html").string());
  EXPECT_EQ(refused.code, 3);
  EXPECT_THAT(refused.err, HasSubstr("the picture: cannot write "));
}

TEST_F(PlanCommand, ADeviceThatIsLargeEnough) {
  const CommandOutcome outcome = plan("--device-profile a100-80g");
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, AllOf(HasSubstr("fits on a100-80g"), HasSubstr("batch: 64 in the recording; up to about")));
}

TEST_F(PlanCommand, ADeviceOfTheConfigurationThatIsTooSmall) {
  const std::string environment = configured("[device_profile.toy]\nmemory_bytes = 80_000\nreserved_bytes = 1_000\n");
  const CommandOutcome outcome = plan("--device-profile toy --json", environment);
  ASSERT_EQ(outcome.code, 1) << outcome.err;
  const auto answer = nlohmann::json::parse(outcome.out)["device_profile"];
  EXPECT_EQ(answer["fits"], false);
  EXPECT_EQ(answer["usable_bytes"], 79'000);
  EXPECT_EQ(answer["carried_bytes"], 3 * 4 * kElements);
  EXPECT_EQ(answer["batch"], 64);
  EXPECT_LT(answer["largest_batch_estimate"], 64);
  EXPECT_THAT(plan("--device-profile toy", environment).out,
              AllOf(HasSubstr("does not fit on toy"), HasSubstr("what would make it fit")));
  // A tiny one: not even the states fit.
  EXPECT_THAT(plan("--device-profile toy --set device_profile.toy.memory_bytes=30000", environment).out,
              HasSubstr("recomputation cannot help"));
}

TEST_F(PlanCommand, ProfilesAreListedAndMistakesNamed) {
  const auto profiles = nlohmann::json::parse(
      run_command("devices --profiles --json", configured("device_profile.toy.memory_bytes = 5\n")).out);
  std::set<std::string> names;
  for (const auto& profile : profiles["device_profiles"]) names.insert(profile["name"]);
  EXPECT_THAT(names, IsSupersetOf({"toy", "h100-80g", "mi300x", "arc-a770"}));
  EXPECT_THAT(run_command("devices --profiles").out, AllOf(HasSubstr("rtx-4090"), HasSubstr("datasheet")));

  const CommandOutcome unknown = plan("--device-profile h100"), typo = plan("--device-profile rtx-4900");
  EXPECT_EQ(unknown.code, 2);
  EXPECT_THAT(unknown.err, AllOf(HasSubstr("no device profile is called 'h100'; did you mean 'h100-80g'?"),
                                 HasSubstr("devices --profiles")));
  EXPECT_THAT(typo.err, HasSubstr("did you mean 'rtx-4090'?"));

  const CommandOutcome key = plan("--device-profile toy", configured("[device_profile.toy]\nmemory_bites = 5\n"));
  EXPECT_EQ(key.code, 3);
  EXPECT_THAT(key.err, HasSubstr("unknown key 'device_profile.toy.memory_bites'; did you mean 'memory_bytes'?"));
  EXPECT_THAT(plan("--device-profile toy", configured("device_profile.toy.source = \"a guess\"\n")).err,
              HasSubstr("device_profile.toy has no memory_bytes"));
  EXPECT_THAT(
      plan("--device-profile toy", configured("[device_profile.toy]\nmemory_bytes = 5\nreserved_bytes = 5\n")).err,
      HasSubstr("nothing is left"));
  EXPECT_EQ(plan("--device-profile toy", configured("device_profile.toy.memory_bytes = \"8 GB\"\n")).code, 3);
}

}  // namespace
}  // namespace crucible
