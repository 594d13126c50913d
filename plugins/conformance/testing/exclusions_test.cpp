// Exclusions: patterns, damaged files, and what they make of an outcome.
#include "plugins/conformance/exclusions.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace crucible::conformance {
namespace {

using testing::HasSubstr;

TEST(Exclusions, PatternsDescribeNames) {
  EXPECT_TRUE(matches("a.b", "a.b"));
  EXPECT_TRUE(matches("a.*", "a.b.c"));
  EXPECT_TRUE(matches("*", ""));
  EXPECT_TRUE(matches("*.c", "a.b.c"));
  EXPECT_TRUE(matches("a*b*c", "a.x.b.b.c"));
  EXPECT_FALSE(matches("a.b", "a.bc"));
  EXPECT_FALSE(matches("a.b", "a"));
  EXPECT_FALSE(matches("a*d", "a.b.c"));
  EXPECT_FALSE(matches("", "a"));
}

TEST(Exclusions, AreReadWithTheirReasons) {
  const auto list = parse_exclusions(R"([{"case": "ops.*", "kind": "skip", "reason": "no compiler"}])", "x.json");
  ASSERT_TRUE(static_cast<bool>(list)) << list.error().message;
  ASSERT_EQ(list->size(), 1u);
  EXPECT_EQ((*list)[0].kind, ExclusionKind::kSkip);
  EXPECT_EQ(find_exclusion(*list, "ops.add")->reason, "no compiler");
  EXPECT_EQ(find_exclusion(*list, "api.x"), nullptr);
}

TEST(Exclusions, DamagedOnesAreNamed) {
  const auto message = [](const char* text) {
    const auto list = parse_exclusions(text, "x.json");
    return list ? std::string("it was taken") : list.error().message;
  };
  EXPECT_THAT(message("{"), HasSubstr("x.json: exclusions are a JSON list"));
  EXPECT_THAT(message("{}"), HasSubstr("x.json: exclusions are a JSON list"));
  EXPECT_THAT(message("[3]"), HasSubstr("exclusion 0 has no text 'case'"));
  EXPECT_THAT(message(R"([{"case": "a", "kind": "skip"}])"), HasSubstr("exclusion 0 has no text 'reason'"));
  EXPECT_THAT(message(R"([{"case": "a", "kind": "skip", "reason": ""}])"), HasSubstr("no text 'reason'"));
  EXPECT_THAT(message(R"([{"case": "a", "kind": "maybe", "reason": "b"}])"), HasSubstr("has kind 'maybe'"));
}

TEST(Exclusions, TurnOutcomes) {
  const Exclusion exclusion = {"*", ExclusionKind::kExpectedToFail, "bug 12"};
  const auto turned = [&](Outcome outcome) {
    CaseResult result;
    result.outcome = outcome;
    apply(exclusion, result);
    return result.outcome;
  };
  EXPECT_EQ(turned(Outcome::kFailed), Outcome::kExpectedFailure);
  EXPECT_EQ(turned(Outcome::kPassed), Outcome::kUnexpectedPass);
  EXPECT_EQ(turned(Outcome::kUnsupported), Outcome::kUnsupported);
}

}  // namespace
}  // namespace crucible::conformance
