// Finds races on the shared memory of a block: two threads touch a byte, one of them writes, and nothing orders the
// two. Barriers order all threads of a block, meetings of a warp (shuffles and votes too) its lanes. A race that is
// told is one; not each is found: a barrier of a part of the block counts as one of all, and of the threads that read a
// byte since a barrier two are remembered.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "tests/emulators/core/kernel_abi.h"

namespace crucible::emulator {

struct Race {
  std::uint32_t byte = 0;             // from the start of the shared memory
  std::uint32_t before = 0, now = 0;  // threads, linear
  bool before_writes = false, now_writes = false;
};

/// Of one runner of blocks. Threads: one at a time.
class RaceChecker {
 public:
  void begin_block(std::uint32_t shared_bytes, std::uint32_t warp);
  /// `kind` as in kernel_abi.h; atomic accesses do not race with each other.
  void access(std::uint32_t thread, std::uint64_t byte, std::uint32_t bytes, std::uint32_t kind);
  void block_met() { ++block_phase_; }
  void warp_met(std::uint32_t any_thread) { ++warp_phases_[any_thread / warp_]; }
  /// The block's first.
  const std::optional<Race>& race() const { return race_; }

 private:
  struct Touch {
    std::uint32_t block_phase = 0, warp_phase = 0;  // 0: by nobody
    std::uint16_t thread = 0;
    bool atomic = false;
  };
  struct Cell {
    Touch write, first_read, last_read;
  };
  bool is_unordered(const Touch& before, const Touch& now) const;
  void touch(std::uint32_t byte, const Touch& now, std::uint32_t kind);

  std::vector<Cell> cells_;
  std::vector<std::uint32_t> warp_phases_;
  std::uint32_t block_phase_ = 0, warp_ = 32;
  std::optional<Race> race_;
};

}  // namespace crucible::emulator
