// Which storage is which: a StorageImpl's address becomes an id by generation. Every known storage is held by a weak
// reference, which pins its address without keeping its bytes or changing what autograd sees, so a recycled address is
// always a new id. Dead entries are let go of as new ones come, so that the table stays as small as the set of living
// storages and the program's allocator gets its memory back warm. It copies no bytes; snapshots.hpp does.
#pragma once

#include <c10/core/StorageImpl.h>
#include <c10/util/intrusive_ptr.h>

#include <cstdint>
#include <vector>

namespace crucible::recorder {

inline constexpr std::uint32_t kNothing = 0xffffffffu;
inline constexpr std::uint32_t kNeverUsed = 0xffffffffu;
inline constexpr std::uint32_t kAfterPause = 0xfffffffeu;  // ops that were not seen may have changed it: compare
inline constexpr std::uint32_t kTakeAgain = 0xfffffffdu;   // what the file knows of it is older than its bytes
inline constexpr std::uint32_t kUnfilled = 0xfffffffcu;    // no op has written it since `empty` returned it
inline constexpr std::uint64_t kUntold = ~std::uint64_t{0};

/// Owns: a weak reference per entry. Threads: one at a time (the recorder's lock).
class StorageTable {
 public:
  struct Slot {
    c10::StorageImpl* impl = nullptr;
    std::uint32_t id = 0;
    std::uint32_t iteration = 0;           // last iteration in which an op used it, or one of the four above
    std::uint32_t written = kNeverUsed;    // last iteration in which an op wrote it
    std::uint32_t details = kNothing;  // what is known beyond this, for storages that outlive an iteration or entered
    std::uint64_t size_bytes = kUntold;    // as last told to the log
  };

  StorageTable();
  ~StorageTable();
  StorageTable(const StorageTable&) = delete;
  StorageTable& operator=(const StorageTable&) = delete;

  /// The entry of `impl`, or null. Entries move: hold none across insert, release_dead or remove_dead.
  Slot* find(const c10::StorageImpl* impl) {
    for (std::size_t i = place(impl);; i = (i + 1) & mask_) {
      Slot& slot = slots_[i];
      if (slot.impl == impl) return &slot;
      if (slot.impl == nullptr) return nullptr;
    }
  }
  /// Adds an entry for `impl`, which must be unknown; `iteration` may be kNeverUsed. Lets go of one or two dead ones.
  [[gnu::hot]] Slot& insert(c10::StorageImpl* impl, std::uint32_t iteration);
  /// Drops all entries whose storage has died and calls `visit(Slot&)` for each of the others.
  template <class Visit>
  void remove_dead(Visit visit) {
    for (std::size_t i = 0; i < held_.size();) {
      if (release_if_dead(i)) continue;
      visit(*find(held_[i++]));
    }
  }
  /// Calls `visit(const Slot&)` for each storage that is alive.
  template <class Visit>
  void for_each_alive(Visit visit) const {
    for (const Slot& slot : slots_) {
      if (slot.impl != nullptr && is_alive(slot.impl)) visit(slot);
    }
  }
  /// Drops all entries; ids start at 0 again.
  void clear();

  /// False when nothing but our weak reference is left of it.
  static bool is_alive(c10::StorageImpl* impl) { return c10::raw::weak_intrusive_ptr::use_count(impl) > 0; }

 private:
  std::size_t place(const c10::StorageImpl* impl) const {
    return (reinterpret_cast<std::uintptr_t>(impl) * 0x9E3779B97F4A7C15ull >> 32) & mask_;
  }
  void grow(std::size_t capacity);
  [[gnu::hot]] void erase(c10::StorageImpl* impl);
  [[gnu::hot]] bool release_if_dead(std::size_t held);

  std::vector<Slot> slots_;  // open addressing, linear probing
  std::size_t mask_ = 0;
  std::vector<c10::StorageImpl*> held_;  // the storages in slots_
  std::size_t next_look_ = 0;            // the place in held_ that is looked at next for a dead one
  std::uint32_t next_id_ = 0;
};

}  // namespace crucible::recorder
