// Which storage is which: a StorageImpl's address becomes an id by generation. Every known storage is held by a weak
// reference, which pins its address without keeping its bytes or changing what autograd sees, so a recycled address is
// always a new id. It copies no bytes; snapshots.hpp does.
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

/// One storage, alive or not; its index is its id.
struct StorageRecord {
  c10::StorageImpl* impl = nullptr;  // weakly held; null once it was found dead
  std::uint64_t size_bytes = 0;
  c10::Device device{c10::kCPU};
  bool external = false;         // its bytes were recorded when an op first read it
  bool written = false;          // a recorded op wrote to it
  std::uint32_t born = kNeverUsed;           // iteration in which an op used it first
  std::uint32_t last_external = kNothing;    // its latest entry in RecordingState::externals
  std::uint32_t details = kNothing;          // its entry in RecordingState::details, for few
};

/// Owns: a weak reference per live entry. Threads: one at a time (the recorder's lock).
class StorageTable {
 public:
  struct Slot {
    c10::StorageImpl* impl = nullptr;
    std::uint32_t id = 0;
    std::uint32_t iteration = 0;  // last iteration in which an op used it, or one of the three above
  };

  StorageTable();
  ~StorageTable();
  StorageTable(const StorageTable&) = delete;
  StorageTable& operator=(const StorageTable&) = delete;

  /// The entry of `impl`, or null.
  Slot* find(c10::StorageImpl* impl) {
    for (std::size_t i = place(impl);; i = (i + 1) & mask_) {
      Slot& slot = slots_[i];
      if (slot.impl == impl) return &slot;
      if (slot.impl == nullptr) return nullptr;
    }
  }
  /// Adds an entry for `impl`, which must be unknown; `iteration` may be kNeverUsed. The reference is valid until the
  /// next insert or purge.
  Slot& insert(c10::StorageImpl* impl, std::uint32_t iteration);
  /// Drops the entries whose storage has died.
  void purge();
  /// Drops all entries; ids start at 0 again.
  void clear();

  StorageRecord& record(std::uint32_t id) { return records_[id]; }
  const std::vector<StorageRecord>& records() const { return records_; }
  /// Ids of the storages that were alive at the last purge, and of all since.
  const std::vector<std::uint32_t>& held() const { return held_; }
  /// False when nothing but our weak reference is left of it.
  static bool is_alive(c10::StorageImpl* impl) { return c10::raw::weak_intrusive_ptr::use_count(impl) > 0; }

 private:
  std::size_t place(const c10::StorageImpl* impl) const {
    return (reinterpret_cast<std::uintptr_t>(impl) * 0x9E3779B97F4A7C15ull >> 32) & mask_;
  }
  void grow(std::size_t capacity);
  void erase(std::size_t i);

  std::vector<Slot> slots_;  // open addressing, linear probing
  std::size_t mask_ = 0;
  std::vector<StorageRecord> records_;
  std::vector<std::uint32_t> held_;  // ids whose storage is in slots_
};

}  // namespace crucible::recorder
