// `crucible plugin check` from outside: exit codes, what goes to which stream, the files that it writes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/wait.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>

#include "plugins/loader/verify_certificate.hpp"

namespace crucible::conformance {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;

class PluginCheck : public testing::Test {
 protected:
  PluginCheck() {
    std::string name = (std::filesystem::temp_directory_path() / "crucible-check-test-XXXXXX").string();
    if (mkdtemp(name.data()) != nullptr) folder_ = name;
  }
  ~PluginCheck() override { std::filesystem::remove_all(folder_); }

  struct Answer {
    int code = -1;
    std::string out, error;
  };
  std::string text_of(const std::filesystem::path& path) {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  Answer run(const std::string& arguments) {
    const std::string command = std::string(CRUCIBLE_COMMAND) + " plugin check " + arguments + " >" +
                                (folder_ / "out").string() + " 2>" + (folder_ / "error").string();
    const int status = std::system(command.c_str());
    return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, text_of(folder_ / "out"), text_of(folder_ / "error")};
  }
  std::filesystem::path folder_;
  const std::string cpu_ = CRUCIBLE_CPU_PLUGIN;
};

TEST_F(PluginCheck, PassesWithZero) {
  const Answer answer = run(cpu_ + " --tier static");
  EXPECT_EQ(answer.code, 0) << answer.out << answer.error;
  EXPECT_THAT(answer.out, HasSubstr("PASSED: 6 cases, 6 passed"));
  EXPECT_THAT(answer.error, IsEmpty());  // no live line where there is no terminal
}

TEST_F(PluginCheck, FailsWithOneAndSaysHowToRunTheCaseAlone) {
  const Answer answer = run(std::string(CRUCIBLE_SECOND_EXPORT_PLUGIN) + " --tier static");
  EXPECT_EQ(answer.code, 1);
  EXPECT_THAT(answer.error, HasSubstr("failed: static.exports.query_alone"));
  EXPECT_THAT(answer.out, HasSubstr("--filter '^static.exports.query_alone$'"));
}

TEST_F(PluginCheck, UsageIsTwo) {
  EXPECT_EQ(run("").code, 2);
  EXPECT_EQ(run(cpu_ + " --tier nonsense").code, 2);
  EXPECT_EQ(run(cpu_ + " --filter '('").code, 2);
  EXPECT_EQ(run(cpu_ + " --filter '^no such case$'").code, 2);
  EXPECT_EQ(run(cpu_ + " --set novalue").code, 2);
  EXPECT_EQ(run(cpu_ + " --certificate " + (folder_ / "c").string()).code, 2);
}

/// An option's variable counts in the kit as in a host; --set is stronger, and a misspelt one is refused.
TEST_F(PluginCheck, OptionsComeFromTheirVariablesAndFromSet) {
  setenv("CRUCIBLE_THREADS", "3", 1);
  setenv("CRUCIBLE_STORE_DIR", (folder_ / "of the user").c_str(), 1);  // compiled kernels are those of the run
  const Answer by_variable = run(cpu_ + " --filter '^negotiation.options' --json");
  const Answer by_set = run("--set threads=2 " + cpu_ + " --filter '^negotiation.options'");
  setenv("CRUCIBLE_THREADS", "many", 1);
  const Answer wrong = run(cpu_ + " --filter '^behaviour.kernel.scalars$'");
  unsetenv("CRUCIBLE_THREADS");
  unsetenv("CRUCIBLE_STORE_DIR");
  EXPECT_FALSE(std::filesystem::exists(folder_ / "of the user"));
  const auto document = nlohmann::json::parse(by_variable.out, nullptr, false);
  ASSERT_TRUE(document.is_object()) << by_variable.error;
  EXPECT_EQ(document["options"].dump(), R"([{"from":"CRUCIBLE_THREADS","name":"threads","value":"3"}])");
  EXPECT_THAT(by_set.out, HasSubstr("\nwith threads = 2 (--set)\n"));
  EXPECT_EQ(wrong.code, 4) << wrong.out;  // the plugin was given it
  EXPECT_THAT(wrong.error, HasSubstr("threads"));
  const Answer misspelt = run(cpu_ + " --set thread=2 --tier static");
  EXPECT_EQ(misspelt.code, 2);
  EXPECT_THAT(misspelt.error, HasSubstr("--set thread: the plugin has no such option; it has "));
}

TEST_F(PluginCheck, WhatIsNoPluginIsThreeAndWhatDoesNotLoadIsFour) {
  EXPECT_EQ(run("/etc/passwd").code, 3);
  EXPECT_EQ(run("/no/such/file.so").code, 3);
  EXPECT_EQ(run(cpu_ + " --exclude /no/such/file").code, 3);
  const Answer absent = run(cpu_ + " --device cpu:9");
  EXPECT_EQ(absent.code, 4);
  EXPECT_THAT(absent.error, HasSubstr("it has cpu:0"));
  // Cut behind its headers: an ELF file that the dynamic loader does not take.
  const std::filesystem::path cut = folder_ / "libcrucible_cut.so";
  std::filesystem::copy_file(cpu_, cut);
  std::filesystem::resize_file(cut, std::filesystem::file_size(cut) / 2);
  const Answer refused = run(cut.string());
  EXPECT_TRUE(refused.code == 3 || refused.code == 4) << refused.code << refused.error;
}

TEST_F(PluginCheck, JsonIsOneDocument) {
  const Answer answer = run(cpu_ + " --tier static,negotiation --json");
  EXPECT_EQ(answer.code, 0);
  const auto document = nlohmann::json::parse(answer.out, nullptr, false);
  ASSERT_TRUE(document.is_object());
  EXPECT_EQ(document["failed"], 0);
  EXPECT_EQ(document["passed"], document["cases"].size());
  EXPECT_EQ(document["plugin"]["name"], "cpu");
}

TEST_F(PluginCheck, ListRunsNothing) {
  const Answer answer = run("--list --tier ops --json");
  EXPECT_EQ(answer.code, 0);
  const auto document = nlohmann::json::parse(answer.out, nullptr, false);
  ASSERT_TRUE(document.is_object());
  EXPECT_GT(document["cases"].size(), 45u);
}

TEST_F(PluginCheck, WritesJunitAndACertificate) {
  const std::string key = (folder_ / "key.pem").string(), certificate = (folder_ / "c.json").string(),
                    junit = (folder_ / "j.xml").string();
  EXPECT_EQ(run("--make-key " + key).code, 0);
  EXPECT_EQ(run("--make-key " + key).code, 3);  // never over another key
  const Answer answer =
      run(cpu_ + " --tier static --junit " + junit + " --certificate " + certificate + " --key " + key);
  EXPECT_EQ(answer.code, 0) << answer.error;
  EXPECT_THAT(text_of(junit), HasSubstr("<testsuite name=\"static\" tests=\"6\" failures=\"0\""));
  const auto verified = verify_certificate(text_of(certificate));
  ASSERT_TRUE(static_cast<bool>(verified)) << verified.error().message;
  EXPECT_EQ(verified->tiers.size(), 1u);
}

TEST_F(PluginCheck, ExclusionsComeFromAFile) {
  std::ofstream(folder_ / "x.json")
      << R"([{"case": "static.exports.*", "kind": "expected-to-fail", "reason": "two symbols"}])";
  const std::string exclude = " --tier static --exclude " + (folder_ / "x.json").string();
  const Answer known = run(std::string(CRUCIBLE_SECOND_EXPORT_PLUGIN) + exclude);
  EXPECT_EQ(known.code, 0) << known.out;
  const Answer unexpected = run(cpu_ + exclude);
  EXPECT_EQ(unexpected.code, 1);
  EXPECT_THAT(unexpected.out, HasSubstr("unexpected pass: static.exports.query_alone"));
}

}  // namespace
}  // namespace crucible::conformance
