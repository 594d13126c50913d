// Copies from other devices go through the framework's own operators with recording and autograd shut out.
#include "frontends/torch/snapshots.hpp"

#include <ATen/Functions.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include <chrono>
#include <cstring>

namespace crucible::recorder {

namespace {

constexpr std::size_t kBlock = std::size_t{1} << 16;
constexpr std::size_t kSmall = 4096;

std::uint64_t now_ns() {
  return static_cast<std::uint64_t>(std::chrono::steady_clock::now().time_since_epoch().count());
}

/// Nothing that runs under it is recorded, differentiated or handed to Python.
struct PlainOps {
  c10::impl::ExcludeDispatchKeyGuard guard{c10::DispatchKeySet({c10::DispatchKey::Fake, c10::DispatchKey::Python,
                                                                c10::DispatchKey::PythonTLSSnapshot,
                                                                c10::DispatchKey::ADInplaceOrView}) |
                                           c10::autograd_dispatch_keyset};
};

}  // namespace

CopyTimer::CopyTimer(Snapshots& snapshots, std::size_t bytes) : snapshots_(bytes > kSmall ? &snapshots : nullptr) {
  if (snapshots_ != nullptr) start_ns_ = now_ns();
}

CopyTimer::~CopyTimer() {
  if (snapshots_ != nullptr) snapshots_->add_copy_ns(now_ns() - start_ns_);
}

std::byte* Snapshots::allocate(std::size_t size) {
  size_bytes_ += size;
  if (size > kSmall) {
    return blocks_.emplace_back(std::make_unique_for_overwrite<std::byte[]>(size)).get();
  }
  if (left_ < size) {
    next_ = blocks_.emplace_back(std::make_unique_for_overwrite<std::byte[]>(kBlock)).get();
    left_ = kBlock;
  }
  std::byte* place = next_;
  const std::size_t padded = (size + 15) & ~std::size_t{15};
  next_ += padded;
  left_ -= padded;
  return place;
}

std::span<const std::byte> bytes_in_place(const c10::StorageImpl& storage) {
  if (!storage.device().is_cpu()) return {};
  const void* data = storage.data();
  return {static_cast<const std::byte*>(data), data == nullptr ? 0 : storage.nbytes()};
}

void copy_bytes(c10::StorageImpl* storage, std::byte* target) {
  if (storage->device().is_cpu()) {
    const auto bytes = bytes_in_place(*storage);
    if (!bytes.empty()) std::memcpy(target, bytes.data(), bytes.size());
    return;
  }
  const PlainOps plain;
  const at::Tensor there =
      at::empty({0}, at::TensorOptions().dtype(at::kByte).device(storage->device()))
          .set_(c10::Storage(c10::intrusive_ptr<c10::StorageImpl>::reclaim_copy(storage)));
  const at::Tensor here = there.to(at::kCPU);
  std::memcpy(target, here.const_data_ptr(), static_cast<std::size_t>(here.numel()));
}

std::span<const std::byte> Snapshots::copy_storage(c10::StorageImpl* storage) {
  const std::size_t size = storage->nbytes();
  if (size == 0 || storage->data() == nullptr) return {};
  std::byte* target = allocate(size);
  copy_into(target, storage);
  return {target, size};
}

void Snapshots::copy_into(std::byte* target, c10::StorageImpl* storage) {
  const CopyTimer timer(*this, storage->device().is_cpu() ? storage->nbytes() : SIZE_MAX);
  copy_bytes(storage, target);
}

std::span<const std::byte> Snapshots::copy_tensor(const at::Tensor& tensor) {
  if (!tensor.defined() || !tensor.has_storage() || tensor.numel() == 0) return {};
  const std::uint64_t start = now_ns();
  const PlainOps plain;
  const at::Tensor here = tensor.detach().to(at::kCPU).contiguous();
  const std::size_t size = static_cast<std::size_t>(here.numel()) * here.element_size();
  std::byte* target = allocate(size);
  std::memcpy(target, here.const_data_ptr(), size);
  copy_ns_ += now_ns() - start;
  return {target, size};
}

void Snapshots::clear() {
  blocks_.clear();
  next_ = nullptr;
  left_ = 0;
  copy_ns_ = 0;
  size_bytes_ = 0;
}

}  // namespace crucible::recorder
