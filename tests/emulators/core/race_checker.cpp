// Who touched a byte last, by phases between meetings: see race_checker.hpp.
#include "tests/emulators/core/race_checker.hpp"

#include <algorithm>

#include "tests/emulators/core/grid.hpp"

namespace crucible::emulator {

/// What was touched in another block is of an earlier phase: nothing has to be forgotten.
void RaceChecker::begin_block(std::uint32_t shared_bytes, std::uint32_t warp) {
  if (cells_.size() < shared_bytes) cells_.resize(shared_bytes);
  warp_ = warp;
  warp_phases_.assign(kMaximumBlockThreads, 0);
  race_.reset();
  block_met();
}

void RaceChecker::access(std::uint32_t thread, std::uint64_t byte, std::uint32_t bytes, std::uint32_t kind) {
  const Touch now = {block_phase_, warp_phases_[thread / warp_], static_cast<std::uint16_t>(thread),
                     (kind & EMU_ATOMIC) != 0};
  const std::uint64_t end = std::min<std::uint64_t>(byte + bytes, cells_.size());
  for (std::uint64_t i = byte; i < end && !race_; ++i) touch(static_cast<std::uint32_t>(i), now, kind);
}

bool RaceChecker::is_unordered(const Touch& before, const Touch& now) const {
  if (before.thread == now.thread || before.block_phase != now.block_phase || (before.atomic && now.atomic))
    return false;
  return before.thread / warp_ != now.thread / warp_ || before.warp_phase == now.warp_phase;
}

void RaceChecker::touch(std::uint32_t byte, const Touch& now, std::uint32_t kind) {
  Cell& cell = cells_[byte];
  const bool writes = (kind & EMU_WRITE) != 0;
  const auto judge = [&](const Touch& before, bool before_writes) {
    if (!race_ && is_unordered(before, now)) race_ = {byte, before.thread, now.thread, before_writes, writes};
  };
  judge(cell.write, true);
  if (writes) {
    judge(cell.first_read, false);
    judge(cell.last_read, false);
    cell.write = now;
  }
  if ((kind & EMU_READ) == 0) return;
  if (cell.first_read.block_phase != now.block_phase) cell.first_read = now;
  cell.last_read = now;
}

}  // namespace crucible::emulator
