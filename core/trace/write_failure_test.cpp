// A file that cannot be written leaves nothing behind and the older one as it was.
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <functional>

#include "core/trace/memory_blob_store.hpp"
#include "core/trace/output_file.hpp"
#include "core/trace/trace_file.hpp"
#include "core/trace/trace_samples.hpp"

namespace crucible::trace {
namespace {

using samples::Folder;

/// Runs `body` in a forked child and returns its exit status; -1 when it was killed.
int in_child(const std::function<int()>& body) {
  const pid_t child = fork();
  if (child == 0) _exit(body());
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

Trace trace_with_noise(std::size_t size) {
  std::mt19937_64 random(3);
  std::vector<std::byte> noise(size);
  for (std::byte& byte : noise) byte = static_cast<std::byte>(random());
  auto store = std::make_shared<MemoryBlobStore>();
  store->add(std::move(noise));
  Trace trace;
  trace.blobs = store->blobs();
  trace.blob_store = store;
  return trace;
}

/// Stands for a full disk: writing beyond `limit` bytes fails, as the kernel reports it.
void limit_file_size(rlim_t limit) {
  signal(SIGXFSZ, SIG_IGN);
  const rlimit limits{limit, limit};
  setrlimit(RLIMIT_FSIZE, &limits);
}

bool names(const Result<void>& result, const std::string& path, const std::string& part) {
  return !result && result.error().code == ErrorCode::kBadInput &&
         result.error().message.find(path) != std::string::npos &&
         result.error().message.find(part) != std::string::npos;
}

TEST(WriteFailure, NoRoomKeepsTheOlderFile) {
  const Folder folder;
  const auto path = folder / "a.crtrace";
  ASSERT_TRUE(write_file(samples::small_trace(), path));
  const std::vector<std::byte> older = samples::read_bytes(path);
  // At every stage: in the header's room, in the blobs, in the tables behind them.
  for (const rlim_t limit : {0u, 100u, 1000u, 200'000u, 300'600u}) {
    EXPECT_EQ(in_child([&] {
                const Trace trace = trace_with_noise(300'000);
                limit_file_size(limit);
                const auto done = write_file(trace, path);
                return names(done, path.string(), "File too large; raise the file size limit") ? 0 : 1;
              }),
              0)
        << limit;
    EXPECT_EQ(folder.listing(), "a.crtrace\n") << limit;
    EXPECT_EQ(samples::read_bytes(path), older) << limit;
  }
}

TEST(WriteFailure, NoRoomLeavesNoFile) {
  const Folder folder;
  EXPECT_EQ(
      in_child([&] {
        const Trace trace = trace_with_noise(300'000);
        limit_file_size(64 << 10);
        return names(write_file(trace, folder / "a.crtrace"), (folder / "a.crtrace").string(), "cannot write") ? 0 : 1;
      }),
      0);
  EXPECT_EQ(folder.listing(), "");
}

TEST(WriteFailure, MissingFolder) {
  const Folder folder;
  const auto path = folder / "none" / "a.crtrace";
  EXPECT_TRUE(names(write_file(Trace{}, path), path.string(), "No such file or directory; create the folder first"));
  EXPECT_EQ(folder.listing(), "");
}

TEST(WriteFailure, PathIsAFolder) {
  const Folder folder;
  EXPECT_TRUE(
      names(write_file(Trace{}, folder.path()), folder.path().string(), "it is a directory; choose another path"));
  EXPECT_EQ(folder.listing(), "");
  EXPECT_FALSE(std::filesystem::exists(folder.path().string() + ".lock"));
}

class BrokenStore final : public BlobStore {
 public:
  Result<std::vector<std::byte>> load(BlobId id) const override {
    if (id == 0) return std::vector<std::byte>(5000);
    return Error{ErrorCode::kBadInput, "blob 1 is damaged"};
  }
};

TEST(WriteFailure, BlobThatCannotBeLoaded) {
  const Folder folder;
  Trace trace;
  trace.blobs = {{{}, 5000}, {{}, 10}};
  trace.blob_store = std::make_shared<BrokenStore>();
  const auto broken = write_file(trace, folder / "a.crtrace");
  ASSERT_FALSE(broken);
  EXPECT_EQ(broken.error().message, "blob 1 is damaged");
  trace.blobs[0].size_bytes = 4999;
  const auto other_size = write_file(trace, folder / "a.crtrace");
  ASSERT_FALSE(other_size);
  EXPECT_EQ(other_size.error().message, "blob 0 has 5000 bytes in its store, the trace says 4999");
  trace.blob_store = nullptr;
  EXPECT_FALSE(write_file(trace, folder / "a.crtrace"));
  EXPECT_EQ(folder.listing(), "");
}

TEST(OutputFile, AppearsOnlyAtCommitAndCleansUpAfterKilledNamesakes) {
  const Folder folder;
  const auto path = folder / "a";
  const std::string leftover = path.string() + "." + std::to_string(getpid()) + "-" + std::to_string(gettid()) + ".tmp";
  samples::write_bytes(leftover, std::vector<std::byte>(100));
  {
    auto file = OutputFile::create(path);
    ASSERT_TRUE(file) << file.error().message;
    ASSERT_TRUE(file->append(std::vector<std::byte>(10, std::byte{1})));
    EXPECT_FALSE(std::filesystem::exists(path));
    ASSERT_TRUE(file->align());
    EXPECT_EQ(file->offset(), 64u);
    ASSERT_TRUE(file->commit());
  }
  EXPECT_EQ(folder.listing(), "a\n");
  EXPECT_EQ(std::filesystem::file_size(path), 64u);
}

}  // namespace
}  // namespace crucible::trace
