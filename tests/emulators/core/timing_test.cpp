// The model of times: its arithmetic, what counts as moved, and the clocks of streams.
#include "tests/emulators/core/timing.hpp"

#include <gtest/gtest.h>

#include <cstdlib>
#include <thread>

#include "tests/emulators/core/device.hpp"
#include "tests/emulators/core/line_set.hpp"
#include "tests/emulators/core/settings.hpp"

namespace crucible::emulator {
namespace {

constexpr Rates kRates = {1000, 100, 10, {1, 2, 4, 4, 8, 16, 32, 32}};

TEST(EmulatorTiming, TheLongerOfMemoryAndArithmeticAndALaunch) {
  EXPECT_EQ(modelled_ns(kRates, {}), 1000u);
  EXPECT_EQ(modelled_ns(kRates, {.memory_bytes = 50'000}), 1500u);
  EXPECT_EQ(modelled_ns(kRates, {.memory_bytes = 50'001}), 1501u) << "whole nanoseconds, rounded up";
  EXPECT_EQ(modelled_ns(kRates, {.link_bytes = 50'000}), 6000u);
  EXPECT_EQ(modelled_ns(kRates, {.memory_bytes = 50'000, .operations = {100, 200}}), 1500u);
  EXPECT_EQ(modelled_ns(kRates, {.memory_bytes = 50'000, .operations = {500, 400}}), 1700u)
      << "units one after the other";
  EXPECT_EQ(modelled_ns(kRates, {.operations = {0, 0, 0, 0, 0, 0, 0, 640}}), 1020u);
}

TEST(EmulatorTiming, LinesCountOnceForReadingAndOnceForWriting) {
  LineSet lines;
  lines.add(0, 4, EMU_READ);
  lines.add(124, 4, EMU_READ);
  EXPECT_EQ(lines.bytes(), 128u);
  lines.add(126, 4, EMU_READ);  // over the line's end
  EXPECT_EQ(lines.bytes(), 256u);
  lines.add(64, 4, EMU_READ | EMU_WRITE | EMU_ATOMIC);
  EXPECT_EQ(lines.bytes(), 384u);
  lines.clear();
  EXPECT_EQ(lines.bytes(), 0u);
  for (int round = 0; round < 2; ++round) {
    for (std::uint64_t i = 0; i < 10'000; ++i) lines.add(i * 4096, 8, EMU_WRITE);  // more than the table begins with
  }
  EXPECT_EQ(lines.bytes(), 10'000 * 128u);
}

class EmulatorModelClock : public ::testing::Test {
 protected:
  void SetUp() override {
    setenv("CRUCIBLE_EMU_TIMING", "roofline", 1);
    reload_environment();
    device_.emplace(0);
    device_->set_rates(kRates);
  }
  void TearDown() override {
    device_.reset();
    unsetenv("CRUCIBLE_EMU_TIMING");
    unsetenv("CRUCIBLE_EMU_FAULTS");
    reload_environment();
  }
  /// Work that takes so long, a launch among it.
  void push(DeviceStream& stream, std::uint64_t ns) {
    stream.push([this, ns] { device_->spend({.memory_bytes = 100 * (ns - 1000)}); });
  }
  static std::int64_t between(const Event& begin, const Event& end) { return (*end.time() - *begin.time()).count(); }

  std::optional<Device> device_;
};

TEST_F(EmulatorModelClock, EventsTellTheModelsTimes) {
  DeviceStream& stream = device_->create_stream(true);
  Event begin, middle, end;
  stream.record(begin);
  push(stream, 5000);
  stream.record(middle);
  push(stream, 1234);
  stream.record(end);
  end.wait();
  EXPECT_EQ(between(begin, middle), 5000);
  EXPECT_EQ(between(begin, end), 6234);
}

TEST_F(EmulatorModelClock, AStreamThatWaitsGoesOnWhenBothAreThere) {
  DeviceStream &one = device_->create_stream(true), &other = device_->create_stream(true);
  Event begin, ready, end;
  one.record(begin);
  push(one, 9000);
  one.record(ready);
  while (!ready.time())
    std::this_thread::yield();  // long reached when the other stream is told to wait, and the host has not waited
  push(other, 2000);
  other.hold(ready);
  push(other, 3000);
  other.record(end);
  end.wait();
  EXPECT_EQ(between(begin, end), 12'000);
}

TEST_F(EmulatorModelClock, StreamsRunSideBySide) {
  DeviceStream &one = device_->create_stream(true), &other = device_->create_stream(true);
  Event begin, ready, end;
  one.record(begin);
  push(one, 9000);
  one.record(ready);
  push(other, 2000);
  other.hold(ready);
  push(other, 3000);
  other.record(end);
  end.wait();
  EXPECT_EQ(between(begin, end), 12'000) << "2000 of the other stream lie beside the first one's 9000";
}

TEST_F(EmulatorModelClock, WorkBeginsNoEarlierThanTheHostThatPushedIt) {
  DeviceStream &one = device_->create_stream(true), &other = device_->create_stream(true);
  Event begin, end;
  one.record(begin);
  push(one, 7000);
  one.synchronize();
  push(other, 2000);
  other.record(end);
  end.wait();
  EXPECT_EQ(between(begin, end), 9000);
}

TEST_F(EmulatorModelClock, TheDefaultStreamWaitsInTheModelToo) {
  DeviceStream &old = device_->default_stream(), &blocking = device_->create_stream(false);
  Event begin, end;
  blocking.record(begin);
  push(blocking, 4000);
  push(old, 2000);
  old.record(end);
  end.wait();
  EXPECT_EQ(between(begin, end), 6000);
}

TEST_F(EmulatorModelClock, AFaultThatSlowsDownTakesTimeOfTheModel) {
  setenv("CRUCIBLE_EMU_FAULTS", "slow:2ms@copy", 1);
  reload_environment();
  DeviceStream& stream = device_->create_stream(true);
  Event begin, end;
  stream.record(begin);
  stream.push([this] { device_->at(Site::kCopy, "h2d", 10); });
  stream.record(end);
  end.wait();
  EXPECT_EQ(between(begin, end), 2'000'000);
}

TEST(EmulatorTiming, WithoutTheSettingTimesAreTheMachines) {
  Device device(0);
  device.set_rates(kRates);
  DeviceStream& stream = device.create_stream(true);
  Event event;
  const auto before = std::chrono::steady_clock::now();
  stream.push([&] { device.spend({.memory_bytes = 1'000'000'000'000'000}); });
  stream.record(event);
  event.wait();
  EXPECT_GE(*event.time(), before);
  EXPECT_LE(*event.time(), std::chrono::steady_clock::now());
}

}  // namespace
}  // namespace crucible::emulator
