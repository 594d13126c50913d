// One device: sticky failures, the default stream's order, and what faults do at a place.
#include "tests/emulators/core/device.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <thread>

#include "tests/emulators/core/settings.hpp"

namespace crucible::emulator {
namespace {

using std::chrono::milliseconds;

class EmulatorDevice : public ::testing::Test {
 protected:
  void set_faults(const char* rules) {
    setenv("CRUCIBLE_EMU_FAULTS", rules, 1);
    reload_environment();
  }
  void TearDown() override {
    unsetenv("CRUCIBLE_EMU_FAULTS");
    reload_environment();
  }
  Device device_{0};
};

TEST_F(EmulatorDevice, AFailureStaysAndStopsWork) {
  DeviceStream& stream = device_.create_stream(true);
  int done = 0;
  stream.push([&] { ++done; });
  stream.push([&] { device_.fail(DeviceState::kIllegalAddress); });
  stream.push([&] { ++done; });
  device_.synchronize();
  EXPECT_EQ(done, 1);
  device_.fail(DeviceState::kLost);
  EXPECT_EQ(device_.state(), DeviceState::kIllegalAddress);
  device_.reset();
  EXPECT_EQ(device_.state(), DeviceState::kGood);
  stream.push([&] { ++done; });
  stream.synchronize();
  EXPECT_EQ(done, 2);
}

TEST_F(EmulatorDevice, EventsAreReachedOnADeadDevice) {
  DeviceStream& stream = device_.create_stream(true);
  device_.fail(DeviceState::kLost);
  Event event;
  stream.record(event);
  event.wait();
  EXPECT_TRUE(event.reached());
}

TEST_F(EmulatorDevice, TheDefaultStreamWaitsForOthersAndTheyForIt) {
  DeviceStream& blocking = device_.create_stream(false);
  DeviceStream& free_running = device_.create_stream(true);
  DeviceStream& old = device_.default_stream();
  std::atomic<int> steps = 0;
  std::atomic<bool> open = false;
  std::atomic<int> at_old = -1, at_blocking = -1;
  blocking.push([&] {
    while (!open) std::this_thread::sleep_for(milliseconds(1));
    ++steps;
  });
  old.push([&] { at_old = steps++; });
  blocking.push([&] { at_blocking = steps++; });
  std::atomic<bool> ran = false;
  free_running.push([&] { ran = true; });
  free_running.synchronize();
  EXPECT_TRUE(ran);
  EXPECT_EQ(at_old, -1);
  open = true;
  device_.synchronize();
  EXPECT_EQ(at_old, 1);
  EXPECT_EQ(at_blocking, 2);
}

TEST_F(EmulatorDevice, OnlyItsOwnStreamsAreDestroyed) {
  Device other(1);
  DeviceStream& stream = device_.create_stream(true);
  EXPECT_TRUE(device_.owns(&stream));
  EXPECT_FALSE(other.destroy(&stream));
  EXPECT_FALSE(device_.destroy(&device_.default_stream()));
  EXPECT_TRUE(device_.destroy(&stream));
  EXPECT_FALSE(device_.owns(&stream));
}

TEST_F(EmulatorDevice, FaultsActAtTheirPlace) {
  set_faults("oom@alloc#2; trap@launch(bad); lost@launch(gone)");
  EXPECT_FALSE(device_.at(Site::kAlloc));
  EXPECT_EQ(device_.at(Site::kAlloc)->action, Action::kOom);
  EXPECT_EQ(device_.state(), DeviceState::kGood);
  device_.at(Site::kLaunch, "bad");
  EXPECT_EQ(device_.state(), DeviceState::kTrap);
  device_.reset();
  device_.at(Site::kLaunch, "gone");
  EXPECT_EQ(device_.state(), DeviceState::kLost);
}

TEST_F(EmulatorDevice, HangAndSlowTakeTheirTime) {
  set_faults("hang:40ms@launch; slow:0.001GBps@copy");
  const auto begin = std::chrono::steady_clock::now();
  device_.at(Site::kLaunch, "k");
  EXPECT_GE(std::chrono::steady_clock::now() - begin, milliseconds(40));
  const auto copy = std::chrono::steady_clock::now();
  device_.at(Site::kCopy, "h2d", 50'000);
  EXPECT_GE(std::chrono::steady_clock::now() - copy, milliseconds(50));
}

TEST_F(EmulatorDevice, ResetEndsAHangWithoutATime) {
  set_faults("hang@launch#1");
  DeviceStream& stream = device_.create_stream(true);
  stream.push([&] { device_.at(Site::kLaunch, "k"); });
  std::this_thread::sleep_for(milliseconds(20));
  EXPECT_FALSE(stream.idle());
  device_.reset();
  EXPECT_TRUE(stream.idle());
}

TEST_F(EmulatorDevice, AGridsFailureIsTheDevices) {
  const KernelCode trap = {.block = [](EmuBlock* b, EmuThread*) { b->trapped = 1; }};
  device_.run(trap, {});
  EXPECT_EQ(device_.state(), DeviceState::kTrap);
  device_.reset();
  const KernelCode wild = {.block = [](EmuBlock*, EmuThread*) { *reinterpret_cast<volatile int*>(8) = 1; }};
  device_.run(wild, {});
  EXPECT_EQ(device_.state(), DeviceState::kIllegalAddress);
}

}  // namespace
}  // namespace crucible::emulator
