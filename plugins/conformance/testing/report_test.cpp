// Reports: counts, JSON, JUnit, text.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "plugins/conformance/result.hpp"

namespace crucible::conformance {
namespace {

using testing::HasSubstr;
using testing::Not;

Report sample() {
  Report report;
  report.plugin = "/p/libcrucible_acme.so";
  report.identity.name = "acme";
  report.cases = {
      {"static.a", Tier::kStatic, "rule a", Outcome::kPassed, "", "", "", "", 5},
      {"api.b", Tier::kApi, "rule b", Outcome::kFailed, "7 <eggs>", "6 \"eggs\"", "said\x01 & done\n", "", 6},
      {"api.c", Tier::kApi, "rule c", Outcome::kUnsupported, "", "no queue", "", "", 7},
      {"ops.d", Tier::kOps, "rule d", Outcome::kExpectedFailure, "x", "y", "", "", 8}};
  return report;
}

TEST(Report, CountsAndDecides) {
  Report report = sample();
  EXPECT_EQ(report.count(Tier::kApi, Outcome::kFailed), 1u);
  EXPECT_EQ(report.count(Outcome::kUnsupported), 1u);
  EXPECT_FALSE(report.passed());
  report.cases[1].outcome = Outcome::kPassed;
  EXPECT_TRUE(report.passed());
  report.cases[3].outcome = Outcome::kUnexpectedPass;
  EXPECT_FALSE(report.passed());
}

TEST(Report, AsJsonHasStableKeys) {
  const auto document = to_json(sample());
  EXPECT_EQ(document["passed"], 1);
  EXPECT_EQ(document["failed"], 1);
  EXPECT_EQ(document["expected_failure"], 1);
  EXPECT_EQ(document["ok"], false);
  EXPECT_EQ(document["cases"].size(), 4u);
  EXPECT_EQ(document["cases"][1]["got"], "6 \"eggs\"");
  EXPECT_EQ(document["tiers"].size(), static_cast<std::size_t>(kTierCount));
}

TEST(Report, AsJunitEscapes) {
  const std::string text = to_junit(sample());
  EXPECT_THAT(text, HasSubstr("tests=\"4\" failures=\"1\""));
  EXPECT_THAT(text, HasSubstr("expected: 7 &lt;eggs&gt;"));
  EXPECT_THAT(text, HasSubstr("said\xef\xbf\xbd &amp; done"));
  EXPECT_THAT(text, HasSubstr("<skipped message=\"unsupported: no queue\"/>"));
  EXPECT_THAT(text, Not(HasSubstr("\x01")));
}

TEST(Report, AsTextHasTwoBlanksBetweenColumnsAndALineForEachReason) {
  Report report = sample();
  report.cases.push_back(report.cases[2]);
  report.cases.back().name = "api.e";
  ASSERT_EQ(report.cases[2].outcome, Outcome::kUnsupported);
  const std::string text = to_text(report, "crucible plugin check");
  EXPECT_THAT(text, HasSubstr("  unsupported  expected failures  unexpected passes  skipped\n"));
  EXPECT_THAT(text, HasSubstr("\nunsupported: no queue: " + report.cases[2].name + ", api.e\n"));
}

TEST(Report, SaysWhichOptionsThePluginHad) {
  Report report = sample();
  report.options = {{"library", "/opt/a b.so", "ACME_LIBRARY"}, {"streams", "2", "--set"}};
  const std::string text = to_text(report, "crucible plugin check");
  EXPECT_THAT(text, HasSubstr("\nwith library = /opt/a b.so (ACME_LIBRARY)\nwith streams = 2 (--set)\n\ntier "));
  EXPECT_THAT(text, HasSubstr("acme.so --set 'library=/opt/a b.so' --set streams=2 --filter '^api.b$'"));
  EXPECT_EQ(to_json(report)["options"][0]["from"], "ACME_LIBRARY");
}

TEST(Report, AsTextSaysHowToRunAFailureAlone) {
  const std::string text = to_text(sample(), "crucible plugin check");
  EXPECT_THAT(text, HasSubstr("failed: api.b\n  rule:     rule b\n  expected: 7 <eggs>\n  got:      6 \"eggs\"\n"));
  EXPECT_THAT(text, HasSubstr("crucible plugin check /p/libcrucible_acme.so --filter '^api.b$'"));
  EXPECT_THAT(text, HasSubstr("    | said\x01 & done\n"));
  EXPECT_THAT(text, HasSubstr("FAILED: 4 cases, 1 passed, 1 failed, 1 unsupported"));
}

}  // namespace
}  // namespace crucible::conformance
