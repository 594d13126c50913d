// Who else could change a file: modes, owners, folders above, links.
#include "core/base/file_owners.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <unistd.h>

#include <fstream>

namespace crucible {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class FileOwners : public ::testing::Test {
 protected:
  FileOwners() {
    std::string pattern = (std::filesystem::temp_directory_path() / "crucible-owners-XXXXXX").string();
    EXPECT_NE(mkdtemp(pattern.data()), nullptr);
    folder_ = std::filesystem::canonical(pattern);
    std::filesystem::create_directories(folder_ / "a/b");
    std::ofstream(folder_ / "a/b/file") << "x";
    mode(folder_ / "a", 0755);
    mode(folder_ / "a/b", 0755);
    mode(folder_ / "a/b/file", 0644);
  }
  ~FileOwners() override {
    std::error_code ignored;
    std::filesystem::remove_all(folder_, ignored);
  }
  static void mode(const std::filesystem::path& path, mode_t bits) { ASSERT_EQ(chmod(path.c_str(), bits), 0); }
  std::vector<std::string> doubts(const std::string& name = "a/b/file") {
    return doubts_about(folder_ / name, "the file");
  }

  std::filesystem::path folder_;
};

TEST_F(FileOwners, SoundIsWhatNobodyElseCanWrite) { EXPECT_THAT(doubts(), IsEmpty()); }

TEST_F(FileOwners, TheFileItself) {
  mode(folder_ / "a/b/file", 0666);
  EXPECT_THAT(doubts(), Contains("all users can write the file"));
}

TEST_F(FileOwners, EveryFolderAboveCounts) {
  for (const char* above : {"a/b", "a"}) {
    mode(folder_ / above, 0777);
    EXPECT_THAT(doubts(), Contains("all users can write its folder " + (folder_ / above).string()));
    mode(folder_ / above, 0755);
  }
}

TEST_F(FileOwners, AStickyFolderMayStandAboveAndNotBeTheFilesOwn) {
  mode(folder_ / "a", 01777);
  EXPECT_THAT(doubts(), IsEmpty());
  mode(folder_ / "a/b", 01777);
  EXPECT_THAT(doubts(), Contains(HasSubstr("all users can write its folder")));
}

TEST_F(FileOwners, ALinkCountsWithTheFolderThatItLiesIn) {
  std::filesystem::create_directories(folder_ / "open");
  std::filesystem::create_symlink("../a/b", folder_ / "open/way");
  std::filesystem::create_symlink("open/way/file", folder_ / "link");
  EXPECT_THAT(doubts("link"), IsEmpty());
  mode(folder_ / "open", 0777);
  EXPECT_THAT(doubts("link"), Contains("all users can write its folder " + (folder_ / "open").string()));
  mode(folder_ / "open", 0755);
  mode(folder_ / "a", 0777);  // where the link leads
  EXPECT_THAT(doubts("link"), Contains("all users can write its folder " + (folder_ / "a").string()));
  EXPECT_THAT(doubts("open/way/../b/file"), Contains(HasSubstr((folder_ / "a").string())));
}

TEST_F(FileOwners, WhatLeadsNowhereIsInDoubt) {
  std::filesystem::create_symlink("loop", folder_ / "loop");
  EXPECT_THAT(doubts("loop"), Contains(HasSubstr("cannot be followed")));
  EXPECT_THAT(doubts("nothing"), Contains(HasSubstr("cannot be looked at")));
}

TEST_F(FileOwners, OwnersAndGroups) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can give files away";
  ASSERT_EQ(chown((folder_ / "a/b/file").c_str(), 12345, 0), 0);
  EXPECT_THAT(doubts(), Contains(AllOf(HasSubstr("the file belongs to user 12345"))));
  ASSERT_EQ(chown((folder_ / "a/b/file").c_str(), 0, 12345), 0);
  mode(folder_ / "a/b/file", 0664);
  EXPECT_THAT(doubts(), Contains("group 12345 can write the file"));
  ASSERT_EQ(chown((folder_ / "a/b/file").c_str(), 0, 0), 0);
  EXPECT_THAT(doubts(), IsEmpty());
  ASSERT_EQ(chown((folder_ / "a").c_str(), 12345, 0), 0);  // its owner can rename b
  EXPECT_THAT(doubts(), Contains(HasSubstr("its folder " + (folder_ / "a").string() + " belongs to user 12345")));
  ASSERT_EQ(chown((folder_ / "a").c_str(), 0, 0), 0);
  std::filesystem::create_symlink("a/b/file", folder_ / "theirs");
  ASSERT_EQ(lchown((folder_ / "theirs").c_str(), 12345, 12345), 0);
  EXPECT_THAT(doubts("theirs"),
              Contains(HasSubstr("the link " + (folder_ / "theirs").string() + " belongs to user 12345")));
}

}  // namespace
}  // namespace crucible
