// Watching a block: see block_observer.hpp.
#include "tests/emulators/core/block_observer.hpp"

#include <algorithm>

namespace crucible::emulator {

BlockObserver::BlockObserver() {
  face_.access = &BlockObserver::on_access;
  face_.tell = &BlockObserver::on_tell;
  face_.owner = this;
}

EmuObserver* BlockObserver::begin_block(Inner shared, Inner local, std::uint32_t warp, std::uint32_t threads) {
  shared_ = shared;
  local_ = local;
  lines_.clear();
  races_.begin_block(static_cast<std::uint32_t>(shared.bytes), warp);
  words_.begin(threads);
  std::ranges::fill(face_.operations, 0);
  return &face_;
}

Work BlockObserver::work() const {
  Work work;
  work.memory_bytes = lines_.bytes();
  std::ranges::copy(face_.operations, work.operations.begin());
  return work;
}

void BlockObserver::on_access(EmuObserver* face, const EmuThread* thread, std::uint64_t address, std::uint32_t bytes,
                              std::uint32_t kind) {
  BlockObserver& self = *static_cast<Face*>(face)->owner;
  if (self.shared_.holds(address)) {
    self.races_.access(thread->linear, address - reinterpret_cast<std::uint64_t>(self.shared_.begin), bytes, kind);
  } else if (!self.local_.holds(address)) {
    self.lines_.add(address, bytes, kind);
  }
}

void BlockObserver::on_tell(EmuObserver* face, const EmuThread* thread, std::uint64_t word) {
  BlockObserver& self = *static_cast<Face*>(face)->owner;
  // Host addresses in shared and local memory, as places in them: no block's lie where another's do.
  if (self.shared_.holds(word)) {
    word = kSharedWord | (word - reinterpret_cast<std::uint64_t>(self.shared_.begin));
  } else if (self.local_.holds(word)) {
    word = kLocalWord;
  }
  self.words_.add(thread->linear, word);
}

}  // namespace crucible::emulator
