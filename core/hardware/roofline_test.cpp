#include "core/hardware/roofline.hpp"

#include <gtest/gtest.h>

namespace crucible::hardware {
namespace {

DeviceProfile toy() {
  DeviceProfile profile{.name = "toy"};
  const auto set = [&](const char* key, double value) { profile.figures[key] = {.value = value}; };
  set("memory.size", 1e9);
  set("level.l1.size", 1000);
  set("level.l1.bandwidth", 100e9);
  set("level.llc.size", 10000);
  set("level.llc.bandwidth", 20e9);
  set("level.dram.bandwidth", 5e9);
  set("peak.vector.f32", 50e9);
  set("peak.matrix.bf16", 400e9);
  set("cost.launch", 1e-6);
  return profile;
}

TEST(Roofline, BytesComeFromTheNearestLevelThatStillHasThem) {
  EXPECT_EQ(bandwidth_at(toy(), 0), 100);
  EXPECT_EQ(bandwidth_at(toy(), 1000), 100);
  EXPECT_EQ(bandwidth_at(toy(), 1001), 20);
  EXPECT_EQ(bandwidth_at(toy(), 10001), 5);
  DeviceProfile card = toy();
  card.figures["sub_group.smallest"] = {.value = 32};
  EXPECT_EQ(bandwidth_at(card, 0), 20);
}

TEST(Roofline, ThePeakIsTheEngines) {
  EXPECT_EQ(peak_of(toy(), "bf16", true), 400);
  EXPECT_EQ(peak_of(toy(), "bf16", false), 50);
  EXPECT_EQ(peak_of(toy(), "f32", true), 50);
  EXPECT_EQ(peak_of(toy(), "f64", false), 50);
}

TEST(Roofline, TheLongerOfMemoryAndArithmeticCounts) {
  const Prediction memory = predict(toy(), {.traffic = {{1000, 100}, {1000, 1e6}}, .flops = 100});
  EXPECT_DOUBLE_EQ(memory.memory_ns, 10 + 200);
  EXPECT_DOUBLE_EQ(memory.compute_ns, 2);
  EXPECT_DOUBLE_EQ(memory.launch_ns, 1000);
  EXPECT_DOUBLE_EQ(memory.total_ns(), 1210);
  EXPECT_EQ(memory.bound(), Bound::kLaunch);
  EXPECT_EQ(predict(toy(), {.traffic = {{1e6, 1e6}}, .flops = 1}).bound(), Bound::kMemory);
  EXPECT_EQ(predict(toy(), {.traffic = {}, .flops = 1e9}).bound(), Bound::kCompute);
}

}  // namespace
}  // namespace crucible::hardware
