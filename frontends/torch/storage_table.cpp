// Insertion and clean-up of the storage table; look-ups are in the header.
#include "frontends/torch/storage_table.hpp"

#include <algorithm>
#include <utility>

namespace crucible::recorder {

namespace {

constexpr std::size_t kFirstCapacity = 4096;

}  // namespace

StorageTable::StorageTable() { grow(kFirstCapacity); }

StorageTable::~StorageTable() { clear(); }

StorageTable::Slot& StorageTable::insert(c10::StorageImpl* impl, std::uint32_t iteration) {
  if (2 * (held_.size() + 1) > slots_.size()) grow(2 * slots_.size());
  std::size_t i = place(impl);
  while (slots_[i].impl != nullptr) i = (i + 1) & mask_;
  c10::raw::weak_intrusive_ptr::incref(impl);
  const std::uint32_t id = static_cast<std::uint32_t>(records_.size());
  slots_[i] = {impl, id, iteration};
  held_.push_back(id);
  StorageRecord& record = records_.emplace_back();
  record.impl = impl;
  record.size_bytes = impl->nbytes();
  record.device = impl->device();
  record.born = iteration;
  return slots_[i];
}

void StorageTable::grow(std::size_t capacity) {
  std::vector<Slot> old(capacity);
  std::swap(old, slots_);
  mask_ = capacity - 1;
  for (const Slot& slot : old) {
    if (slot.impl == nullptr) continue;
    std::size_t i = place(slot.impl);
    while (slots_[i].impl != nullptr) i = (i + 1) & mask_;
    slots_[i] = slot;
  }
}

void StorageTable::erase(std::size_t i) {
  // Linear probing must not have gaps: entries behind move up when their own place is at or before the gap.
  for (std::size_t next = (i + 1) & mask_; slots_[next].impl != nullptr; next = (next + 1) & mask_) {
    if (((next - place(slots_[next].impl)) & mask_) < ((next - i) & mask_)) continue;
    slots_[i] = slots_[next];
    i = next;
  }
  slots_[i] = {};
}

void StorageTable::purge() {
  std::size_t kept = 0;
  for (const std::uint32_t id : held_) {
    c10::StorageImpl* impl = records_[id].impl;
    if (is_alive(impl)) {
      held_[kept++] = id;
      continue;
    }
    erase(static_cast<std::size_t>(find(impl) - slots_.data()));
    records_[id].impl = nullptr;
    c10::raw::weak_intrusive_ptr::decref(impl);
  }
  held_.resize(kept);
}

void StorageTable::clear() {
  for (const std::uint32_t id : held_) c10::raw::weak_intrusive_ptr::decref(records_[id].impl);
  held_.clear();
  records_.clear();
  std::fill(slots_.begin(), slots_.end(), Slot{});
}

}  // namespace crucible::recorder
