// Watching a block: see block_observer.hpp.
#include "tests/emulators/core/block_observer.hpp"

#include <algorithm>

namespace crucible::emulator {

BlockObserver::BlockObserver() {
  face_.access = &BlockObserver::on_access;
  face_.owner = this;
}

EmuObserver* BlockObserver::begin_block(Inner shared, Inner local, std::uint32_t warp) {
  shared_ = shared;
  local_ = local;
  lines_.clear();
  races_.begin_block(static_cast<std::uint32_t>(shared.bytes), warp);
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

}  // namespace crucible::emulator
