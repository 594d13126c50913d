// The whole check: the CPU plugin passes; what is no plugin is told apart from what cannot be loaded; exclusions count.
#include "plugins/conformance/check.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <thread>

#include "plugins/conformance/certificate.hpp"
#include "plugins/loader/verify_certificate.hpp"

namespace crucible::conformance {
namespace {

using testing::HasSubstr;

CheckOptions options_for(const std::filesystem::path& plugin) {
  CheckOptions options;
  options.command = {CRUCIBLE_COMMAND, "plugin", "check-case"};
  options.settings.plugin = plugin;
  options.jobs = std::max(1u, std::thread::hardware_concurrency());
  return options;
}

TEST(Check, TheCpuPluginPassesQuick) {
  CheckOptions options = options_for(CRUCIBLE_CPU_PLUGIN);
  options.settings.quick = true;
  const auto report = check_plugin(options);
  ASSERT_TRUE(static_cast<bool>(report)) << report.error().message;
  EXPECT_TRUE(report->passed()) << to_text(*report, "crucible plugin check");
  for (const Tier tier : {Tier::kStatic, Tier::kNegotiation, Tier::kApi, Tier::kBehaviour, Tier::kOps})
    EXPECT_GT(report->count(tier, Outcome::kPassed), 4u);
  EXPECT_EQ(report->identity.name, "cpu");
  EXPECT_EQ(report->identity.sha256.size(), 64u);
}

TEST(Check, WhatIsNoPluginIsBadInput) {
  for (const char* path : {"/etc/passwd", "/no/such/file", "/proc/self/exe", CRUCIBLE_COMMAND}) {
    const auto report = check_plugin(options_for(path));
    ASSERT_FALSE(report) << path;
    EXPECT_EQ(report.error().code, ErrorCode::kBadInput) << report.error().message;
  }
}

TEST(Check, AnUnknownDeviceIsUnavailable) {
  CheckOptions options = options_for(CRUCIBLE_CPU_PLUGIN);
  options.settings.device = "cpu:77";
  const auto report = check_plugin(options);
  ASSERT_FALSE(report);
  EXPECT_EQ(report.error().code, ErrorCode::kUnavailable);
  EXPECT_THAT(report.error().message, HasSubstr("cpu:77"));
  EXPECT_THAT(report.error().message, HasSubstr("it has cpu:0"));
}

TEST(Check, AnUnknownTierAndADamagedFilterAreUsage) {
  CheckOptions options = options_for(CRUCIBLE_CPU_PLUGIN);
  options.tiers = {"statik"};
  EXPECT_EQ(choose_cases(options).error().code, ErrorCode::kUsage);
  options.tiers = {};
  options.filter = "(";
  EXPECT_EQ(choose_cases(options).error().code, ErrorCode::kUsage);
}

TEST(Check, NamesAreUniqueAndBelongToTheirTier) {
  std::map<std::string, int> names;
  for (const Case& entry : all_cases()) {
    EXPECT_EQ(++names[entry.name], 1) << entry.name;
    EXPECT_TRUE(entry.name.starts_with(std::string(tier_name(entry.tier)) + ".")) << entry.name;
    EXPECT_FALSE(entry.rule.empty());
  }
  EXPECT_GT(names.size(), 150u);
}

TEST(Check, AnUnexpectedPassFailsAndASkippedCaseIsNotRun) {
  CheckOptions options = options_for(CRUCIBLE_CPU_PLUGIN);
  options.tiers = {"static"};
  options.exclusions = {{"static.file.*", ExclusionKind::kExpectedToFail, "for the test"},
                        {"static.elf.*", ExclusionKind::kSkip, "also for the test"}};
  const auto report = check_plugin(options);
  ASSERT_TRUE(static_cast<bool>(report)) << report.error().message;
  EXPECT_FALSE(report->passed());
  EXPECT_EQ(report->count(Outcome::kUnexpectedPass), 1u);
  EXPECT_EQ(report->count(Outcome::kSkipped), 2u);
  EXPECT_EQ(report->count(Outcome::kPassed), 3u);
}

TEST(Check, ACertificateOfARealRunVerifies) {
  CheckOptions options = options_for(CRUCIBLE_CPU_PLUGIN);
  options.tiers = {"static", "negotiation"};
  const auto report = check_plugin(options);
  ASSERT_TRUE(static_cast<bool>(report)) << report.error().message;
  std::string folder = (std::filesystem::temp_directory_path() / "crucible-kit-key-XXXXXX").string();
  ASSERT_NE(mkdtemp(folder.data()), nullptr);
  const std::filesystem::path key = std::filesystem::path(folder) / "key.pem";
  ASSERT_TRUE(static_cast<bool>(make_key(key)));
  const auto text = make_certificate(*report, key);
  ASSERT_TRUE(static_cast<bool>(text)) << text.error().message;
  const auto certificate = verify_certificate(*text);
  ASSERT_TRUE(static_cast<bool>(certificate)) << certificate.error().message;
  EXPECT_EQ(certificate->plugin_name, "cpu");
  EXPECT_EQ(certificate->plugin_sha256, report->identity.sha256);
  ASSERT_EQ(certificate->tiers.size(), 2u);
  EXPECT_EQ(certificate->tiers[0].passed, report->count(Tier::kStatic, Outcome::kPassed));
  EXPECT_TRUE(certificate->conforms);
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace crucible::conformance
