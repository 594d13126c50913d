// What kernels that tell of themselves (kernel_abi.h) are asked for while a block runs: the memory that it moves and its operations, for the
// model of times.
#pragma once

#include "tests/emulators/core/kernel_abi.h"
#include "tests/emulators/core/line_set.hpp"
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

  EmuObserver* begin_block(Inner shared, Inner local);
  /// What was done since begin_block().
  Work work() const;

 private:
  struct Face : EmuObserver {
    BlockObserver* owner = nullptr;
  };
  static void on_access(EmuObserver* face, const EmuThread* thread, std::uint64_t address, std::uint32_t bytes, std::uint32_t kind);

  Face face_;
  LineSet lines_;
  Inner shared_, local_;
};

}  // namespace crucible::emulator
