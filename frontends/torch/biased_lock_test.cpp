// The lock under threads that come and go while it is biased towards one of them, and towards another after that. Sums
// are kept in plain numbers: a single lost one means that two threads were inside at once.
#include "frontends/torch/biased_lock.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <thread>
#include <vector>

namespace crucible::recorder {
namespace {

std::uint64_t me() {
  static thread_local const char place = 0;
  return reinterpret_cast<std::uintptr_t>(&place);
}

struct Guarded {
  BiasedLock lock;
  std::uint64_t first = 0, second = 0;  // always equal outside of the lock
  std::atomic<std::uint64_t> unequal{0};

  void add() {
    lock.lock(me());
    if (first != second) unequal.fetch_add(1, std::memory_order_relaxed);
    first = first + 1;
    if (first % 16 == 0) std::this_thread::yield();  // others try while it is held
    second = second + 1;
    lock.unlock();
  }
};

TEST(BiasedLock, OwnerIsAloneUntilAnotherThreadCame) {
  Guarded guarded;
  guarded.lock.bias(me());
  for (int i = 0; i < 1000; ++i) guarded.add();
  std::thread([&] { guarded.add(); }).join();
  EXPECT_FALSE(guarded.lock.is_biased());
  EXPECT_EQ(guarded.first, 1001u);
}

TEST(BiasedLock, NewcomersMeetARunningOwner) {
  // Each round has one moment in which the bias is taken from an owner in full run: there are some rounds.
  for (int round = 0; round < 100; ++round) {
    Guarded guarded;
    std::atomic<bool> runs{false};
    std::uint64_t owned = 0;
    std::thread owner([&] {
      guarded.lock.bias(me());
      for (; owned < 200 || guarded.lock.is_biased(); ++owned) {
        guarded.add();
        if (owned == 50) runs = true;
      }
    });
    while (!runs) std::this_thread::yield();
    for (int i = 0; i < 100; ++i) guarded.add();
    owner.join();
    ASSERT_EQ(guarded.unequal, 0u) << "round " << round;
    ASSERT_EQ(guarded.first, owned + 100) << "round " << round;
  }
}

TEST(BiasedLock, TheBiasMovesWhileOthersAreInside) {
  Guarded guarded;
  std::atomic<std::uint64_t> added{0};
  std::atomic<bool> over{false};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (std::uint64_t i = 0; !over; ++i) {
        if (t < 2 && i % 10 == 0) guarded.lock.bias(me());
        guarded.add();
        added.fetch_add(1, std::memory_order_relaxed);
      }
    });
  }
  while (added < 50000) std::this_thread::yield();
  over = true;
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(guarded.unequal, 0u);
  EXPECT_EQ(guarded.first, added.load());
}

}  // namespace
}  // namespace crucible::recorder
