// Every broken plugin in one process, one after the other: each is refused with its reason, and the host is alive and
// unchanged at the end. Prints the table of docs/plugin-loading.md (what it does | what the user sees).
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <cfenv>
#include <clocale>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <regex>
#include <string>

#include "plugins/loader/examine.hpp"
#include "plugins/loader/testing/broken_kinds.hpp"
#include "plugins/loader/testing/fixture.hpp"

namespace crucible::backend {
namespace {

using testing::HasSubstr;
using testing::Test;

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kSanitized = true;  // its memory has no limit: see crucible-probe
#else
constexpr bool kSanitized = false;
#endif

LoadPolicy policy_of(std::string_view kind, const std::filesystem::path& cache) {
  LoadPolicy policy;
  policy.cache_folder = cache;
  policy.trust = TrustPolicy::kEnforce;
  if (kind.ends_with("_loops")) policy.probe_time_limit = std::chrono::milliseconds(500);
  if (kind.ends_with("_hogs")) policy.probe_memory_bytes = std::uint64_t{256} << 20;
  return policy;
}

/// What the user sees of one plugin: the error of loading or starting it, or its warnings.
struct Seen {
  Verdict verdict = Verdict::kLoads;
  std::string text;
};

Seen use(const std::filesystem::path& path, const LoadPolicy& policy) {
  DecisionLog log;
  const Candidate candidate = explicit_candidate(path);
  const auto examined = examine_candidate(candidate, policy, log);
  if (!examined) {
    EXPECT_EQ(log.all().back().outcome, Outcome::kRefused);  // never without a record
    EXPECT_EQ(log.all().back().reason, examined.error().message);
    return {Verdict::kRefused, examined.error().message};
  }
  const auto backend = load_examined(*examined, {}, log);
  if (!backend) return {Verdict::kRefused, backend.error().message};
  if (const auto devices = (*backend)->devices(); !devices) return {Verdict::kFailsAtStart, devices.error().message};
  if (!examined->warnings.empty()) return {Verdict::kLoadsWithWarning, examined->warnings.front()};
  return {Verdict::kLoads, ""};
}

std::string without_path(std::string text, const std::filesystem::path& path) {
  const std::string before = "plugin " + path.string();
  if (text.starts_with(before)) text.erase(0, before.size() + (text[before.size()] == ':' ? 2 : 1));
  return std::regex_replace(text, std::regex("0x7f[0-9a-f]{10}"), "0x7f...");  // an address of this run
}

TEST_F(LoaderFiles, AllBrokenPluginsInOneProcess) {
  std::string table = "| what it does | what the user sees |\n|---|---|\n";
  struct sigaction handler_before = {}, handler_after = {};
  sigaction(SIGSEGV, nullptr, &handler_before);
  const auto folder_before = std::filesystem::current_path();
  for (const BrokenKind& kind : kBrokenKinds) {
    if (kSanitized && kind.kind.ends_with("_hogs")) continue;
    SCOPED_TRACE(kind.kind);
    const auto path = copy_plugin(std::string(kind.kind));
    const Seen seen = use(path, policy_of(kind.kind, cache()));
    EXPECT_EQ(seen.verdict, kind.verdict) << seen.text;
    EXPECT_THAT(seen.text, HasSubstr(std::string(kind.sees)));
    const std::string words = without_path(seen.text, path);
    table += "| " + std::string(kind.does) + " | " + (words.empty() ? "it loads" : words) + " |\n";
  }
  // The host is what it was, and works.
  sigaction(SIGSEGV, nullptr, &handler_after);
  EXPECT_EQ(handler_before.sa_handler, handler_after.sa_handler);
  EXPECT_STREQ(std::setlocale(LC_ALL, nullptr), "C");
  EXPECT_EQ(std::fegetround(), FE_TONEAREST);
  EXPECT_EQ(std::filesystem::current_path(), folder_before);
  const Seen good = use(copy_plugin("sound"), policy_of("sound", cache()));
  EXPECT_EQ(good.verdict, Verdict::kLoads) << good.text;
  std::cout << table;  // fails to print, and so to pass, when standard output is gone
  EXPECT_TRUE(std::cout.good());
  std::ofstream("broken_plugins.md") << table;
}

TEST_F(LoaderFiles, TheTableOfTheDocumentIsComplete) {
  std::ifstream stream(CRUCIBLE_LOADING_PAGE);
  const std::string page((std::istreambuf_iterator<char>(stream)), std::istreambuf_iterator<char>());
  for (const BrokenKind& kind : kBrokenKinds) {
    EXPECT_THAT(page, HasSubstr("| " + std::string(kind.does) + " | "))
        << "copy broken_plugins.md of this test's folder into docs/plugin-loading.md";
  }
}

TEST_F(LoaderFiles, ADriverThatCrashesAtItsStartIsSeenInAChild) {
  for (const auto& [kind, words] :
       {std::pair("init_segfaults", "crashed with SIGSEGV (Segmentation fault) while the probe was starting it"),
        std::pair("init_exits", "ended the process with exit code 0 while the probe was starting it"),
        std::pair("devices_aborts", "crashed with SIGABRT (Aborted) while the probe was listing its devices"),
        std::pair("devices_loops", "did not answer within 500 ms while the probe was listing its devices")}) {
    DecisionLog log;
    const LoadPolicy policy = policy_of(kind, cache());
    const auto examined = examine_candidate(explicit_candidate(copy_plugin(kind)), policy, log);
    ASSERT_TRUE(examined.has_value()) << examined.error().message;
    const auto devices = probe_devices(*examined, {}, policy, log);
    ASSERT_FALSE(devices.has_value()) << kind;
    EXPECT_THAT(devices.error().message, HasSubstr(words));
    EXPECT_EQ(log.all().back().step, Step::kInit);
    EXPECT_EQ(log.all().back().outcome, Outcome::kRefused);
  }
}

}  // namespace
}  // namespace crucible::backend
