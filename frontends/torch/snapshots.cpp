// Copies from other devices go through the framework's own operators with recording and autograd shut out.
#include "frontends/torch/snapshots.hpp"

#include <ATen/Functions.h>

#include <chrono>
#include <cstring>

#include "core/base/hash.hpp"
#include "frontends/torch/device_bytes.hpp"

namespace crucible::recorder {

namespace {

constexpr std::size_t kBlock = std::size_t{1} << 16;
constexpr std::size_t kSmall = 4096;

std::uint64_t now_ns() {
  return static_cast<std::uint64_t>(std::chrono::steady_clock::now().time_since_epoch().count());
}

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
  // What writes it may be queued on another stream than the calling thread's.
  if (is_elsewhere(*storage)) wait_for_device_of(*storage);
  const at::Tensor here = bytes_of(storage).to(at::kCPU);
  std::memcpy(target, here.const_data_ptr(), static_cast<std::size_t>(here.numel()));
}

std::optional<std::uint64_t> checksum_of(c10::StorageImpl* storage) {
  if (is_elsewhere(*storage)) return fetch_sums({queue_sums(storage)}).front();
  const auto bytes = bytes_in_place(*storage);
  if (bytes.empty()) return std::nullopt;
  return checksum64(bytes);
}

bool holds(c10::StorageImpl* storage, std::span<const std::byte> bytes) {
  if (is_elsewhere(*storage))
    return storage->nbytes() == bytes.size() && fetch_sums({queue_sums(storage)}).front() == sums_of(bytes);
  const auto now = bytes_in_place(*storage);
  return now.size() == bytes.size() && std::memcmp(now.data(), bytes.data(), bytes.size()) == 0;
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
