// Who may read what is written of a recording: its owner alone, whatever the umask lets, and whatever stood there
// before.
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>

#include "core/trace/recover.hpp"
#include "core/trace/stream_writer.hpp"
#include "core/trace/trace_file.hpp"
#include "core/trace/trace_samples.hpp"

namespace crucible::trace {
namespace {

class OwnerOnly : public ::testing::Test {
 protected:
  OwnerOnly() : umask_(umask(0)) {}
  ~OwnerOnly() override { umask(umask_); }

  /// Of every file in the folder and below it.
  void expect_owner_only() {
    std::size_t files = 0;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(folder_.path())) {
      if (!entry.is_regular_file() || entry.path().extension() == ".lock")
        continue;  // which has a process number alone
      struct stat status = {};
      ASSERT_EQ(stat(entry.path().c_str(), &status), 0);
      EXPECT_EQ(status.st_mode & 0777, 0600u) << entry.path();
      ++files;
    }
    EXPECT_GT(files, 0u);
  }

  samples::Folder folder_;
  const mode_t umask_;
};

TEST_F(OwnerOnly, MayReadAFile) {
  samples::write_bytes(folder_ / "a.crtrace", {});
  std::filesystem::permissions(folder_ / "a.crtrace", std::filesystem::perms(0644));
  ASSERT_TRUE(write_file(samples::small_trace(), folder_ / "a.crtrace"));
  ASSERT_TRUE(
      write_file(samples::small_trace(), folder_ / "b.crtrace", {.zstd_level = 3, .blob_folder = folder_ / "blobs"}));
  expect_owner_only();
}

TEST_F(OwnerOnly, MayReadARecordingThatGrowsAndWhatIsRecovered) {
  {
    auto writer = StreamWriter::create(folder_ / "a.crtrace", {});
    ASSERT_TRUE(writer) << writer.error().message;
    samples::stream(samples::small_trace(), **writer);
    expect_owner_only();
  }
  // As an older version left it.
  for (const char* name : {"a.crtrace.partial", "a.crtrace.journal"})
    std::filesystem::permissions(folder_ / name, std::filesystem::perms(0644));
  const auto recovered = recover_file(folder_ / "a.crtrace");
  ASSERT_TRUE(recovered) << recovered.error().message;
  expect_owner_only();
}

}  // namespace
}  // namespace crucible::trace
