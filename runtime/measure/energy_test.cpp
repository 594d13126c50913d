// Counters of energy as the kernel shows them, in a folder of the test's own.
#include "runtime/measure/energy.hpp"

#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>

namespace crucible::runtime {
namespace {

namespace fs = std::filesystem;

class PackageEnergyTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = (fs::temp_directory_path() / "crucible-energy-XXXXXX").string();
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    folder_ = pattern;
  }
  void TearDown() override { fs::remove_all(folder_); }
  void show(const std::string& zone, const std::string& uj, const std::string& range = "1000000",
            const std::string& name = "package-0") {
    fs::create_directories(folder_ / zone);
    std::ofstream(folder_ / zone / "energy_uj") << uj << "\n";
    std::ofstream(folder_ / zone / "name") << name << "\n";
    std::ofstream(folder_ / zone / "max_energy_range_uj") << range << "\n";
  }
  fs::path folder_;
};

TEST_F(PackageEnergyTest, PackagesAreAddedAndTheirPartsAreNot) {
  show("intel-rapl:0", "100");
  show("intel-rapl:1", "5000");
  show("intel-rapl:0:0", "70");
  show("intel-rapl-mmio:0", "100");
  show("intel-rapl:2", "9", "1000000", "psys");
  show("dtpm", "1");
  PackageEnergy energy = PackageEnergy::open(folder_);
  EXPECT_EQ(energy.missing(), "");
  EXPECT_EQ(energy.read(), 0);
  show("intel-rapl:0", "2100100");
  show("intel-rapl:1", "5400");
  show("intel-rapl:0:0", "2000000");
  show("intel-rapl-mmio:0", "2100100");
  show("intel-rapl:2", "9000000", "1000000", "psys");
  EXPECT_DOUBLE_EQ(energy.read().value(), 2.1004);
}

TEST_F(PackageEnergyTest, ACounterThatBeginsAgainGoesOn) {
  show("intel-rapl:0", "999900", "1000000");
  PackageEnergy energy = PackageEnergy::open(folder_);
  show("intel-rapl:0", "400", "1000000");
  EXPECT_DOUBLE_EQ(energy.read().value(), 500e-6);
  show("intel-rapl:0", "900", "1000000");
  EXPECT_DOUBLE_EQ(energy.read().value(), 1000e-6);
}

TEST_F(PackageEnergyTest, NoCounterIsSaid) {
  PackageEnergy energy = PackageEnergy::open(folder_);
  EXPECT_EQ(energy.read(), std::nullopt);
  EXPECT_NE(energy.missing().find("no processor counts its energy in " + folder_.string()), std::string::npos);
  EXPECT_NE(PackageEnergy::open(folder_ / "nowhere").missing(), "");
}

TEST_F(PackageEnergyTest, ACounterThatCannotBeReadIsSaid) {
  show("intel-rapl:0", "no number");
  PackageEnergy energy = PackageEnergy::open(folder_);
  EXPECT_EQ(energy.read(), std::nullopt);
  EXPECT_NE(energy.missing().find("intel-rapl:0/energy_uj cannot be read"), std::string::npos) << energy.missing();
}

TEST_F(PackageEnergyTest, ACounterThatGoesAwayHasNoAnswer) {
  show("intel-rapl:0", "1");
  PackageEnergy energy = PackageEnergy::open(folder_);
  fs::remove_all(folder_ / "intel-rapl:0");
  EXPECT_EQ(energy.read(), std::nullopt);
}

}  // namespace
}  // namespace crucible::runtime
