// Insertion and clean-up of the storage table; look-ups are in the header.
#include "frontends/torch/storage_table.hpp"

#include <algorithm>
#include <utility>

namespace crucible::recorder {

namespace {

constexpr std::size_t kFirstCapacity = 2048;
// Most storages die young: those that came last but these few are looked at, then the whole set in turn.
constexpr std::size_t kYoung = 8;

}  // namespace

StorageTable::StorageTable() { grow(kFirstCapacity); }

StorageTable::~StorageTable() { clear(); }

StorageTable::Slot& StorageTable::insert(c10::StorageImpl* impl, std::uint32_t iteration) {
  if (held_.size() > kYoung) release_if_dead(held_.size() - kYoung);
  if (!held_.empty()) {
    if (next_look_ >= held_.size()) next_look_ = 0;
    if (!release_if_dead(next_look_)) ++next_look_;
  }
  if (2 * (held_.size() + 1) > slots_.size()) grow(2 * slots_.size());
  std::size_t i = place(impl);
  while (slots_[i].impl != nullptr) i = (i + 1) & mask_;
  c10::raw::weak_intrusive_ptr::incref(impl);
  held_.push_back(impl);
  return slots_[i] = {impl, next_id_++, iteration, kNeverUsed, kNothing, kUntold};
}

void StorageTable::grow(std::size_t capacity) {
  std::vector<Slot> old(capacity);
  std::swap(old, slots_);
  held_.reserve(capacity / 2 + 1);
  mask_ = capacity - 1;
  for (const Slot& slot : old) {
    if (slot.impl == nullptr) continue;
    std::size_t i = place(slot.impl);
    while (slots_[i].impl != nullptr) i = (i + 1) & mask_;
    slots_[i] = slot;
  }
}

void StorageTable::erase(c10::StorageImpl* impl) {
  std::size_t i = place(impl);
  while (slots_[i].impl != impl) i = (i + 1) & mask_;
  // Linear probing must not have gaps: entries behind move up when their own place is at or before the gap.
  for (std::size_t next = (i + 1) & mask_; slots_[next].impl != nullptr; next = (next + 1) & mask_) {
    if (((next - place(slots_[next].impl)) & mask_) < ((next - i) & mask_)) continue;
    slots_[i] = slots_[next];
    i = next;
  }
  slots_[i] = {};
}

bool StorageTable::release_if_dead(std::size_t held) {
  c10::StorageImpl* impl = held_[held];
  if (is_alive(impl)) return false;
  held_[held] = held_.back();
  held_.pop_back();
  erase(impl);
  c10::raw::weak_intrusive_ptr::decref(impl);
  return true;
}

void StorageTable::clear() {
  for (c10::StorageImpl* impl : held_) c10::raw::weak_intrusive_ptr::decref(impl);
  held_.clear();
  std::fill(slots_.begin(), slots_.end(), Slot{});
  next_id_ = 0;
  next_look_ = 0;
}

}  // namespace crucible::recorder
