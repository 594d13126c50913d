// `crucible trace` as a user meets it: output, exit codes and messages of the built program.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "core/trace/trace_file.hpp"
#include "core/trace/trace_samples.hpp"
#include "tests/cli/run_command.hpp"

namespace crucible::trace {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

using Outcome = CommandOutcome;

class TraceCommand : public ::testing::Test {
 protected:
  TraceCommand() : path_((folder_ / "a.crtrace").string()) {}

  Outcome run(const std::string& arguments) {
    return run_command("trace " + arguments);
  }

  samples::Folder folder_;
  std::string path_;
};

TEST_F(TraceCommand, InfoSaysWhatIsInIt) {
  ASSERT_TRUE(write_file(samples::scalar_trace({0.1, 0.2, 0.2}), path_));
  const Outcome outcome = run("info " + path_ + " --json");
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  const auto document = nlohmann::json::parse(outcome.out);
  for (const char* key : {"format_version", "framework", "device", "iterations", "ops", "unique_ops", "tensors",
                          "external_bytes", "slots", "not_recorded", "incomplete_reason", "command",
                          "warmup_iterations", "file_bytes", "externals", "program_hash", "content_hash"}) {
    EXPECT_TRUE(document.contains(key)) << key;
  }
  EXPECT_EQ(document["format_version"], "1.1");
  EXPECT_EQ(document["program_hash"].get<std::string>().size(), 64u);
  EXPECT_NE(document["program_hash"], document["content_hash"]);
  EXPECT_EQ(document["iterations"], 3);
  EXPECT_EQ(document["ops"], 3);
  EXPECT_EQ(document["slots"], 1);
  EXPECT_EQ(document["not_recorded"].size(), 0u);
  const Outcome text = run("info " + path_);
  EXPECT_EQ(text.code, 0);
  EXPECT_THAT(text.out, HasSubstr("iterations    3 after 0 of warm-up, 3 complete\n"));
}

TEST_F(TraceCommand, InfoOfAnIncompleteRecording) {
  ASSERT_TRUE(write_file(samples::small_trace(), path_));
  const auto document = nlohmann::json::parse(run("info " + path_ + " --json").out);
  EXPECT_TRUE(document["slots"].is_null());
  EXPECT_EQ(document["incomplete_reason"], "raised ValueError");
  EXPECT_EQ(document["externals"]["parameter"]["count"], 1);
  EXPECT_EQ(document["not_recorded"][0]["what"], "an op on another thread");
}

TEST_F(TraceCommand, OpsShowsExactArguments) {
  ASSERT_TRUE(write_file(samples::scalar_trace({0.1, 0.25}), path_));
  const Outcome first = run("ops " + path_);
  EXPECT_EQ(first.code, 0) << first.err;
  EXPECT_EQ(
      first.out,
      "iteration 0: 1 op\n"
      "     0  forward    head  train.py:5  aten::add.Scalar(self=f32[4, 32]@0, other=0.1, alpha=1) -> f32[4, 32]@1\n");
  EXPECT_THAT(run("ops " + path_ + " --iteration 1").out, HasSubstr("other=0.25"));
  const auto all = nlohmann::json::parse(run("ops " + path_ + " --all --json").out);
  ASSERT_EQ(all["ops"].size(), 2u);
  EXPECT_EQ(all["ops"][1]["args"][1]["name"], "other");
  EXPECT_EQ(all["ops"][1]["args"][1]["value"], 0.25);
  EXPECT_EQ(all["ops"][1]["args"][0]["value"]["sizes"], (std::vector<int>{4, 32}));
  EXPECT_THAT(run("ops " + path_ + " --all --summary").out,
              HasSubstr("    2        2         0          0  aten::add.Scalar\n"));
}

TEST_F(TraceCommand, OpsOfAnIterationThatIsNotThere) {
  ASSERT_TRUE(write_file(samples::scalar_trace({0.1}), path_));
  const Outcome outcome = run("ops " + path_ + " --iteration 7");
  EXPECT_EQ(outcome.code, 2);
  EXPECT_THAT(outcome.err, HasSubstr("has no iteration 7: it has 1, counted from 0"));
  EXPECT_EQ(run("ops " + path_ + " --iteration 0 --all").code, 2);
}

TEST_F(TraceCommand, CheckOfAGoodFile) {
  ASSERT_TRUE(write_file(samples::small_trace(), path_));
  const Outcome outcome = run("check " + path_);
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(outcome.out, "ok: 18 sections, 3 blobs, " + std::to_string(std::filesystem::file_size(path_)) + " bytes\n");
}

TEST_F(TraceCommand, BadFilesAreExitThree) {
  ASSERT_TRUE(write_file(samples::small_trace(), path_));
  const std::vector<std::byte> good = samples::read_bytes(path_);
  std::vector<std::byte> flipped = good;
  flipped[980] ^= std::byte{1};  // in the first blob
  samples::write_bytes(path_, flipped);
  const Outcome damaged = run("check " + path_);
  EXPECT_EQ(damaged.code, 3);
  EXPECT_EQ(damaged.out, "");
  EXPECT_THAT(damaged.err, StartsWith("crucible: error: "));
  EXPECT_THAT(damaged.err, HasSubstr("section 'blobs' is damaged: blob 0: its checksum does not match"));
  for (const char* command : {"info ", "ops ", "check "}) {
    samples::write_bytes(path_, std::span(good).first(good.size() - 1));
    const Outcome cut = run(command + path_);
    EXPECT_EQ(cut.code, 3) << command;
    EXPECT_THAT(cut.err, HasSubstr("section 'op_hashes' is truncated")) << command;
    samples::write_bytes(path_, {});
    EXPECT_THAT(run(command + path_).err, HasSubstr("the file is empty (0 bytes)")) << command;
    const Outcome missing = run(command + path_ + ".none --json");
    EXPECT_EQ(missing.code, 3) << command;
    EXPECT_THAT(missing.err, HasSubstr("No such file or directory; check the path")) << command;
  }
}

TEST_F(TraceCommand, WrongUseIsExitTwo) {
  EXPECT_EQ(run("").code, 2);
  EXPECT_EQ(run("info").code, 2);
  EXPECT_EQ(run("dance " + path_).code, 2);
  EXPECT_EQ(run("info --help").code, 0);
}

}  // namespace
}  // namespace crucible::trace
