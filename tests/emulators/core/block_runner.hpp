// Runs one block: its threads by turns, meetings when all who belong to them wait. Used by run_grid(), one runner per
// thread of the pool.
#pragma once

#include <atomic>
#include <memory>
#include <vector>

#include "tests/emulators/core/block_observer.hpp"
#include "tests/emulators/core/fiber.hpp"
#include "tests/emulators/core/grid.hpp"

namespace crucible::emulator {

/// Threads: one at a time; a runner may move between threads from block to block, when abandon() was not needed.
class BlockRunner {
 public:
  BlockRunner();
  BlockRunner(const BlockRunner&) = delete;
  BlockRunner& operator=(const BlockRunner&) = delete;
  ~BlockRunner();

  Outcome run(const KernelCode& kernel, const Launch& launch, std::array<std::uint32_t, 3> block, bool warps_reversed,
              const std::atomic<bool>* cancel);
  /// What the last block did, and how it raced, when its kernel tells of itself.
  Work work() const { return observer_.work(); }
  const std::optional<Race>& race() { return observer_.races().race(); }
  const LaneWords& words() const { return observer_.words(); }
  /// After a block was left in the middle.
  void abandon();

 private:
  static constexpr int kRunning = -1;  // beside EMU_DONE, EMU_BARRIER, EMU_WARP

  Outcome run_prepared(const KernelCode& kernel, bool warps_reversed, const std::atomic<bool>* cancel);
  static void wait(EmuBlock* block, EmuThread* thread, int kind);
  static void fiber_body(void* runner, std::uint32_t thread);
  void prepare(const KernelCode& kernel, const Launch& launch, std::array<std::uint32_t, 3> block);
  void set_shared(std::uint32_t bytes);
  Outcome run_threads(bool warps_reversed, const std::atomic<bool>* cancel);
  bool run_warp(std::uint32_t first, std::uint32_t end, bool& trapped);
  bool release_warp(std::uint32_t first, std::uint32_t end);
  bool release_barriers();
  bool release_barrier(std::uint32_t id);
  int step(std::uint32_t thread);

  EmuBlock block_ = {};
  const KernelCode* kernel_ = nullptr;
  std::vector<EmuThread> threads_;
  std::vector<int> state_;
  std::vector<std::uint64_t> offered_, save_;
  std::vector<std::uint8_t> present_;
  std::vector<char> local_;
  std::unique_ptr<Fibers> fibers_;
  BlockObserver observer_;
  std::uint32_t live_ = 0;
  char* shared_pages_ = nullptr;
  std::size_t shared_page_bytes_ = 0;
};

}  // namespace crucible::emulator
