// Sums of a plan that can be added up by hand, and the width of the text.
#include "frontends/cli/plan_tables.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "frontends/cli/plan_samples.hpp"

namespace crucible::cli {
namespace {

using runtime::Role;
using ::testing::AllOf;
using ::testing::HasSubstr;

PlannedBuffer buffer(std::string name, Role role, std::string module, std::uint64_t kib, std::uint32_t begin,
                     std::uint32_t end) {
  return {.name = std::move(name),
          .kind = "temporary",
          .role = role,
          .module = std::move(module),
          .site = "train.py:7",
          .op = "aten::op",
          .size_bytes = kib * 1024,
          .begin = begin,
          .end = end};
}

/// Two steps forward, one backward, one of the optimizer; most is alive in the backward.
PlanReport report() {
  PlanReport report{.file = "a.crtrace", .kernels = "none"};
  using graph::Phase;
  for (const Phase phase : {Phase::kForward, Phase::kForward, Phase::kBackward, Phase::kOptimizer})
    report.steps.push_back({phase, "aten::op", "", ""});
  report.buffers = {buffer("net.0.weight", Role::kParameter, "net.0", 4, 0, 5),
                    buffer("step of net.0.weight", Role::kOptimizerState, "net.0", 2, 0, 5),
                    buffer("net.1.mean", Role::kModuleBuffer, "net.1", 1, 0, 5),
                    buffer("%1 aten::op of net.1.act", Role::kActivation, "net.1.act", 8, 1, 3),
                    buffer("grad of net.0.weight", Role::kGradient, "net.0", 4, 2, 4),
                    buffer("scratch of step 2", Role::kWorkspace, "", 16, 2, 3),
                    buffer("x", Role::kInput, "", 3, 0, 1),
                    buffer("%9 aten::op", Role::kTemporary, "", 1, 3, 4)};
  samples::place(report);
  return report;
}

TEST(PlanTables, RolesAtThePeakAddUpToTheLowerBound) {
  const PlanReport plan = report();
  EXPECT_EQ(plan.plan.lower_bound_time, 2u);
  std::uint64_t sum = 0;
  std::set<Role> roles;
  for (const RoleSum& row : sum_roles(plan)) {
    sum += row.bytes_at_peak;
    EXPECT_TRUE(roles.insert(row.role).second);
    if (row.role == Role::kInput) {
      EXPECT_EQ(row.bytes, 3u * 1024);
      EXPECT_EQ(row.bytes_at_peak, 0u);
    }
    if (row.role == Role::kGradient) {
      EXPECT_EQ(row.bytes_at_peak, 4u * 1024);
    }
  }
  EXPECT_EQ(sum, plan.plan.lower_bound_bytes);
  EXPECT_EQ(sum, 35u * 1024);
  EXPECT_EQ(roles.size(), 8u);  // no constant
}

TEST(PlanTables, PhasesHaveTheirOwnPeaks) {
  const std::vector<PhaseSum> phases = sum_phases(report());
  ASSERT_EQ(phases.size(), 3u);
  EXPECT_EQ(phases[0].steps, 2u);
  EXPECT_EQ(phases[0].peak_step, 1u);
  EXPECT_EQ(phases[0].peak_bytes, 15u * 1024);  // net.0.weight, its step, net.1.mean, the activation
  EXPECT_EQ(phases[0].at_peak, (Columns{4096, 3072, 0, 8192, 0, 0}));
  EXPECT_EQ(phases[1].at_peak, (Columns{4096, 3072, 4096, 8192, 16384, 0}));
  EXPECT_EQ(phases[2].at_peak, (Columns{4096, 3072, 4096, 0, 0, 1024}));
}

TEST(PlanTables, ABufferCountsForWhatItIsThen) {
  PlanReport plan = report();
  plan.buffers[3].turns = {{1, Role::kActivation},
                           {2, Role::kTemporary}};  // the activation, overwritten in the backward
  const std::vector<PhaseSum> phases = sum_phases(plan);
  EXPECT_EQ(phases[0].at_peak, (Columns{4096, 3072, 0, 8192, 0, 0}));
  EXPECT_EQ(phases[1].at_peak, (Columns{4096, 3072, 4096, 0, 16384, 8192}));
  for (const RoleSum& sum : sum_roles(plan)) {
    if (sum.role == Role::kActivation || sum.role == Role::kTemporary) {
      EXPECT_EQ(sum.bytes_at_peak, sum.role == Role::kTemporary ? 8192u : 0u);
    }
  }
  EXPECT_EQ(sum_modules(plan, 2)[2].at_peak, (Columns{0, 1024, 0, 0, 0, 8192}));
  EXPECT_EQ(plan.to_json()["table"][3]["turns"][1]["role"], "temporary");
  EXPECT_FALSE(plan.to_json()["table"][2].contains("turns"));
}

TEST(PlanTables, ModulesAreCutAtADepthLargestFirst) {
  EXPECT_EQ(cut_module("blocks.0.attn.qkv", 2), "blocks.0");
  EXPECT_EQ(cut_module("blocks", 3), "blocks");
  EXPECT_EQ(cut_module("", 1), "");
  const std::vector<ModuleSum> one = sum_modules(report(), 1), two = sum_modules(report(), 2);
  ASSERT_EQ(one.size(), 2u);
  EXPECT_EQ(one[0].module, "net");
  EXPECT_EQ(one[0].bytes_at_peak(), 19u * 1024);
  EXPECT_EQ(one[1].module, "");
  EXPECT_EQ(one[1].bytes, 20u * 1024);
  ASSERT_EQ(two.size(), 3u);
  EXPECT_EQ(two[0].module, "");
  EXPECT_EQ(two[1].module, "net.0");
  EXPECT_EQ(two[2].module, "net.1");
  EXPECT_EQ(two[2].at_peak, (Columns{0, 1024, 0, 8192, 0, 0}));
}

TEST(PlanTables, TheDepthKeepsTheTableReadable) {
  const PlanReport random = samples::random_report(900, 1);  // blocks.0 to blocks.23, five parts each
  EXPECT_EQ(sum_modules(random, 0).size(), 1u);
  EXPECT_EQ(sum_modules(random, 2).size(), 24u);
  EXPECT_EQ(sum_modules(report(), 0).size(), 4u);  // as deep as it goes
}

TEST(PlanTables, TheTextFitsATerminal) {
  PlanReport plan = samples::random_report(4000, 2);
  for (PlannedBuffer& each : plan.buffers) {
    each.name += " of a.rather.long.path.of.modules.that.does.not.end.soon";
    each.site = "a_script_with_a_long_name.py:1234";
    each.size_bytes = each.size_bytes % 1000 + 1023 * 1024;
  }
  samples::place(plan);
  constexpr std::uint64_t kWide = 1023 * 1024;  // "1023 KiB"
  runtime::Fit fit{.peak_bytes = kWide,
                   .missing_bytes = kWide,
                   .carried_bytes = kWide,
                   .activation_bytes = kWide,
                   .gradient_bytes = kWide,
                   .rest_bytes = kWide,
                   .floor_bytes = kWide,
                   .floor_step = 12345,
                   .batch = 12345};
  for (const std::uint64_t batch : {0, 12345}) {
    for (const std::uint64_t usable : {std::uint64_t{0}, std::uint64_t{1} << 40}) {
      fit.fits = (fit.usable_bytes = usable) > 0;
      fit.largest_batch = batch;
      hardware::DeviceProfile device{.name = "jetson-orin-nano-8g"};
      device.figures["memory.size"] = {.value = 0x1p33};
      device.figures["memory.reserved"] = {.value = 0x1p30};
      plan.answer = ProfileAnswer{std::move(device), fit};
      std::istringstream lines(plan_text(plan));
      for (std::string line; std::getline(lines, line);) EXPECT_LE(line.size(), 100u) << line;
    }
  }
  EXPECT_THAT(plan_text(report()),
              AllOf(HasSubstr("the plan is optimal"), HasSubstr("optimizer state"), HasSubstr("backward"),
                    HasSubstr("net.1.act"), HasSubstr("6 buffers are alive at the peak"), HasSubstr("train.py:7")));
}

TEST(PlanTables, SayWhatABudgetLedTo) {
  PlanReport plan = report();
  for (const char* word : {"order ", "budget ", "host "}) EXPECT_THAT(plan_text(plan), Not(HasSubstr(word)));
  plan.arranged = {.budget_bytes = 1 << 20, .host_bytes = 3 << 20};
  plan.arranged.report = {.bound_as_recorded = 9 << 20,
                          .bound_ordered = 8 << 20,
                          .moved = 31,
                          .repeats = 4,
                          .repeat_ns = 10,
                          .step_ns = 40,
                          .transfers = 5,
                          .transfer_bytes = 6 << 20,
                          .is_repeat = {}};
  const std::string text = plan_text(plan);
  EXPECT_THAT(text, HasSubstr("order        31 steps moved: 8.00 MiB alive at most instead of 9.00 MiB\n"));
  EXPECT_THAT(text,
              HasSubstr("budget       4 steps run again (an estimated 25% more work), 5 transfers of 6.00 MiB\n"));
  EXPECT_THAT(text, HasSubstr("host         3.00 MiB at most, of what waits or lives there\n"));
  plan.arranged.report.bound_as_recorded = plan.arranged.report.bound_ordered + 512;
  EXPECT_THAT(plan_text(plan), HasSubstr("order        31 steps moved: 8.00 MiB alive at most, 512 B fewer\n"));
  const auto json = plan.to_json()["memory"];
  EXPECT_EQ(json["budget_bytes"], 1 << 20);
  EXPECT_EQ(json["repeated_share"], 0.25);
  EXPECT_EQ(json["host_bytes"], 3 << 20);
}

TEST(PlanTables, TheJsonHasTheSameSums) {
  const auto document = report().to_json();
  EXPECT_EQ(document["phases"][1]["workspaces_bytes"], 16384);
  EXPECT_EQ(document["phases"][1]["phase"], "backward");
  EXPECT_EQ(document["table"][4]["role"], "gradient");
  EXPECT_EQ(document["table"][4]["module"], "net.0");
  EXPECT_EQ(document["table"][4]["site"], "train.py:7");
  EXPECT_EQ(document["live_bytes"].size(), 5u);
  std::uint64_t modules = 0, roles = 0;
  for (const auto& row : document["modules"]) modules += row["bytes_at_peak"].get<std::uint64_t>();
  for (const auto& row : document["roles"]) roles += row["bytes_at_peak"].get<std::uint64_t>();
  EXPECT_EQ(modules, document["lower_bound_bytes"]);
  EXPECT_EQ(roles, document["lower_bound_bytes"]);
}

TEST(PlanTables, ThePictureHasEveryBufferAndThePhases) {
  PlanReport plan = report();
  plan.buffers[0].name = "a<b> & \"c\"";
  const std::string svg = plan.to_svg();
  EXPECT_THAT(svg, AllOf(HasSubstr("a&lt;b&gt; &amp; &quot;c&quot;"), HasSubstr("backward, steps 2 to 3"),
                         HasSubstr("train.py:7"), HasSubstr("</svg>")));
  std::size_t titles = 0;
  for (std::size_t at = 0; (at = svg.find("<title>", at)) != std::string::npos; ++at) ++titles;
  EXPECT_EQ(titles, plan.buffers.size() + 3);  // and a run of steps per phase
}

}  // namespace
}  // namespace crucible::cli
