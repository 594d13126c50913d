// The wall, from inside: each test shuts a child process in and tries what it must not be able to do, and what it must.
#include "frontends/cli/confine.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>

namespace crucible::cli {
namespace {

namespace fs = std::filesystem;

class Confine : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = (fs::temp_directory_path() / "crucible-confine-XXXXXX").string();
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    folder_ = name;
    fs::create_directory(folder_ / "inside");
    fs::create_directory(folder_ / "outside");
    std::ofstream(folder_ / "outside/victim") << "as it was";
  }
  void TearDown() override { fs::remove_all(folder_); }

  /// What `work` returned in a child that is shut in; 200 where the system does not offer everything, 100 + the number
  /// of a signal.
  int inside(const Confinement& to, const std::function<int()>& work) {
    const pid_t child = fork();
    if (child == 0) _exit(confine(to).empty() ? work() : 200);
    int status = 0;
    waitpid(child, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 100 + WTERMSIG(status);
  }
  Confinement rules() const {
    return {.writable = {folder_ / "inside", folder_ / "absent"},
            .runnable = {"/bin/true", "/lib64/ld-linux-x86-64.so.2"}};
  }

  fs::path folder_;
};

/// errno of what failed, 0 of what did not.
int reason(long result) { return result < 0 ? errno : 0; }

int run(const char* program) {
  const pid_t child = fork();
  if (child == 0) {
    execl(program, program, nullptr);
    _exit(errno);
  }
  int status = 0;
  waitpid(child, &status, 0);
  return WEXITSTATUS(status);
}

#define SKIP_WHERE_THERE_IS_NONE() \
  if (inside(rules(), [] { return 0; }) == 200) GTEST_SKIP() << "this system has no Landlock or no seccomp"

TEST_F(Confine, WritesWhereItMayAndNowhereElse) {
  SKIP_WHERE_THERE_IS_NONE();
  const std::string in = folder_ / "inside/new", out = folder_ / "outside/new", victim = folder_ / "outside/victim",
                    link = folder_ / "inside/link";
  fs::create_symlink(victim, link);
  const auto open_for = [](const std::string& path, int flags) { return reason(open(path.c_str(), flags, 0600)); };
  EXPECT_EQ(inside(rules(), [&] { return open_for(in, O_CREAT | O_WRONLY); }), 0);
  EXPECT_EQ(inside(rules(), [&] { return reason(rename(in.c_str(), (in + "er").c_str())); }), 0);
  EXPECT_EQ(inside(rules(), [&] { return reason(mkdir((in + "folder").c_str(), 0700)); }), 0);
  EXPECT_EQ(inside(rules(), [&] { return open_for("/dev/null", O_WRONLY); }), 0);
  EXPECT_EQ(inside(rules(), [&] { return open_for(victim, O_RDONLY); }), 0);
  EXPECT_EQ(inside(rules(), [&] { return open_for(out, O_CREAT | O_WRONLY); }), EACCES);
  EXPECT_EQ(inside(rules(), [&] { return open_for(victim, O_WRONLY); }), EACCES);
  EXPECT_EQ(inside(rules(), [&] { return open_for(victim, O_RDWR | O_APPEND); }), EACCES);
  EXPECT_EQ(inside(rules(), [&] { return open_for(link, O_WRONLY); }), EACCES);
  EXPECT_EQ(inside(rules(), [&] { return reason(truncate(victim.c_str(), 0)); }), EACCES);
  EXPECT_EQ(inside(rules(), [&] { return reason(unlink(victim.c_str())); }), EACCES);
  EXPECT_EQ(inside(rules(), [&] { return reason(rename((in + "er").c_str(), out.c_str())); }) != 0, true);
  EXPECT_EQ(inside(rules(), [&] { return reason(chmod(victim.c_str(), 0777)); }), EACCES);
  EXPECT_EQ(inside(rules(), [&] { return reason(fchmod(open(victim.c_str(), O_RDONLY), 0777)); }), EACCES);
  std::string text;
  std::getline(std::ifstream(victim), text);
  EXPECT_EQ(text, "as it was");
  struct stat status = {};
  stat(victim.c_str(), &status);
  EXPECT_NE(status.st_mode & 0777u, 0777u);
}

TEST_F(Confine, RunsWhatItMayAndNothingElse) {
  SKIP_WHERE_THERE_IS_NONE();
  EXPECT_EQ(inside(rules(), [] { return run("/bin/true"); }), 0);
  EXPECT_EQ(inside(rules(), [] { return run("/bin/sh"); }), EACCES);
  // What it wrote itself is no program either.
  const std::string own = folder_ / "inside/own";
  fs::copy_file("/bin/true", own);
  EXPECT_EQ(inside(rules(), [&] { return run(own.c_str()); }), EACCES);
}

TEST_F(Confine, HasNoNetworkAndNoOtherProcess) {
  SKIP_WHERE_THERE_IS_NONE();
  for (const int domain : {AF_UNIX, AF_INET, AF_INET6, AF_NETLINK, AF_VSOCK}) {
    EXPECT_EQ(inside(rules(), [&] { return reason(socket(domain, SOCK_STREAM, 0)); }), EACCES) << domain;
  }
  const pid_t test = getpid();
  EXPECT_EQ(inside(rules(), [&] { return reason(kill(test, 0)); }), EPERM);
  EXPECT_EQ(inside(rules(), [] { return reason(kill(getpid(), 0)); }), 0);
  int pair[2];
  EXPECT_EQ(inside(rules(), [&] { return reason(socketpair(AF_UNIX, SOCK_STREAM, 0, pair)); }), 0)
      << "between a process and its child";
}

TEST_F(Confine, WhatItStartsIsShutInToo) {
  SKIP_WHERE_THERE_IS_NONE();
  Confinement to = rules();
  to.runnable.emplace_back("/bin/sh");
  const std::string out = folder_ / "outside/new";
  EXPECT_EQ(inside(to, [&] {
              const pid_t child = fork();
              if (child == 0) {
                execl("/bin/sh", "sh", "-c", ("echo x 2>/dev/null >" + out).c_str(), nullptr);
                _exit(99);
              }
              int status = 0;
              waitpid(child, &status, 0);
              return WEXITSTATUS(status) != 0 && WEXITSTATUS(status) != 99 ? 0 : 1;
            }),
            0);
  EXPECT_FALSE(fs::exists(out));
}

TEST_F(Confine, HasTheMemoryThatItIsGiven) {
  SKIP_WHERE_THERE_IS_NONE();
  Confinement to = rules();
  to.memory_bytes = std::uint64_t{1} << 32;
  const auto map = [](std::size_t bytes) {
    return mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0) ==
                   MAP_FAILED
               ? errno
               : 0;
  };
  EXPECT_EQ(inside(to, [&] { return map(std::size_t{1} << 30); }), 0);
  EXPECT_EQ(inside(to, [&] { return map(std::size_t{1} << 32); }), ENOMEM);
}

}  // namespace
}  // namespace crucible::cli
