// Which accesses of a block's threads are ordered, and which are a race.
#include "tests/emulators/core/race_checker.hpp"

#include <gtest/gtest.h>

namespace crucible::emulator {
namespace {

class EmulatorRaces : public ::testing::Test {
 protected:
  void SetUp() override { races_.begin_block(1024, 32); }
  void read(std::uint32_t thread, std::uint64_t byte = 100) { races_.access(thread, byte, 4, EMU_READ); }
  void write(std::uint32_t thread, std::uint64_t byte = 100) { races_.access(thread, byte, 4, EMU_WRITE); }
  void add(std::uint32_t thread) { races_.access(thread, 100, 4, EMU_READ | EMU_WRITE | EMU_ATOMIC); }
  RaceChecker races_;
};

TEST_F(EmulatorRaces, AWriteAndAReadWithoutABarrier) {
  write(3);
  read(40);
  ASSERT_TRUE(races_.race());
  EXPECT_EQ(races_.race()->byte, 100u);
  EXPECT_EQ(races_.race()->before, 3u);
  EXPECT_EQ(races_.race()->now, 40u);
  EXPECT_TRUE(races_.race()->before_writes);
  EXPECT_FALSE(races_.race()->now_writes);
}

TEST_F(EmulatorRaces, AReadAndAWriteWithoutABarrier) {
  read(3);
  read(50);
  write(50);
  ASSERT_TRUE(races_.race());
  EXPECT_EQ(races_.race()->before, 3u);
  EXPECT_TRUE(races_.race()->now_writes);
}

TEST_F(EmulatorRaces, TwoWritesThatTouchInOneByte) {
  write(3, 100);
  write(4, 104);
  EXPECT_FALSE(races_.race());
  write(5, 103);
  ASSERT_TRUE(races_.race());
  EXPECT_EQ(races_.race()->byte, 103u);
}

TEST_F(EmulatorRaces, ABarrierOrdersTheBlock) {
  write(3);
  races_.block_met();
  read(40), read(3), read(41);
  races_.block_met();
  write(99);
  EXPECT_FALSE(races_.race());
}

TEST_F(EmulatorRaces, AMeetingOfAWarpOrdersItsLanesAlone) {
  write(3);
  races_.warp_met(0);
  read(4);
  EXPECT_FALSE(races_.race());
  read(32);
  EXPECT_TRUE(races_.race());
}

TEST_F(EmulatorRaces, ThreadsReadTogetherAndOneWritesAlone) {
  for (std::uint32_t thread = 0; thread < 64; ++thread) read(thread);
  write(7, 200);
  read(7, 200), write(7, 200);
  EXPECT_FALSE(races_.race());
}

TEST_F(EmulatorRaces, AtomicAccessesRaceWithOthersOnly) {
  add(3), add(40);
  EXPECT_FALSE(races_.race());
  read(41);
  EXPECT_TRUE(races_.race());
}

TEST_F(EmulatorRaces, ABlockKnowsNothingOfTheOneBefore) {
  write(3);
  races_.begin_block(1024, 32);
  read(40);
  EXPECT_FALSE(races_.race());
}

}  // namespace
}  // namespace crucible::emulator
