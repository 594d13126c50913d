// Trees of files as Linux would show them: an Intel server, one without sensors, counters that turn, files that may not
// be read.
#include "backends/cpu/host_health.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <unistd.h>

#include <fstream>

namespace crucible_cpu {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

class HostHealth : public ::testing::Test {
 protected:
  HostHealth() {
    std::string name = testing::TempDir() + "crucible_host_health_XXXXXX";
    if (mkdtemp(name.data()) == nullptr) std::abort();
    root_ = name;
  }
  ~HostHealth() override { fs::remove_all(root_); }

  void write(const std::string& path, const std::string& text) const {
    fs::create_directories((root_ / path).parent_path());
    std::ofstream(root_ / path) << text << "\n";
  }
  crucible::sdk::HealthReport read(std::uint64_t now_ns = 1) { return read_host_health(root_, meter_, now_ns); }

  /// A server with two packages.
  void server() const {
    write("sys/class/hwmon/hwmon0/name", "nvme");
    write("sys/class/hwmon/hwmon0/temp1_input", "99000");
    write("sys/class/hwmon/hwmon1/name", "coretemp");
    write("sys/class/hwmon/hwmon1/temp1_input", "61000");
    write("sys/class/hwmon/hwmon1/temp1_crit", "105000");
    write("sys/class/hwmon/hwmon1/temp2_input", "64500");
    write("sys/class/hwmon/hwmon1/temp2_crit", "100000");
    write("sys/devices/system/cpu/cpu0/cpufreq/scaling_cur_freq", "2100000");
    write("sys/devices/system/cpu/cpu0/cpufreq/cpuinfo_max_freq", "3800000");
    write("sys/devices/system/cpu/cpu1/cpufreq/scaling_cur_freq", "3000000");
    write("sys/devices/system/cpu/cpu0/thermal_throttle/core_throttle_count", "2");
    write("sys/devices/system/cpu/cpu1/thermal_throttle/core_throttle_count", "3");
    write("sys/devices/system/cpu/cpu0/thermal_throttle/package_throttle_count", "7");
    write("sys/devices/system/cpu/cpu1/thermal_throttle/package_throttle_count", "7");
    write("sys/class/powercap/intel-rapl:0/name", "package-0");
    write("sys/class/powercap/intel-rapl:0/energy_uj", "1000000");
    write("sys/class/powercap/intel-rapl:0/max_energy_range_uj", "4000000");
    write("sys/class/powercap/intel-rapl:1/name", "psys");
    write("sys/class/powercap/intel-rapl:1/energy_uj", "5");
    write("sys/class/powercap/intel-rapl:0:0/name", "core");
    write("sys/class/powercap/intel-rapl:0:0/energy_uj", "7");
    write("proc/meminfo", "MemTotal:       1000 kB\nMemFree:         100 kB\nMemAvailable:    750 kB");
    write("sys/devices/system/edac/mc/mc0/ce_count", "4");
    write("sys/devices/system/edac/mc/mc0/ue_count", "0");
    write("sys/devices/system/edac/mc/mc1/ce_count", "1");
    write("sys/devices/system/edac/mc/mc1/ue_count", "1");
  }

  fs::path root_;
  EnergyMeter meter_;
};

TEST_F(HostHealth, OfAServer) {
  server();
  const auto report = read();
  EXPECT_EQ(report.number_of("temperature_celsius"), 64u) << "the hottest of the processor's sensors, not the disk's";
  EXPECT_EQ(report.number_of("temperature_slowdown_celsius"), 100u);
  EXPECT_EQ(report.number_of("clock_hz"), 3'000'000'000u);
  EXPECT_EQ(report.number_of("clock_max_hz"), 3'800'000'000u);
  EXPECT_EQ(report.number_of("throttle_events"), 12u)
      << "cores are added, packages are told by each of their processors";
  EXPECT_EQ(report.number_of("energy_microjoule"), 1'000'000u)
      << "packages alone: their parts and the platform contain each other";
  EXPECT_EQ(report.number_of("memory_used_bytes"), 250u << 10);
  EXPECT_EQ(report.number_of("memory_total_bytes"), 1000u << 10);
  EXPECT_EQ(report.number_of("ecc_corrected"), 5u);
  EXPECT_EQ(report.number_of("ecc_errors"), 1u);
}

TEST_F(HostHealth, EnergyGrowsThroughATurnAndGivesPower) {
  server();
  EXPECT_FALSE(read(1).has("power_milliwatt"));
  write("sys/class/powercap/intel-rapl:0/energy_uj", "3000000");
  EXPECT_EQ(read(1'000'000'001).number_of("power_milliwatt"), 2000u) << "two joules in a second";
  write("sys/class/powercap/intel-rapl:0/energy_uj", "500000");
  const auto report = read(2'000'000'001);
  EXPECT_EQ(report.number_of("energy_microjoule"), 4'500'000u);
  EXPECT_EQ(report.number_of("power_milliwatt"), 1500u);
}

TEST_F(HostHealth, WhatAMachineDoesNotShowIsAbsentWithItsReason) {
  const auto report = read();
  for (const char* key : {"temperature_celsius", "clock_hz", "energy_microjoule", "ecc_errors", "memory_used_bytes"})
    EXPECT_FALSE(report.has(key)) << key;
  EXPECT_THAT(report.text_of("not_measured"), HasSubstr("temperature_celsius: this machine shows no sensor"));
  write("sys/class/thermal/thermal_zone0/temp", "47000");
  EXPECT_EQ(read().number_of("temperature_celsius"), 47u) << "where there is no sensor of the processor";
}

TEST_F(HostHealth, EnergyThatMayNotBeReadSaysSo) {
  server();
  fs::permissions(root_ / "sys/class/powercap/intel-rapl:0/energy_uj", fs::perms::none);
  // Root may read everything: then the file is read as nobody.
  constexpr uid_t kNobody = 65534;
  constexpr auto kToAll =
      fs::perms::group_read | fs::perms::group_exec | fs::perms::others_read | fs::perms::others_exec;
  fs::permissions(root_, fs::perms::owner_all | kToAll);
  const bool is_root = geteuid() == 0;
  if (is_root && seteuid(kNobody) != 0) GTEST_SKIP() << "this root cannot be anybody else";
  const auto report = read();
  if (is_root) {
    ASSERT_EQ(seteuid(0), 0);
  }
  std::vector<std::string> absent;
  const auto take = [](void* user, const crucible_kv* items, std::uint32_t count) {
    for (std::uint32_t i = 0; i < count; ++i) {
      if (items[i].type == CRUCIBLE_V_STR)
        static_cast<std::vector<std::string>*>(user)->emplace_back(items[i].s.data, items[i].s.size);
    }
  };
  report.send(take, &absent);
  EXPECT_THAT(absent, ::testing::Contains(HasSubstr("energy_uj is not permitted: ask as root")));
}

}  // namespace
}  // namespace crucible_cpu
