// The memory of probes: what is remembered, and everything that makes it ask again.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <fstream>
#include <string>
#include <thread>

#include "plugins/loader/examine.hpp"
#include "plugins/loader/probe.hpp"
#include "plugins/loader/probe_record.hpp"
#include "plugins/loader/testing/fixture.hpp"

namespace crucible::backend {
namespace {

using std::filesystem::path;
using testing::HasSubstr;

/// Lines that an earlier version wrote, with a value in each field.
TEST(ProbeRecord, LinesAreReadAndWrittenAsEver) {
  const std::string step =
      R"({"code":3,"only_of_the_file":true,"outcome":2,"reason":"it \"lacks\" a library","step":4,"time_ns":7})";
  const std::string facts =
      R"({"facts":{"abi_major":1,"abi_minor":3,"build_id":"b","name":"acme",)"
      R"("options":[{"choices":["a","b"],"default":"a",)"
      R"("env":"ACME_MODE","folder":"harmless","help":"how","name":"mode","type":"choice"},{"choices":[],"default":"",)"
      R"("env":"","help":"","max":9,"min":1,"name":"size","type":"u64"}],"vendor":"nobody","version":"1.2"}})";
  const std::string device = R"({"device":{"emulated":true,"id":"0","kind":"gpu","memory_bytes":5,"name":"card",)"
                             R"("pci":"0000:65:00.0","threads":4,"uuid":"u"}})";
  ProbeAnswer answer;
  for (const std::string& line : {step, facts, device}) ASSERT_TRUE(take_line(line, answer)) << line;
  EXPECT_EQ(step_line(answer.steps.at(0)), step);
  EXPECT_EQ(facts_line(answer.facts.value()), facts);
  EXPECT_EQ(device_line(answer.devices.at(0)), device);
  EXPECT_FALSE(take_line(R"({"device":{"id":"1"}})", answer));
  EXPECT_EQ(answer.devices.size(), 1u);
}

class ProbeCache : public LoaderFiles {
 protected:
  /// True when the answer about `plugin` came from the cache.
  bool is_remembered(const path& plugin) {
    DecisionLog log;
    (void)examine(plugin, policy(), log).has_value();
    return log.all().back().reason.find("remembered") != std::string::npos;
  }
  path entry() const {
    for (const auto& file : std::filesystem::directory_iterator(cache() / "probe")) return file.path();
    return {};
  }
};

TEST_F(ProbeCache, RemembersTheSameFileOnly) {
  const path plugin = copy_plugin("sound");
  EXPECT_FALSE(is_remembered(plugin));
  EXPECT_TRUE(is_remembered(plugin));
  DecisionLog log;
  const auto facts = examine(plugin, policy(), log);
  ASSERT_TRUE(facts.has_value());
  EXPECT_EQ(facts->name, "sound");
  EXPECT_EQ(facts->version, "1.0");
  chmod(plugin.c_str(), 0700);  // the time of its last change of state
  EXPECT_FALSE(is_remembered(plugin));
  EXPECT_TRUE(is_remembered(plugin));
  copy_plugin("sound");  // written anew
  EXPECT_FALSE(is_remembered(plugin));
}

TEST_F(ProbeCache, AsksAgainWhenAnEntryIsDamaged) {
  const path plugin = copy_plugin("sound");
  EXPECT_FALSE(is_remembered(plugin));
  const auto size = std::filesystem::file_size(entry());
  std::string content(size, '\0');
  std::ifstream(entry(), std::ios::binary).read(content.data(), static_cast<std::streamsize>(size));
  for (std::size_t at : {std::size_t{0}, std::size_t{20}, content.size() / 2, content.size() - 2}) {
    std::string damaged = content;
    damaged[at] = static_cast<char>(damaged[at] ^ 1);
    std::ofstream(entry(), std::ios::binary | std::ios::trunc) << damaged;
    EXPECT_FALSE(is_remembered(plugin)) << at;
    EXPECT_TRUE(is_remembered(plugin)) << at;
  }
  std::ofstream(entry(), std::ios::trunc) << content.substr(0, content.size() / 2);
  EXPECT_FALSE(is_remembered(plugin));
  std::ofstream(entry(), std::ios::trunc) << "";
  EXPECT_FALSE(is_remembered(plugin));
}

TEST_F(ProbeCache, DoesNotBelieveAnEntryThatOthersCanWrite) {
  const path plugin = copy_plugin("sound");
  EXPECT_FALSE(is_remembered(plugin));
  chmod(entry().c_str(), 0666);
  EXPECT_FALSE(is_remembered(plugin));
  EXPECT_TRUE(is_remembered(plugin));  // it was written anew
}

TEST_F(ProbeCache, RemembersRefusalsOfTheFileAlone) {
  const path text = folder() / "libcrucible_text.so";
  std::ofstream(text) << "no plugin";
  EXPECT_FALSE(is_remembered(text));
  EXPECT_TRUE(is_remembered(text));
  const path crashing = copy_plugin("query_segfaults");  // a driver may be mended
  EXPECT_FALSE(is_remembered(crashing));
  EXPECT_FALSE(is_remembered(crashing));
}

TEST_F(ProbeCache, AFolderThatCannotBeWrittenIsNoError) {
  const path plugin = copy_plugin("sound");
  LoadPolicy policy = this->policy();
  policy.cache_folder = "/proc/nowhere";
  DecisionLog log;
  EXPECT_TRUE(examine(plugin, policy, log).has_value());
  EXPECT_TRUE(examine(plugin, policy, log).has_value());
}

TEST_F(ProbeCache, ManyMayProbeOneFileAtOnce) {
  const path plugin = copy_plugin("sound");
  std::vector<std::thread> threads;
  std::atomic<int> good{0};
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([&] {
      DecisionLog log;
      good += examine(plugin, policy(), log).has_value() ? 1 : 0;
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(good, 8);
  EXPECT_TRUE(is_remembered(plugin));
  int files = 0;
  for ([[maybe_unused]] const auto& file : std::filesystem::directory_iterator(cache() / "probe")) ++files;
  EXPECT_EQ(files, 1);  // no fresh ones are left
}

TEST_F(ProbeCache, WithoutAProbeTheFileIsInspectedHere) {
  LoadPolicy policy = this->policy();
  policy.probe = false;
  DecisionLog log;
  const auto examined = examine_candidate(explicit_candidate(copy_plugin("sound")), policy, log);
  ASSERT_TRUE(examined.has_value());
  EXPECT_FALSE(examined->probed);
  EXPECT_EQ(log.all().back().step, Step::kProbe);
  EXPECT_EQ(log.all().back().outcome, Outcome::kSkipped);
  EXPECT_TRUE(load_examined(*examined, {}, log).has_value());
}

// It took kernels as texts, and ran plans by a call that no host makes any more.
TEST_F(ProbeCache, APluginOfAnOlderMinorIsRefusedInWords) {
  const path plugin = copy(CRUCIBLE_OLD_PLUGIN, "cpu");
  DecisionLog log;
  const auto backend = load(explicit_candidate(plugin), {}, policy(), log);
  ASSERT_FALSE(backend.has_value());
  EXPECT_EQ(backend.error().code, ErrorCode::kUnavailable);
  EXPECT_THAT(
      backend.error().message,
      HasSubstr("speaks ABI 0.1, and this host takes plugins from 0.4 on: kernels come as kernel IR alone since "
                "then; use a newer version of the plugin, or rebuild it against crucible_plugin.h 0.7"));
}

}  // namespace
}  // namespace crucible::backend
