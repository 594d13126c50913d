// What a process may use, read from folders that look like /proc and /sys of other machines.
#include "backends/cpu/processors.hpp"

#include <gtest/gtest.h>
#include <sched.h>
#include <unistd.h>

#include <fstream>

namespace crucible_cpu {
namespace {

class Machine : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = (std::filesystem::temp_directory_path() / "crucible-processors-XXXXXX").string();
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    root_ = name;
  }
  void TearDown() override { std::filesystem::remove_all(root_); }
  void write(const std::string& path, const std::string& text) {
    std::filesystem::create_directories((root_ / path).parent_path());
    std::ofstream(root_ / path) << text;
  }
  std::optional<double> quota() const { return find_quota(root_ / "proc/self/cgroup", root_ / "sys/fs/cgroup"); }
  std::filesystem::path root_;
};

TEST_F(Machine, WithoutControlGroupsHasNoQuota) {
  EXPECT_EQ(quota(), std::nullopt);
  write("proc/self/cgroup", "0::/\n");
  EXPECT_EQ(quota(), std::nullopt);
  write("sys/fs/cgroup/cpu.max", "max 100000\n");
  EXPECT_EQ(quota(), std::nullopt);
}

TEST_F(Machine, TheLeastQuotaOfVersion2Counts) {
  write("proc/self/cgroup", "0::/jobs/one\n");
  write("sys/fs/cgroup/jobs/cpu.max", "150000 100000\n");
  EXPECT_EQ(quota(), 1.5);
  write("sys/fs/cgroup/jobs/one/cpu.max", "50000 100000\n");
  EXPECT_EQ(quota(), 0.5);
  write("sys/fs/cgroup/jobs/one/cpu.max", "400000 100000\n");
  EXPECT_EQ(quota(), 1.5) << "a group cannot have more than the one around it";
}

TEST_F(Machine, AContainersPathThatIsNotThereIsItsMount) {
  write("proc/self/cgroup", "0::/../../kubepods/pod\n");
  write("sys/fs/cgroup/cpu.max", "200000 100000\n");
  EXPECT_EQ(quota(), 2.0);
}

TEST_F(Machine, QuotasOfVersion1) {
  write("proc/self/cgroup", "5:memory:/box\n4:cpu,cpuacct:/box\n");
  write("sys/fs/cgroup/cpu,cpuacct/box/cpu.cfs_quota_us", "-1\n");
  write("sys/fs/cgroup/cpu,cpuacct/box/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(quota(), std::nullopt);
  write("sys/fs/cgroup/cpu/box/cpu.cfs_quota_us", "25000\n");
  write("sys/fs/cgroup/cpu/box/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(quota(), 0.25);
}

TEST_F(Machine, NonsenseIsNoQuota) {
  write("proc/self/cgroup", "nonsense\n::\n0:\n0::relative\n:cpu:/x\n");
  for (const char* text : {"", "max", "x y", "-5 100000", "100000 0", "nan nan", "1e999 1", "0 0", "\xff\xfe \x01"}) {
    write("sys/fs/cgroup/cpu.max", text);
    EXPECT_EQ(quota(), std::nullopt) << text;
  }
}

TEST(Processors, UsableAreTheAllowedWithinTheQuota) {
  EXPECT_EQ((Processors{.allowed = 8, .cores = 4, .quota = {}}).usable(), 8);
  EXPECT_EQ((Processors{.allowed = 8, .cores = 4, .quota = 0.5}).usable(), 1);
  EXPECT_EQ((Processors{.allowed = 8, .cores = 4, .quota = 2.5}).usable(), 3);
  EXPECT_EQ((Processors{.allowed = 2, .cores = 2, .quota = 1e300}).usable(), 2);
  EXPECT_EQ((Processors{.allowed = 8, .cores = 4, .quota = 2.5}).in_words(),
            "8 processors allowed, 4 cores, a quota of 2.5");
  EXPECT_EQ((Processors{.allowed = 1, .cores = 1, .quota = {}}).in_words(), "1 processor allowed");
}

TEST_F(Machine, TheMaskCountsAndSiblingsAreOneCore) {
  cpu_set_t all, one;
  ASSERT_EQ(sched_getaffinity(0, sizeof(all), &all), 0);
  for (int i = 0; i < CPU_SETSIZE; ++i)
    write("sys/devices/system/cpu/cpu" + std::to_string(i) + "/topology/thread_siblings_list", "0-1023\n");
  EXPECT_EQ(find_processors(root_).allowed, CPU_COUNT(&all));
  EXPECT_EQ(find_processors(root_).cores, 1);
  CPU_ZERO(&one);
  for (int i = 0; i < CPU_SETSIZE && CPU_COUNT(&one) == 0; ++i) {
    if (CPU_ISSET(i, &all)) CPU_SET(i, &one);
  }
  ASSERT_EQ(sched_setaffinity(0, sizeof(one), &one), 0);
  EXPECT_EQ(find_processors().allowed, 1);
  ASSERT_EQ(sched_setaffinity(0, sizeof(all), &all), 0);
}

TEST_F(Machine, RunningThreadsAreThoseBeforeTheSlash) {
  write("loadavg", "0.20 0.18 0.12 3/80 11206\n");
  EXPECT_EQ(count_running(root_ / "loadavg"), 3);
  for (const char* text : {"", "1 2 3", "1 2 3 x/y", "1 2 3 4", "1 2 3 /"}) {
    write("loadavg", text);
    EXPECT_EQ(count_running(root_ / "loadavg"), 0) << text;
  }
  EXPECT_GE(count_running(), 1);
}

}  // namespace
}  // namespace crucible_cpu
