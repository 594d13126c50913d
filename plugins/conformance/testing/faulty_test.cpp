// Every fault of faults.hpp is found, by the case that is named there.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <thread>

#include "plugins/conformance/check.hpp"
#include "plugins/conformance/testing/faults.hpp"

namespace crucible::conformance {

static void PrintTo(const KnownFault& known, std::ostream* out) { *out << known.fault; }

namespace {

using testing::HasSubstr;

class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string name = (std::filesystem::temp_directory_path() / "crucible-kit-test-XXXXXX").string();
    if (mkdtemp(name.data()) != nullptr) path_ = name;
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  ~TemporaryFolder() {
    std::error_code error;
    std::filesystem::remove_all(path_, error);
  }
  std::filesystem::path path_;
};

/// A copy of the faulty plugin whose name switches the fault on.
std::filesystem::path copy_with(const TemporaryFolder& folder, std::string_view fault) {
  const std::filesystem::path copy = folder.path_ / ("libcrucible_faulty_" + std::string(fault) + ".so");
  std::filesystem::copy_file(fault == "second_export" ? CRUCIBLE_SECOND_EXPORT_PLUGIN : CRUCIBLE_FAULTY_PLUGIN, copy);
  chmod(copy.c_str(), 0755);
  return copy;
}

CheckOptions options_for(const std::filesystem::path& plugin, const std::string& filter) {
  CheckOptions options;
  options.command = {CRUCIBLE_COMMAND, "plugin", "check-case"};
  options.settings.plugin = plugin;
  options.filter = filter;
  options.jobs = std::max(1u, std::thread::hardware_concurrency());
  return options;
}

/// "behaviour.memory.zero_filled" -> the pattern of all cases of behaviour.memory.
std::string group_of(std::string_view name) {
  const std::size_t dot = name.find('.', name.find('.') + 1);
  return "^" + std::string(name.substr(0, std::min(dot, name.size()))) + (dot == std::string_view::npos ? "$" : "\\.");
}

class Faulty : public testing::TestWithParam<KnownFault> {};

TEST_P(Faulty, IsFoundByTheNamedCase) {
  const KnownFault fault = GetParam();
  const TemporaryFolder folder;
  // The group of the case shows that the others do not stop the kit; where every case of it would wait for its time to
  // be over, the case alone is enough.
  const bool waits = fault.fault == "never_signals" || fault.fault == "hangs";
  const std::string filter = waits ? "^" + std::string(fault.found) + "$" : group_of(fault.found);
  CheckOptions options = options_for(copy_with(folder, fault.fault), filter);
  if (fault.fault == "hangs") options.limits.time_factor = 0.1;
  const auto report = check_plugin(options);
  ASSERT_TRUE(static_cast<bool>(report)) << report.error().message;
  EXPECT_FALSE(report->passed());
  const auto found = std::ranges::find(report->cases, fault.found, &CaseResult::name);
  ASSERT_NE(found, report->cases.end());
  EXPECT_EQ(found->outcome, Outcome::kFailed) << found->got;
  EXPECT_FALSE(found->expected.empty());
  EXPECT_FALSE(found->got.empty());
  std::printf("| %s | %s | `%s` | %s |\n", std::string(fault.fault).c_str(), std::string(fault.what).c_str(),
              found->name.c_str(), found->got.substr(0, found->got.find('\n')).c_str());
}

INSTANTIATE_TEST_SUITE_P(Table, Faulty, testing::ValuesIn(kFaults),
                         [](const auto& info) { return std::string(info.param.fault); });

TEST(FaultyPlugin, WithoutAFaultPasses) {
  const TemporaryFolder folder;
  const auto report = check_plugin(options_for(copy_with(folder, "nothing"), "^(?!ops)|^ops.(rsqrt|whole_slots)$"));
  ASSERT_TRUE(static_cast<bool>(report)) << report.error().message;
  EXPECT_TRUE(report->passed()) << to_text(*report, "crucible plugin check");
  EXPECT_GT(report->count(Outcome::kPassed), 120u);
  // A case that finds a fault must pass without it.
  for (const KnownFault& fault : kFaults) {
    const auto found = std::ranges::find(report->cases, fault.found, &CaseResult::name);
    ASSERT_NE(found, report->cases.end()) << fault.found;
    const bool needs_library = fault.found == "claims.library.conv2d";  // unknown, until oneDNN has been tried
    EXPECT_EQ(found->outcome, needs_library ? Outcome::kUnsupported : Outcome::kPassed)
        << fault.found << ": " << found->got;
  }
}

TEST(FaultyPlugin, ThatEverybodyMayWriteIsFound) {
  const TemporaryFolder folder;
  const std::filesystem::path copy = copy_with(folder, "nothing");
  chmod(copy.c_str(), 0757);
  const auto report = check_plugin(options_for(copy, "^static\\.file\\.mode$"));
  ASSERT_TRUE(static_cast<bool>(report)) << report.error().message;
  ASSERT_EQ(report->cases.size(), 1u);
  EXPECT_EQ(report->cases[0].outcome, Outcome::kFailed);
  EXPECT_THAT(report->cases[0].got, HasSubstr("757"));
}

TEST(FaultyPlugin, TableIsOnThePage) {
  std::ifstream file(CRUCIBLE_CONFORMANCE_PAGE);
  const std::string page{std::istreambuf_iterator<char>(file), {}};
  for (const KnownFault& fault : kFaults) {
    const std::string row = "| " + std::string(fault.what) + " | `" + std::string(fault.found) + "` |";
    EXPECT_THAT(page, HasSubstr(row));
  }
}

}  // namespace
}  // namespace crucible::conformance
