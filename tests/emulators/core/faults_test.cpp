// The grammar of faults, how rules count, and the log.
#include "tests/emulators/core/faults.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "tests/emulators/core/settings.hpp"

namespace crucible::emulator {
namespace {

using ::testing::HasSubstr;

Rule one(std::string_view text) {
  auto rules = parse_faults(text);
  EXPECT_TRUE(rules) << rules.error();
  return rules && rules->size() == 1 ? rules->front() : Rule{};
}

TEST(EmulatorFaults, TheGrammarsParts) {
  const Rule oom = one("oom@alloc#3");
  EXPECT_EQ(oom.action, Action::kOom);
  EXPECT_EQ(oom.site, Site::kAlloc);
  EXPECT_EQ(oom.when, When::kNth);
  EXPECT_EQ(oom.n, 3u);
  EXPECT_EQ(oom.glob, "*");

  const Rule flip = one(" flip:arg=1, byte=103,bit=5 @ launch(gelu*) #2+ ");
  EXPECT_EQ(flip.action, Action::kFlip);
  EXPECT_EQ(flip.glob, "gelu*");
  EXPECT_EQ(flip.arg, 1u);
  EXPECT_EQ(flip.byte, 103u);
  EXPECT_EQ(flip.bit, 5u);
  EXPECT_EQ(flip.when, When::kFromNth);

  EXPECT_EQ(one("hang:300ms@launch(ew)%4").wait_ms, 300.0);
  EXPECT_EQ(one("hang:300ms@launch(ew)%4").when, When::kEveryNth);
  EXPECT_EQ(one("hang@sync").wait_ms, std::nullopt);
  EXPECT_EQ(one("slow:0.01GBps@copy").gigabytes_per_second, 0.01);
  EXPECT_EQ(one("fail:code=hipErrorNoDevicems@init").code, "hipErrorNoDevicems");
  EXPECT_EQ(one("hot:celsius=97@query").celsius, 97u);
  EXPECT_EQ(one("ecc:count=2,corrected=9@query").count, 2u);
  EXPECT_EQ(one("ecc:count=2,corrected=9@query").corrected, 9u);
  EXPECT_EQ(one("xid:number=31@query").number, 31u);
  EXPECT_EQ(parse_faults("")->size(), 0u);
  EXPECT_EQ(parse_faults("lost@launch; ;trap@launch;")->size(), 2u);
}

TEST(EmulatorFaults, EveryActionAndSiteIsKnownByItsName) {
  for (const char* action : {"oom", "fail", "lost", "hang", "trap", "flip"}) {
    EXPECT_EQ(name(one(std::string(action) + "@init").action), action);
  }
  for (const char* action : {"hot", "ecc", "xid", "deny", "missing"}) {
    EXPECT_EQ(name(one(std::string(action) + "@query").action), action);
  }
  for (const char* site :
       {"init", "alloc", "free", "copy", "compile", "load", "launch", "sync", "record", "submit", "query"}) {
    EXPECT_EQ(name(one("lost@" + std::string(site)).site), site);
  }
}

TEST(EmulatorFaults, AMisspeltRuleIsNamed) {
  const std::pair<const char*, const char*> wrong[] = {
      {"oom", "rule 'oom': there is no '@'"},
      {"ooom@alloc",
       "no action 'ooom': there are oom, fail, lost, hang, trap, flip, slow, hot, ecc, xid, deny, missing"},
      {"oom@malloc", "no site 'malloc': there are init, alloc"},
      {"oom@alloc#0", "'#0' is none of #n, #n+, %n with n from 1 on"},
      {"oom@alloc#x", "'#x' is none of"},
      {"oom@alloc#", "'#' is none of"},
      {"lost@launch(gemm", "the name's ')' is missing"},
      {"lost@launch()", "the name in '()' is empty"},
      {"lost@launch(a)b", "'b' is none of"},
      {"oom:250ms@alloc", "argument '250ms': only hang and slow have a time"},
      {"hang:1GBps@copy", "argument '1GBps': only slow has a rate"},
      {"slow:0GBps@copy", "argument '0GBps': no rate above 0"},
      {"slow@copy", "slow needs a rate"},
      {"oom:bit=1@alloc", "argument 'bit=1': only flip has it"},
      {"flip:bit=x@launch", "argument 'bit=x': no number"},
      {"flip:bits=1@launch", "argument 'bits=1': arguments are"},
      {"hang:@launch", "argument '': arguments are"},
      {"ecc:celsius=1@query", "argument 'celsius=1': only hot has it"},
      {"hot:celsius=x@query", "argument 'celsius=x': no number"},
      {"hot@launch", "hot is for the site query alone"},
      {"oom@alloc; lost@lunch", "rule 'lost@lunch': no site 'lunch'"}};
  for (const auto& [text, words] : wrong) {
    const auto rules = parse_faults(text);
    ASSERT_FALSE(rules) << text;
    EXPECT_THAT(rules.error(), HasSubstr(words)) << text;
  }
}

TEST(EmulatorFaultsDeathTest, AMisspeltRuleEndsTheProcess) {
  EXPECT_DEATH(
      {
        setenv("CRUCIBLE_EMU_FAULTS", "oom@aloc", 1);
        reload_environment();
      },
      "crucible emulator: CRUCIBLE_EMU_FAULTS: rule 'oom@aloc': no site 'aloc'");
}

std::string fired(std::string_view text, int calls, Site site = Site::kLaunch, std::string_view name = "k") {
  Faults faults(*parse_faults(text), "");
  std::string result;
  for (int i = 0; i < calls; ++i) result += faults.hit(site, name) ? "x" : ".";
  return result;
}

TEST(EmulatorFaults, RulesCountTheirOwnMatches) {
  EXPECT_EQ(fired("lost@launch", 4), "xxxx");
  EXPECT_EQ(fired("lost@launch#3", 5), "..x..");
  EXPECT_EQ(fired("lost@launch#3+", 5), "..xxx");
  EXPECT_EQ(fired("lost@launch%2", 5), ".x.x.");
  EXPECT_EQ(fired("lost@launch(j)", 2), "..");
  EXPECT_EQ(fired("lost@copy", 2), "..");
  EXPECT_EQ(fired("lost@launch(g?mm_*)", 1, Site::kLaunch, "gemm_3"), "x");
}

TEST(EmulatorFaults, RulesOfQueriesDoNotSeeOtherCalls) {
  Faults faults(*parse_faults("hot@query#1; fail@query#1"), "");
  EXPECT_EQ(faults.hit(Site::kQuery, "hipDeviceGetAttribute")->action, Action::kFail);
  constexpr Action kHot[] = {Action::kHot};
  EXPECT_EQ(faults.hit(Site::kQuery, "temperature", kHot)->action, Action::kHot) << "its first match";
}

TEST(EmulatorFaults, TheFirstOfTwoRulesFiresAndBothCount) {
  Faults faults(*parse_faults("trap@launch#2; lost@launch(k)#2+"), "");
  EXPECT_FALSE(faults.hit(Site::kLaunch, "k"));
  EXPECT_EQ(faults.hit(Site::kLaunch, "k")->action, Action::kTrap);
  EXPECT_EQ(faults.hit(Site::kLaunch, "k")->action, Action::kLost);
}

TEST(EmulatorFaults, AFiredRuleIsALineOfTheLog) {
  const std::filesystem::path log =
      std::filesystem::temp_directory_path() / ("crucible-emulator-log-" + std::to_string(getpid()));
  {
    Faults faults(*parse_faults("oom@alloc#2; flip@launch(gelu)"), log.string());
    faults.hit(Site::kAlloc);
    faults.hit(Site::kAlloc, "hipMalloc");
    faults.hit(Site::kLaunch, "gelu");
    faults.note("refused: mma.sync");
  }
  std::ifstream stream(log);
  EXPECT_EQ(std::string(std::istreambuf_iterator<char>(stream), {}),
            "oom@alloc(hipMalloc) match 2\nflip@launch(gelu) match 1\nrefused: mma.sync\n");
  std::filesystem::remove(log);
}

}  // namespace
}  // namespace crucible::emulator
