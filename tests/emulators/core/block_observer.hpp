// What kernels that tell of themselves (kernel_abi.h) are asked for while a block runs: the memory that it moves and
// its operations, for the model of times, races on its shared memory, and what each lane tells of itself.
#pragma once

#include "tests/emulators/core/kernel_abi.h"
#include "tests/emulators/core/lane_words.hpp"
#include "tests/emulators/core/line_set.hpp"
#include "tests/emulators/core/race_checker.hpp"
#include "tests/emulators/core/timing.hpp"

namespace crucible::emulator {

/// Of one runner of blocks. Threads: one at a time.
class BlockObserver {
 public:
  /// Memory of a block that is no traffic: shared and local memory.
  struct Inner {
    const char* begin = nullptr;
    std::size_t bytes = 0;
    bool holds(std::uint64_t address) const { return address - reinterpret_cast<std::uint64_t>(begin) < bytes; }
  };

  BlockObserver();
  BlockObserver(const BlockObserver&) = delete;
  BlockObserver& operator=(const BlockObserver&) = delete;

  EmuObserver* begin_block(Inner shared, Inner local, std::uint32_t warp, std::uint32_t threads);
  /// What was done since begin_block().
  Work work() const;
  RaceChecker& races() { return races_; }
  /// What the lanes of the last block told.
  const LaneWords& words() const { return words_; }

 private:
  struct Face : EmuObserver {
    BlockObserver* owner = nullptr;
  };
  static void on_access(EmuObserver* face, const EmuThread* thread, std::uint64_t address, std::uint32_t bytes,
                        std::uint32_t kind);

  static void on_tell(EmuObserver* face, const EmuThread* thread, std::uint64_t word);

  Face face_;
  LineSet lines_;
  RaceChecker races_;
  LaneWords words_;
  Inner shared_, local_;
};

}  // namespace crucible::emulator
