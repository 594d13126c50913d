// `crucible trace recover` as a user meets it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "core/trace/recover.hpp"
#include "core/trace/stream_writer.hpp"
#include "core/trace/trace_samples.hpp"
#include "tests/cli/run_command.hpp"

namespace crucible::trace {
namespace {

using ::testing::HasSubstr;

class RecoverCommand : public ::testing::Test {
 protected:
  RecoverCommand() : path_((folder_ / "a.crtrace").string()) {}

  /// What a recording leaves that ends in the middle of its last iteration.
  void leave_unfinished() {
    const auto writer = StreamWriter::create(path_, {});
    ASSERT_TRUE(writer);
    samples::stream(samples::scalar_trace({0.1, 0.2, 0.3}), **writer, false);
  }

  samples::Folder folder_;
  std::string path_;
};

TEST_F(RecoverCommand, SaysWhatItHasMade) {
  leave_unfinished();
  const CommandOutcome outcome = run_command("trace recover " + path_);
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("recovered " + path_ + ": 2 complete iterations, 2 ops, "));
  EXPECT_EQ(folder_.listing(), "a.crtrace\n");
  EXPECT_EQ(run_command("trace check " + path_).code, 0);
  const CommandOutcome info = run_command("trace info " + path_);
  EXPECT_THAT(info.out, HasSubstr("incomplete    recovered after the recorder was ended"));
}

TEST_F(RecoverCommand, JsonAndAnotherFile) {
  leave_unfinished();
  const std::string other = (folder_ / "b.crtrace").string();
  const CommandOutcome outcome = run_command("trace recover " + path_ + " -o " + other + " --json");
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  const auto document = nlohmann::json::parse(outcome.out);
  EXPECT_EQ(document["file"], other);
  EXPECT_EQ(document["iterations"], 2);
  EXPECT_EQ(document["ops"], 2);
  EXPECT_EQ(document["file_bytes"], std::filesystem::file_size(other));
  EXPECT_EQ(document["damage"], "");
  EXPECT_EQ(document["was_finished"], false);
  EXPECT_TRUE(document.contains("lost_ops"));
  EXPECT_EQ(folder_.listing(), "b.crtrace\n");
}

TEST_F(RecoverCommand, NothingToRecoverIsExitThree) {
  const CommandOutcome outcome = run_command("trace recover " + path_);
  EXPECT_EQ(outcome.code, 3);
  EXPECT_EQ(outcome.out, "");
  EXPECT_EQ(outcome.err, "crucible: error: cannot recover " + path_ + ": there is no " + path_ +
                             ".journal; a recording that was finished leaves none\n");
  EXPECT_EQ(folder_.listing(), "");
  EXPECT_THAT(run_command("trace recover --help").out, HasSubstr("crucible trace recover step.crtrace"));
  EXPECT_EQ(run_command("trace recover").code, 2);
}

}  // namespace
}  // namespace crucible::trace
