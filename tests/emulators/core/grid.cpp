// Blocks of a grid on a pool of threads: see grid.hpp.
#include "tests/emulators/core/grid.hpp"

#include <algorithm>
#include <cstdio>
#include <memory>
#include <mutex>
#include <numeric>
#include <thread>
#include <vector>

#include "tests/emulators/core/access_guard.hpp"
#include "tests/emulators/core/block_runner.hpp"
#include "tests/emulators/core/settings.hpp"
#include "tests/emulators/core/thread_pool.hpp"

namespace crucible::emulator {
namespace {

/// A permutation of the blocks that needs no memory.
class BlockOrder {
 public:
  BlockOrder(std::uint64_t count, Order order, std::uint64_t seed) : count_(count), reverse_(order == Order::kReverse) {
    if (order != Order::kShuffled || count < 3) return;
    offset_ = seed % count;
    if (count > ~std::uint32_t{0}) return;  // the product below would not fit: rotated only
    step_ = seed * 2 + 1;
    for (step_ = step_ % count; step_ == 0 || std::gcd(step_, count) != 1; step_ = (step_ + 1) % count) {
    }
  }
  std::uint64_t at(std::uint64_t i) const {
    if (reverse_) return count_ - 1 - i;
    return (i * step_ + offset_) % count_;
  }

 private:
  std::uint64_t count_, offset_ = 0, step_ = 1;
  bool reverse_;
};

/// Runners keep stacks and shared memory from grid to grid.
struct Runners {
  std::mutex mutex;
  std::vector<std::unique_ptr<BlockRunner>> idle;

  std::unique_ptr<BlockRunner> take() {
    const std::lock_guard lock(mutex);
    if (idle.empty()) return std::make_unique<BlockRunner>();
    std::unique_ptr<BlockRunner> runner = std::move(idle.back());
    idle.pop_back();
    return runner;
  }
  void give_back(std::unique_ptr<BlockRunner> runner) {
    const std::lock_guard lock(mutex);
    idle.push_back(std::move(runner));
  }
};

Runners& runners() {
  static auto& all = *new Runners;  // never destroyed: threads of a driver outlive main
  return all;
}

unsigned thread_count() {
  const std::uint64_t set = settings().threads;
  return set != 0 ? static_cast<unsigned>(set) : std::max(1u, std::thread::hardware_concurrency());
}

/// "(3, 0, 0)"
std::string place_text(std::uint32_t x, std::uint32_t y, std::uint32_t z) {
  return "(" + std::to_string(x) + ", " + std::to_string(y) + ", " + std::to_string(z) + ")";
}

std::string words_of(const Race& race, const std::string& kernel, const std::array<std::uint32_t, 3>& block,
                     const std::array<std::uint32_t, 3>& size) {
  const auto thread = [&](std::uint32_t i) {
    return place_text(i % size[0], i / size[0] % size[1], i / size[0] / size[1]);
  };
  char address[16];
  std::snprintf(address, sizeof address, "0x%x", race.byte);
  return "race: kernel " + kernel + ", block " + place_text(block[0], block[1], block[2]) + ": thread " +
         thread(race.now) + (race.now_writes ? " writes" : " reads") + " shared byte " + address + ", which thread " +
         thread(race.before) + (race.before_writes ? " wrote" : " read") + ", with no barrier between them";
}

}  // namespace

Outcome run_grid(const KernelCode& kernel, const Launch& launch, const std::atomic<bool>* cancel, Observed* observed,
                 const Sampling* sampling) {
  const std::uint64_t nx = launch.grid[0], ny = launch.grid[1], total = nx * ny * launch.grid[2];
  static std::atomic<std::uint64_t> grids = 0;
  const BlockOrder order(total, settings().order, settings().seed + grids++);
  const AccessGuard::Handler handler;
  std::atomic<std::uint64_t> next = 0;
  std::atomic<Outcome> outcome = Outcome::kDone;
  const auto report = [&](Outcome reported) {
    Outcome done = Outcome::kDone;
    if (reported != Outcome::kDone) outcome.compare_exchange_strong(done, reported);
  };
  std::mutex observed_mutex;
  const auto share = [&] {
    std::unique_ptr<BlockRunner> runner = runners().take();
    Work done;
    std::string race;
    const bool intact = AccessGuard::run([&] {
      for (std::uint64_t i = next++; i < total && outcome.load() == Outcome::kDone; i = next++) {
        const std::uint64_t b = order.at(i);
        const bool tells = sampling != nullptr && std::ranges::find(sampling->blocks, b) != sampling->blocks.end();
        if (sampling != nullptr && sampling->alone && !tells) continue;
        const std::array<std::uint32_t, 3> place = {static_cast<std::uint32_t>(b % nx),
                                                    static_cast<std::uint32_t>(b / nx % ny),
                                                    static_cast<std::uint32_t>(b / nx / ny)};
        const Outcome of_block =
            runner->run(tells ? sampling->code : kernel, launch, place, settings().order == Order::kReverse, cancel);
        if (tells && of_block == Outcome::kDone) {
          const std::lock_guard lock(observed_mutex);
          sampling->told(b, runner->words());
        }
        if (kernel.observed) done += runner->work();
        if (of_block == Outcome::kRace) race = words_of(*runner->race(), kernel.name, place, launch.block);
        report(of_block);
      }
    });
    if (!intact) {
      runner->abandon();
      report(Outcome::kIllegalAddress);
    }
    runners().give_back(std::move(runner));
    if (observed == nullptr) return;
    const std::lock_guard lock(observed_mutex);
    observed->work += done;
    if (observed->race.empty()) observed->race = std::move(race);
  };
  thread_pool().run(static_cast<unsigned>(std::min<std::uint64_t>(thread_count(), total)), share);
  return outcome.load();
}

}  // namespace crucible::emulator
