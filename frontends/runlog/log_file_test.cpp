// Appending: a chain goes on, and what is there is never changed.
#include "frontends/runlog/log_file.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <csignal>

#include "frontends/runlog/testing/log_samples.hpp"

namespace crucible::runlog {
namespace {

using ::testing::AllOf;
using testing::content_of;
using ::testing::HasSubstr;
using testing::write_text;

class LogFileTest : public ::testing::Test {
 protected:
  void append_run(const std::string& key = "", const std::string& salt = "") {
    Result<LogFile> log = LogFile::open(path_, key);
    ASSERT_TRUE(log) << log.error().message;
    for (const Record& record : testing::sample_run(salt)) log->append(record);
    const Result<void> finished = log->finish();
    EXPECT_TRUE(finished) << finished.error().message;
  }
  std::string refused(const std::string& key = "") {
    const std::string before = content_of(path_);
    const Result<LogFile> log = LogFile::open(path_, key);
    EXPECT_FALSE(log);
    EXPECT_EQ(content_of(path_), before);
    if (log) return "";
    EXPECT_EQ(log.error().code, ErrorCode::kBadInput);
    return log.error().message;
  }

  testing::KeyFolder folder_;
  std::filesystem::path path_ = folder_ / "runs.crlog";
};

TEST_F(LogFileTest, OneRunAfterTheOther) {
  append_run();
  append_run((folder_ / "ours.pem").string(), "other");
  const auto log = read_log(path_);
  ASSERT_TRUE(log) << log.error().message;
  EXPECT_FALSE(log->fault);
  ASSERT_EQ(log->runs.size(), 2u);
  EXPECT_EQ(log->lines[4].record.previous, log->lines[3].hash);
  EXPECT_TRUE(log->lines[3].keys.empty());
  EXPECT_EQ(log->lines[4].keys.size(), 1u);
  struct stat status{};
  ASSERT_EQ(stat(path_.c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0600u);
}

TEST_F(LogFileTest, WhatIsNotWrittenToIsNotLeftBehind) {
  {
    const auto log = LogFile::open(path_, "");
    ASSERT_TRUE(log);
    EXPECT_TRUE(std::filesystem::exists(path_));
  }
  EXPECT_FALSE(std::filesystem::exists(path_));
  write_text(path_, "");
  {
    EXPECT_TRUE(LogFile::open(path_, ""));
  }
  EXPECT_TRUE(std::filesystem::exists(path_)) << "it was there before";
}

TEST_F(LogFileTest, NothingIsAddedToWhatIsNotWhole) {
  append_run();
  const std::string whole = content_of(path_);
  write_text(path_, whole.substr(0, whole.size() - 30));
  EXPECT_THAT(refused(), AllOf(HasSubstr("line 4: it is torn"), HasSubstr("it is left as it is"),
                               HasSubstr("head -n 3 " + path_.string() + " > NEW")));
  std::string changed = whole;
  changed[whole.size() / 2] ^= 1;
  write_text(path_, changed);
  EXPECT_THAT(refused(), HasSubstr("nothing is added to it: name another file"));
  write_text(path_, "my notes\n");
  EXPECT_THAT(refused(), HasSubstr("is no run log"));
}

TEST_F(LogFileTest, ARunThatWasKilledIsFollowedByAnother) {
  write_text(path_, testing::chained({{{}, testing::sample_begin()}, {{}, testing::sample_iteration(0)}}));
  append_run();
  const auto log = read_log(path_);
  ASSERT_TRUE(log && !log->fault);
  ASSERT_EQ(log->runs.size(), 2u);
  EXPECT_FALSE(log->runs[0].end);
  EXPECT_TRUE(log->runs[1].end);
}

TEST_F(LogFileTest, OneWritesAtATime) {
  const auto first = LogFile::open(path_, "");
  ASSERT_TRUE(first);
  const auto second = LogFile::open(path_, "");
  ASSERT_FALSE(second);
  EXPECT_THAT(second.error().message, HasSubstr("another run is writing to it"));
}

TEST_F(LogFileTest, WhereNoneCanBe) {
  EXPECT_THAT(LogFile::open(folder_ / "", "").error().message, HasSubstr("a log is a file"));
  EXPECT_THAT(LogFile::open("/dev/full", "").error().message, HasSubstr("a log is a file"));
  EXPECT_THAT(LogFile::open(folder_ / "nowhere/a.crlog", "").error().message, HasSubstr("create the folder first"));
  write_text(folder_ / "target", "");
  std::filesystem::create_symlink(folder_ / "target", path_);
  EXPECT_THAT(LogFile::open(path_, "").error().message, HasSubstr("it is a link"));
}

TEST_F(LogFileTest, ASecretKeyIsOnesOwn) {
  const std::string key = (folder_ / "ours.pem").string();
  ASSERT_EQ(chmod(key.c_str(), 0644), 0);
  EXPECT_THAT(LogFile::open(path_, key).error().message, HasSubstr("others can read it"));
  EXPECT_THAT(LogFile::open(path_, key + ".pub").error().message, HasSubstr("others can read it"));
  ASSERT_EQ(chmod((key + ".pub").c_str(), 0600), 0);
  EXPECT_THAT(LogFile::open(path_, key + ".pub").error().message, HasSubstr("no secret Ed25519 key"));
  EXPECT_THAT(LogFile::open(path_, "/nowhere.pem").error().message, HasSubstr("cannot read the key"));
  EXPECT_FALSE(std::filesystem::exists(path_));
}

TEST_F(LogFileTest, AFullDiskLeavesWholeLines) {
  append_run();
  const std::string before = content_of(path_);
  Result<LogFile> log = LogFile::open(path_, "");
  ASSERT_TRUE(log);
  rlimit limit{};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &limit), 0);
  const auto action = std::signal(SIGXFSZ, SIG_IGN);
  const rlimit small = {before.size() + 500, limit.rlim_max};  // in the middle of a line
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
  log->append({{}, testing::sample_begin()});
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &limit), 0);
  std::signal(SIGXFSZ, action);
  log->append({{}, testing::sample_end(0)});  // nothing more is written
  const Result<void> finished = log->finish();
  ASSERT_FALSE(finished);
  EXPECT_EQ(finished.error().code, ErrorCode::kBadInput);
  EXPECT_THAT(finished.error().message, AllOf(HasSubstr("cannot write the log " + path_.string() + ": File too large"),
                                              HasSubstr("What is in it ends before that")));
  EXPECT_EQ(content_of(path_), before);
}

TEST_F(LogFileTest, ALineHasItsLimit) {
  Result<LogFile> log = LogFile::open(path_, "");
  ASSERT_TRUE(log);
  RunBegin begin = testing::sample_begin();
  begin.source.file = std::string(kLineLimit, 'a');
  log->append({{}, begin});
  EXPECT_THAT(log->finish().error().message, HasSubstr("a line would have"));
}

}  // namespace
}  // namespace crucible::runlog
