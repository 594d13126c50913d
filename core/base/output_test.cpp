// Files that are written for a user: never through a link, a whole one or none.
#include "core/base/output.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>
#include <iterator>

namespace crucible {
namespace {

using ::testing::HasSubstr;

class Output : public ::testing::Test {
 protected:
  Output() {
    std::string pattern = (std::filesystem::temp_directory_path() / "crucible-output-XXXXXX").string();
    EXPECT_NE(mkdtemp(pattern.data()), nullptr);
    folder_ = pattern;
    std::ofstream(folder_ / "victim") << "theirs";
  }
  ~Output() override {
    std::error_code ignored;
    std::filesystem::remove_all(folder_, ignored);
  }
  std::string read(const char* name) {
    std::ifstream file(folder_ / name, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  std::size_t count() {
    return static_cast<std::size_t>(
        std::distance(std::filesystem::directory_iterator(folder_), std::filesystem::directory_iterator()));
  }
  std::string refusal(const char* name) {
    const Result<void> written = write_output(folder_ / name, "ours");
    return written ? "" : written.error().message;
  }
  std::string append_refusal(const char* name) {
    const Result<int> opened = open_to_append(folder_ / name);
    if (!opened) return opened.error().message;
    EXPECT_EQ(write(*opened, "ours", 4), 4);
    close(*opened);
    return "";
  }

  std::filesystem::path folder_;
};

TEST_F(Output, MakesAndReplacesWholeFiles) {
  EXPECT_EQ(refusal("new"), "");
  EXPECT_EQ(read("new"), "ours");
  ASSERT_EQ(chmod((folder_ / "victim").c_str(), 0600), 0);
  EXPECT_EQ(refusal("victim"), "");
  EXPECT_EQ(read("victim"), "ours");
  struct stat status = {};
  ASSERT_EQ(stat((folder_ / "victim").c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0600u) << "what its owner hid stays hidden";
  EXPECT_EQ(count(), 2u) << "nothing is left over";
}

TEST_F(Output, ALinkIsNotGoneThrough) {
  std::filesystem::create_symlink("victim", folder_ / "link");
  EXPECT_THAT(refusal("link"), HasSubstr("link: it is a link: remove it"));
  EXPECT_THAT(append_refusal("link"), HasSubstr("it is a link"));
  std::filesystem::create_symlink("not_there", folder_ / "dangling");
  EXPECT_THAT(refusal("dangling"), HasSubstr("it is a link"));
  EXPECT_THAT(append_refusal("dangling"), HasSubstr("it is a link"));
  EXPECT_EQ(read("victim"), "theirs");
  EXPECT_FALSE(std::filesystem::exists(folder_ / "not_there"));
}

TEST_F(Output, AnotherNameOfAFileIsNotWrittenInPlace) {
  std::filesystem::create_hard_link(folder_ / "victim", folder_ / "other");
  EXPECT_THAT(append_refusal("other"), HasSubstr("other names too"));
  EXPECT_EQ(refusal("other"), "");  // this name gets a file of its own
  EXPECT_EQ(read("other"), "ours");
  EXPECT_EQ(read("victim"), "theirs");
}

TEST_F(Output, AppendsToWhatIsThere) {
  EXPECT_EQ(append_refusal("victim"), "");
  EXPECT_EQ(read("victim"), "theirsours");
}

TEST_F(Output, DevicesAreWrittenToAndFoldersAreNot) {
  EXPECT_TRUE(write_output("/dev/null", "x"));
  EXPECT_TRUE(std::filesystem::is_character_file("/dev/null"));
  std::filesystem::create_directory(folder_ / "folder");
  EXPECT_THAT(refusal("folder"), HasSubstr("Is a directory"));
  EXPECT_THAT(refusal("no/folder"), HasSubstr("create the folder first"));
  const Result<int> out = open_to_append("/dev/stdout");  // a link of the system's own
  ASSERT_TRUE(out) << out.error().message;
  close(*out);
}

TEST_F(Output, AFullDiskLeavesWhatWasThere) {
  EXPECT_FALSE(write_output("/dev/full", "x"));
}

}  // namespace
}  // namespace crucible
