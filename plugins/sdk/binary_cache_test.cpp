// Programs on disk: what was put in comes out, what is not whole does not, and no folder of others' is used.
#include "plugins/sdk/binary_cache.hpp"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstdlib>
#include <fstream>

#include "plugins/sdk/own_folder.hpp"

namespace crucible::sdk {
namespace {

class SdkBinaryCache : public testing::Test {
 protected:
  SdkBinaryCache() {
    std::string name = (std::filesystem::temp_directory_path() / "crucible-cache-test-XXXXXX").string();
    if (mkdtemp(name.data()) == nullptr) std::abort();
    folder_ = name;
  }
  ~SdkBinaryCache() override {
    std::error_code error;
    std::filesystem::remove_all(folder_, error);
  }
  std::filesystem::path only_file() const { return std::filesystem::directory_iterator(folder_)->path(); }
  std::filesystem::path folder_;
};

TEST_F(SdkBinaryCache, KeepsWhatWasPutIn) {
  const std::string bytes("a\0b\n\xff", 5);
  BinaryCache("test", folder_).add("key", bytes);
  EXPECT_EQ(BinaryCache("test", folder_).find("key"), bytes);
  EXPECT_EQ(BinaryCache("test", folder_).find("ke"), "");
}

TEST_F(SdkBinaryCache, AFileOfAnotherKeyIsNotTaken) {
  const BinaryCache cache("test", folder_);
  cache.add("one", "bytes of one");
  const auto file = only_file();
  cache.add("two", "bytes of two");
  for (const auto& entry : std::filesystem::directory_iterator(folder_)) {
    if (entry.path() != file)
      std::filesystem::copy_file(file, entry.path(), std::filesystem::copy_options::overwrite_existing);
  }
  EXPECT_EQ(cache.find("two"), "");
}

TEST_F(SdkBinaryCache, EveryDamageIsFound) {
  const BinaryCache cache("test", folder_);
  cache.add("key", "some bytes");
  const auto file = only_file();
  std::ifstream stream(file, std::ios::binary);
  const std::string good((std::istreambuf_iterator<char>(stream)), std::istreambuf_iterator<char>());
  for (std::size_t i = 0; i < good.size(); ++i) {
    std::string bad = good;
    bad[i] = static_cast<char>(bad[i] ^ 1);
    std::ofstream(file, std::ios::binary) << bad;
    EXPECT_EQ(cache.find("key"), "") << "byte " << i;
    std::ofstream(file, std::ios::binary) << good.substr(0, i);
    EXPECT_EQ(cache.find("key"), "") << "cut to " << i;
  }
  std::ofstream(file, std::ios::binary) << good;
  EXPECT_EQ(cache.find("key"), "some bytes");
}

TEST_F(SdkBinaryCache, ProgramsOfTwoPluginsMayLieInOneFolder) {
  BinaryCache("one", folder_).add("key", "bytes of one");
  EXPECT_EQ(BinaryCache("two", folder_).find("key"), "");
}

TEST_F(SdkBinaryCache, AFolderThatOthersCanWriteIsNotUsed) {
  ASSERT_EQ(chmod(folder_.c_str(), 0777), 0);
  const BinaryCache cache("test", folder_);
  EXPECT_FALSE(cache.usable());
  cache.add("key", "bytes");
  EXPECT_TRUE(std::filesystem::is_empty(folder_));
}

TEST_F(SdkBinaryCache, SwitchedOffKeepsNothing) { EXPECT_FALSE(BinaryCache("test", BinaryCache::off()).usable()); }

TEST_F(SdkBinaryCache, AFolderBelowOneOfOthersIsNotUsed) {
  const std::filesystem::path inner = folder_ / "above" / "cache";
  EXPECT_TRUE(BinaryCache("test", inner).usable());
  ASSERT_EQ(chmod((folder_ / "above").c_str(), 0777), 0);
  EXPECT_EQ(doubt_about_folder(inner), (folder_ / "above").string() + " can be written by other users");
  EXPECT_FALSE(BinaryCache("test", inner).usable());
  ASSERT_EQ(chmod((folder_ / "above").c_str(), 01777), 0);  // as /tmp: nobody can replace what is another's
  EXPECT_TRUE(BinaryCache("test", inner).usable());
  ASSERT_EQ(chmod((folder_ / "above").c_str(), 0777), 0);
  std::filesystem::create_directory_symlink(inner, folder_ / "link");
  EXPECT_FALSE(BinaryCache("test", folder_ / "link").usable());
  ASSERT_EQ(chmod((folder_ / "above").c_str(), 0755), 0);
  EXPECT_TRUE(BinaryCache("test", folder_ / "link").usable());
  std::filesystem::create_directory_symlink("loop", folder_ / "loop");
  EXPECT_NE(doubt_about_folder(folder_ / "loop"), "");
}

}  // namespace
}  // namespace crucible::sdk
