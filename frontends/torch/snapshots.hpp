// Bytes of storages and tensors, copied while the program runs: external tensors before their first use, drawn values
// after they were drawn, states before an iteration writes them. It decides nothing about when; the recorder does.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/StorageImpl.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

namespace crucible::recorder {

/// Owns: all the bytes it hands out, until clear(). Threads: one at a time (the recorder's lock).
class Snapshots {
 public:
  /// A copy of the whole storage; empty when it has no memory. Other devices are copied through the CPU.
  std::span<const std::byte> copy_storage(c10::StorageImpl* storage);
  /// The same into memory of the caller's, as large as the storage.
  void copy_into(std::byte* target, c10::StorageImpl* storage);
  /// The elements of a tensor, dense and row-major.
  std::span<const std::byte> copy_tensor(const at::Tensor& tensor);
  /// Time spent on copies above a few KiB so far, in nanoseconds: it is not part of the cost per op.
  std::uint64_t copy_ns() const { return copy_ns_; }
  void add_copy_ns(std::uint64_t ns) { copy_ns_ += ns; }
  /// Bytes handed out so far.
  std::size_t size_bytes() const { return size_bytes_; }
  void clear();

 private:
  std::byte* allocate(std::size_t size);

  std::vector<std::unique_ptr<std::byte[]>> blocks_;
  std::byte* next_ = nullptr;  // small copies share blocks
  std::size_t left_ = 0;
  std::uint64_t copy_ns_ = 0;
  std::size_t size_bytes_ = 0;
};

/// Adds the time of its life to the time spent copying, when `bytes` are many: reading the clock twice costs as much as
/// copying a small storage, and those count as the op's own overhead.
class CopyTimer {
 public:
  CopyTimer(Snapshots& snapshots, std::size_t bytes);
  ~CopyTimer();
  CopyTimer(const CopyTimer&) = delete;
  CopyTimer& operator=(const CopyTimer&) = delete;

 private:
  Snapshots* snapshots_;  // null: not timed
  std::uint64_t start_ns_ = 0;
};

/// The bytes of a storage in place when it is on the CPU; empty otherwise.
std::span<const std::byte> bytes_in_place(const c10::StorageImpl& storage);

/// A number for the bytes of a storage, computed where they lie: another device is waited for. None: it has no bytes.
std::optional<std::uint64_t> checksum_of(c10::StorageImpl* storage);
/// Whether the storage has these bytes; on another device, as far as its sums tell.
bool holds(c10::StorageImpl* storage, std::span<const std::byte> bytes);

/// Copies the storage into `target`, which has its size. Threads: any.
void copy_bytes(c10::StorageImpl* storage, std::byte* target);

}  // namespace crucible::recorder
