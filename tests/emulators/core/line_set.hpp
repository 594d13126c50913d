// The distinct lines of memory that a block reads and writes, for the model of times: what a block reads twice counts
// once, what two blocks read counts twice.
#pragma once

#include <cstdint>
#include <vector>

#include "tests/emulators/core/kernel_abi.h"

namespace crucible::emulator {

inline constexpr std::uint64_t kLineBytes = 128;

/// Threads: one at a time.
class LineSet {
 public:
  /// Forgets everything, without giving memory back.
  void clear();
  /// `kind`: EMU_READ, EMU_WRITE or both.
  void add(std::uint64_t address, std::uint32_t bytes, std::uint32_t kind);
  /// Of lines that were read, and of lines that were written.
  std::uint64_t bytes() const { return kLineBytes * count_; }

 private:
  struct Slot {
    std::uint64_t line = 0;
    std::uint32_t round = 0;  // in use when it is that of the set
    std::uint32_t kinds = 0;
  };
  Slot& slot_of(std::uint64_t line);
  void grow();

  std::vector<Slot> slots_ = std::vector<Slot>(1024);
  std::uint32_t round_ = 1;
  std::uint64_t lines_ = 0, count_ = 0;
};

}  // namespace crucible::emulator
