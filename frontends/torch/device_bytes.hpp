// Bytes that lie on another device: sums that are computed where they lie, so that a change is told without copying the
// bytes, and what an iteration keeps there until its end. It decides nothing about when; the recorder does.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/StorageImpl.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "frontends/torch/log.hpp"
#include "frontends/torch/operators.hpp"

namespace crucible::recorder {

/// Nothing that runs under it is recorded, differentiated or handed to Python.
struct PlainOps {
  c10::impl::ExcludeDispatchKeyGuard guard{
      c10::DispatchKeySet({c10::DispatchKey::Fake, c10::DispatchKey::Python, c10::DispatchKey::PythonTLSSnapshot,
                           c10::DispatchKey::ADInplaceOrView}) |
      c10::autograd_dispatch_keyset};
};

/// Whether the storage has bytes that the processor cannot read in place.
bool is_elsewhere(const c10::StorageImpl& storage);
/// Its bytes as a tensor, without copying them.
at::Tensor bytes_of(c10::StorageImpl* storage);
/// Waits for everything that the storage's device has been given, on whatever stream.
void wait_for_device_of(const c10::StorageImpl& storage);

/// Sums of a storage's bytes, queued on the device's current stream behind what the program has queued there. Two of
/// different content are equal with next to no probability, and so is their order by sums of rows and of columns.
at::Tensor queue_sums(c10::StorageImpl* storage);
/// One number for each of the sums: waits once for each device.
std::vector<std::uint64_t> fetch_sums(const std::vector<at::Tensor>& sums);
/// What fetch_sums gives for a storage that has these bytes.
std::uint64_t sums_of(std::span<const std::byte> bytes);

/// A use of a storage whose sums are compared when the iteration ends: see Recorder::look_at.
struct DeviceLook {
  std::uint32_t storage = 0;
  std::size_t size_bytes = 0;
  RecordHeader header{};
  Usage usage = Usage::kView;  // kView: what is known of it is forgotten
  bool at_end = false;         // of the iteration: no op's use
  at::Tensor sums;
};

/// A drawn value that stays where it was drawn until the iteration ends.
struct DeviceDraw {
  std::uint64_t sequence = 0;
  std::uint32_t output = 0;
  at::Tensor kept;  // a copy: nothing of the program's is held
};

}  // namespace crucible::recorder
