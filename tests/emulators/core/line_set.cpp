// A hash table that is emptied by counting a round on: see line_set.hpp.
#include "tests/emulators/core/line_set.hpp"

#include <bit>
#include <utility>

namespace crucible::emulator {

void LineSet::clear() {
  if (++round_ == 0) {
    slots_.assign(slots_.size(), Slot{});
    round_ = 1;
  }
  lines_ = count_ = 0;
}

void LineSet::add(std::uint64_t address, std::uint32_t bytes, std::uint32_t kind) {
  for (std::uint64_t line = address / kLineBytes; line <= (address + bytes - 1) / kLineBytes; ++line) {
    if (2 * lines_ >= slots_.size()) grow();
    Slot& slot = slot_of(line);
    if (slot.round != round_) {
      slot = {line, round_, 0};
      ++lines_;
    }
    const std::uint32_t fresh = kind & (EMU_READ | EMU_WRITE) & ~slot.kinds;
    count_ += static_cast<std::uint64_t>(std::popcount(fresh));
    slot.kinds |= fresh;
  }
}

/// That of the line, or the free one where it belongs.
LineSet::Slot& LineSet::slot_of(std::uint64_t line) {
  const std::size_t mask = slots_.size() - 1;  // the size is a power of two
  std::size_t at = (line * 0x9e3779b97f4a7c15ull) >> 32 & mask;
  while (slots_[at].round == round_ && slots_[at].line != line) at = (at + 1) & mask;
  return slots_[at];
}

void LineSet::grow() {
  const std::vector<Slot> before = std::exchange(slots_, std::vector<Slot>(2 * slots_.size()));
  for (const Slot& slot : before) {
    if (slot.round == round_) slot_of(slot.line) = slot;
  }
}

}  // namespace crucible::emulator
