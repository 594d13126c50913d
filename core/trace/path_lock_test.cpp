// Two recordings cannot share a path: within a process, between processes, after a crash, across fork.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <fstream>
#include <thread>
#include <vector>

#include "core/trace/trace_file.hpp"
#include "core/trace/trace_samples.hpp"

namespace crucible::trace {
namespace {

using samples::Folder;

TEST(PathLock, SecondOneIsRefusedUntilTheFirstIsGone) {
  const Folder folder;
  const auto path = folder / "a.crtrace";
  {
    const auto first = PathLock::acquire(path);
    ASSERT_TRUE(first) << first.error().message;
    EXPECT_EQ(folder.listing(), "a.crtrace.lock\n");
    const auto second = PathLock::acquire(path);
    ASSERT_FALSE(second);
    EXPECT_EQ(second.error().code, ErrorCode::kBadInput);
    EXPECT_EQ(second.error().message, "another recording (process " + std::to_string(getpid()) + ") is writing to " +
                                          path.string() + ": wait for it or choose another path");
    EXPECT_TRUE(PathLock::acquire(folder / "b.crtrace"));
    EXPECT_EQ(folder.listing(), "a.crtrace.lock\n") << "a refused lock removes nothing";
  }
  EXPECT_EQ(folder.listing(), "");
  EXPECT_TRUE(PathLock::acquire(path));
}

TEST(PathLock, WhatIsNoLockFileIsNeitherWrittenToNorRemoved) {
  const Folder folder;
  const auto path = folder / "a.crtrace", lock = folder / "a.crtrace.lock";
  const auto refusal = [&] {
    const auto acquired = PathLock::acquire(path);
    return acquired ? "" : acquired.error().message;
  };
  const auto write = [](const std::filesystem::path& file, const std::string& text) { std::ofstream(file) << text; };
  write(folder / "victim", "1");
  std::filesystem::create_symlink("victim", lock);
  EXPECT_NE(refusal().find("a link of that name stands there"), std::string::npos) << refusal();
  std::filesystem::remove(lock);
  std::filesystem::create_symlink("not_there", lock);
  EXPECT_NE(refusal().find("a link of that name stands there"), std::string::npos) << refusal();
  std::filesystem::remove(lock);
  std::filesystem::create_hard_link(folder / "victim", lock);
  EXPECT_NE(refusal().find("a hard link"), std::string::npos) << refusal();
  std::filesystem::remove(lock);
  write(lock, "my notes\n");
  EXPECT_NE(refusal().find("something else than a process number"), std::string::npos) << refusal();
  EXPECT_EQ(samples::read_bytes(lock).size(), 9u);
  EXPECT_EQ(samples::read_bytes(folder / "victim").size(), 1u);
  EXPECT_EQ(folder.listing(), "a.crtrace.lock\nvictim\n");
  write(lock, "12345\n");  // what a process that was killed leaves
  EXPECT_EQ(refusal(), "");
}

TEST(PathLock, MovesWithItsObject) {
  const Folder folder;
  const auto path = folder / "a.crtrace";
  auto lock = PathLock::acquire(path);
  ASSERT_TRUE(lock);
  PathLock moved = *std::move(lock);
  EXPECT_FALSE(PathLock::acquire(path));
  auto other = PathLock::acquire(folder / "b.crtrace");
  ASSERT_TRUE(other);
  moved = *std::move(other);
  EXPECT_EQ(folder.listing(), "b.crtrace.lock\n") << "the lock that it had is released";
  EXPECT_TRUE(PathLock::acquire(path));
}

TEST(PathLock, HolderItselfMayWrite) {
  const Folder folder;
  const auto path = folder / "a.crtrace";
  EXPECT_FALSE(PathLock::held_here(path));
  const auto lock = PathLock::acquire(path);
  ASSERT_TRUE(lock);
  EXPECT_TRUE(PathLock::held_here(path));
  const auto done = write_file(samples::small_trace(), path);
  EXPECT_TRUE(done) << done.error().message;
  EXPECT_FALSE(PathLock::acquire(path)) << "writing does not release it";
}

TEST(PathLock, OtherProcessIsNamedAndItsCrashReleasesTheLock) {
  const Folder folder;
  const auto path = folder / "a.crtrace";
  int ready[2];
  ASSERT_EQ(pipe(ready), 0);
  const pid_t child = fork();
  if (child == 0) {
    const auto lock = PathLock::acquire(path);
    const char answer = lock ? 'y' : 'n';
    (void)!write(ready[1], &answer, 1);
    for (;;) pause();
  }
  char answer = 0;
  ASSERT_EQ(read(ready[0], &answer, 1), 1);
  ASSERT_EQ(answer, 'y');
  EXPECT_FALSE(PathLock::held_here(path));
  const auto refused = write_file(samples::small_trace(), path);
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::kBadInput);
  EXPECT_NE(refused.error().message.find("another recording (process " + std::to_string(child) + ")"),
            std::string::npos)
      << refused.error().message;
  EXPECT_EQ(folder.listing(), "a.crtrace.lock\n") << "left over by the killed process";
  const auto done = write_file(samples::small_trace(), path);
  EXPECT_TRUE(done) << done.error().message;
  EXPECT_EQ(folder.listing(), "a.crtrace\n");
  close(ready[0]);
  close(ready[1]);
}

TEST(PathLock, ForkedChildDoesNotReleaseIt) {
  const Folder folder;
  const auto path = folder / "a.crtrace";
  auto lock = PathLock::acquire(path);
  ASSERT_TRUE(lock);
  const pid_t child = fork();
  if (child == 0) {
    {
      const PathLock copy = *std::move(lock);
    }
    _exit(0);
  }
  waitpid(child, nullptr, 0);
  EXPECT_EQ(folder.listing(), "a.crtrace.lock\n");
  EXPECT_FALSE(PathLock::acquire(path));
}

TEST(PathLock, ReleaseLeavesAnotherHoldersFileAlone) {
  const Folder folder;
  const auto path = folder / "a.crtrace";
  auto first = PathLock::acquire(path);
  ASSERT_TRUE(first);
  ASSERT_TRUE(std::filesystem::remove(path.string() + ".lock")) << "somebody tidies up";
  const auto second = PathLock::acquire(path);
  ASSERT_TRUE(second) << second.error().message;
  {
    const PathLock released = *std::move(first);
  }
  EXPECT_EQ(folder.listing(), "a.crtrace.lock\n");
  EXPECT_FALSE(PathLock::acquire(path));
}

TEST(PathLock, ManyThreadsOneHolder) {
  const Folder folder;
  const auto path = folder / "a.crtrace";
  std::atomic<int> holders = 0, acquired = 0, overlaps = 0;
  {
    std::vector<std::jthread> threads;
    for (int t = 0; t < 4; ++t) {
      threads.emplace_back([&] {
        for (int i = 0; i < 500; ++i) {
          const auto lock = PathLock::acquire(path);
          if (!lock) continue;
          ++acquired;
          if (++holders > 1) ++overlaps;
          // Long enough for others to open the lock file that is about to be removed.
          std::this_thread::sleep_for(std::chrono::microseconds(50));
          --holders;
        }
      });
    }
  }
  EXPECT_GT(acquired, 0);
  EXPECT_EQ(overlaps, 0);
  EXPECT_EQ(folder.listing(), "");
}

}  // namespace
}  // namespace crucible::trace
