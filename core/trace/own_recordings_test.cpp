// A recording is the user's own while it is the file that was remembered.
#include "core/trace/own_recordings.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "core/trace/trace_samples.hpp"

namespace crucible::trace {
namespace {

class OwnRecordings : public testing::Test {
 protected:
  void SetUp() override {
    setenv("XDG_STATE_HOME", (folder_ / "state").c_str(), 1);
    std::ofstream(file_) << "a recording";
  }
  void TearDown() override { unsetenv("XDG_STATE_HOME"); }
  const samples::Folder temporary_;
  const std::filesystem::path folder_ = temporary_.path(), file_ = folder_ / "a.crtrace",
                              list_ = folder_ / "state/crucible/recorded";
};

TEST_F(OwnRecordings, WhatWasNotRememberedIsAStrangers) {
  EXPECT_FALSE(is_own_recording(file_));
  EXPECT_FALSE(is_own_recording(folder_));
  EXPECT_FALSE(is_own_recording(folder_ / "absent"));
  remember_recording(folder_ / "absent");
  EXPECT_FALSE(std::filesystem::exists(list_));
}

TEST_F(OwnRecordings, IsOwnUntilItChanges) {
  struct stat status = {};
  ASSERT_EQ(stat(file_.c_str(), &status), 0);
  const mode_t mode = status.st_mode;
  remember_recording(file_);
  EXPECT_TRUE(is_own_recording(file_));
  std::filesystem::copy_file(file_, folder_ / "copy.crtrace");
  EXPECT_FALSE(is_own_recording(folder_ / "copy.crtrace"));
  ASSERT_EQ(stat(file_.c_str(), &status), 0);
  EXPECT_EQ(status.st_mode, mode);
  ASSERT_EQ(stat(list_.c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777u, 0600u);
  // Other bytes of the same number, and the time of change put back: the system's own time is not.
  struct stat before = {};
  ASSERT_EQ(stat(file_.c_str(), &before), 0);
  usleep(20'000);  // the system counts such times in ticks
  std::ofstream(file_) << "a recOrding";
  const timespec times[] = {before.st_atim, before.st_mtim};
  ASSERT_EQ(utimensat(AT_FDCWD, file_.c_str(), times, 0), 0);
  EXPECT_FALSE(is_own_recording(file_));
  remember_recording(file_);
  EXPECT_TRUE(is_own_recording(file_));
}

TEST_F(OwnRecordings, AListThatOthersCouldHaveWrittenSaysNothing) {
  remember_recording(file_);
  ASSERT_EQ(chmod(list_.c_str(), 0620), 0);
  EXPECT_FALSE(is_own_recording(file_));
  ASSERT_EQ(chmod(list_.c_str(), 0600), 0);
  EXPECT_TRUE(is_own_recording(file_));
  std::filesystem::rename(list_, folder_ / "elsewhere");
  std::filesystem::create_symlink(folder_ / "elsewhere", list_);
  EXPECT_FALSE(is_own_recording(file_));
  remember_recording(file_);  // not through the link
  EXPECT_FALSE(is_own_recording(file_));
  std::filesystem::remove(list_);
  std::ofstream(list_) << "something else\n\n";
  chmod(list_.c_str(), 0600);
  remember_recording(file_);
  EXPECT_TRUE(is_own_recording(file_));
}

TEST_F(OwnRecordings, TheOldestAreForgotten) {
  remember_recording(file_);
  std::ofstream list(list_, std::ios::app);
  for (int i = 0; i < 4095; ++i) list << "another " << i << "\n";
  list.close();
  EXPECT_TRUE(is_own_recording(file_));
  std::ofstream(folder_ / "b.crtrace") << "another one";
  remember_recording(folder_ / "b.crtrace");
  EXPECT_FALSE(is_own_recording(file_));
  EXPECT_TRUE(is_own_recording(folder_ / "b.crtrace"));
}

}  // namespace
}  // namespace crucible::trace
