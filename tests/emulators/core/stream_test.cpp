// Streams are asynchronous and in order; events wait across them and tell times.
#include "tests/emulators/core/stream.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>
#include <iterator>
#include <thread>
#include <vector>

namespace crucible::emulator {
namespace {

using std::chrono::milliseconds;

/// Work that ends when it is let go.
class Gate {
 public:
  Stream::Work work() {
    return [open = open_] {
      while (!open->load()) std::this_thread::sleep_for(milliseconds(1));
    };
  }
  void open() { open_->store(true); }

 private:
  std::shared_ptr<std::atomic<bool>> open_ = std::make_shared<std::atomic<bool>>(false);
};

TEST(EmulatorStream, WorkIsDoneInOrderAndBehindTheCallersBack) {
  Stream stream;
  Gate gate;
  std::vector<int> done;
  stream.push(gate.work());
  for (int i = 0; i < 100; ++i) stream.push([&, i] { done.push_back(i); });
  EXPECT_FALSE(stream.idle());
  EXPECT_TRUE(done.empty());
  gate.open();
  stream.synchronize();
  EXPECT_TRUE(stream.idle());
  ASSERT_EQ(done.size(), 100u);
  for (int i = 0; i < 100; ++i) EXPECT_EQ(done[i], i);
}

TEST(EmulatorStream, ATicketIsWaitedForAndNoMore) {
  Stream stream;
  Gate gate;
  std::atomic<int> done = 0;
  const std::uint64_t first = stream.push([&] { ++done; });
  stream.push(gate.work());
  stream.wait(first);
  EXPECT_EQ(done, 1);
  EXPECT_FALSE(stream.idle());
  gate.open();
}

TEST(EmulatorStream, TheEndOfAStreamWaitsForItsWork) {
  std::atomic<int> done = 0;
  {
    Stream stream;
    for (int i = 0; i < 10; ++i) {
      stream.push([&] {
        std::this_thread::sleep_for(milliseconds(1));
        ++done;
      });
    }
  }
  EXPECT_EQ(done, 10);
}

std::ptrdiff_t threads() {
  return std::distance(std::filesystem::directory_iterator("/proc/self/task"), std::filesystem::directory_iterator());
}

void wait_for_threads(std::ptrdiff_t most) {
  for (int i = 0; i < 300 && threads() > most; ++i) std::this_thread::sleep_for(milliseconds(10));
}

TEST(EmulatorStream, AnIdleThreadEndsAndComesBack) {
  wait_for_threads(1);  // those of other tests
  const std::ptrdiff_t before = threads();
  Stream stream;
  std::atomic<int> done = 0;
  stream.push([&] { ++done; });
  stream.synchronize();
  EXPECT_EQ(threads(), before + 1);
  wait_for_threads(before);
  EXPECT_EQ(threads(), before);
  stream.push([&] { ++done; });
  stream.synchronize();
  EXPECT_EQ(done, 2);
}

TEST(EmulatorEvent, HoldsAnotherStreamUntilItIsReached) {
  Stream first, second;
  Gate gate;
  Event event;
  EXPECT_TRUE(event.reached());
  EXPECT_FALSE(event.recorded());
  EXPECT_FALSE(event.time());
  std::atomic<bool> done = false;
  first.push(gate.work());
  event.record(first);
  EXPECT_TRUE(event.recorded());
  EXPECT_FALSE(event.reached());
  event.hold(second);
  second.push([&] { done = true; });
  std::this_thread::sleep_for(milliseconds(20));
  EXPECT_FALSE(done);
  gate.open();
  second.synchronize();
  EXPECT_TRUE(done);
  event.wait();
  EXPECT_TRUE(event.reached());
}

TEST(EmulatorEvent, TimesAreThoseOfTheWork) {
  Stream stream;
  Event begin, end;
  begin.record(stream);
  stream.push([] { std::this_thread::sleep_for(milliseconds(30)); });
  end.record(stream);
  end.wait();
  EXPECT_GE(*end.time() - *begin.time(), milliseconds(30));
}

TEST(EmulatorEvent, MayEndBeforeItIsReached) {
  Stream stream;
  Gate gate;
  stream.push(gate.work());
  {
    Event event;
    event.record(stream);
  }
  gate.open();
  stream.synchronize();
}

}  // namespace
}  // namespace crucible::emulator
