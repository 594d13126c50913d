// Hashing happens outside the lock; only the look-up and the insertion are serialised.
#include "core/trace/memory_blob_store.hpp"

#include <fmt/format.h>

namespace crucible::trace {

BlobId MemoryBlobStore::add(std::span<const std::byte> content) {
  const ContentHash hash = sha256(content);
  {
    const std::lock_guard lock(mutex_);
    if (const auto found = ids_.find(hash); found != ids_.end()) return found->second;
  }
  return insert(hash, std::make_shared<const std::vector<std::byte>>(content.begin(), content.end()));
}

BlobId MemoryBlobStore::add(std::vector<std::byte>&& content) {
  const ContentHash hash = sha256(content);
  return insert(hash, std::make_shared<const std::vector<std::byte>>(std::move(content)));
}

BlobId MemoryBlobStore::insert(const ContentHash& hash, std::shared_ptr<const std::vector<std::byte>> content) {
  const std::lock_guard lock(mutex_);
  const auto [place, is_new] = ids_.try_emplace(hash, static_cast<BlobId>(contents_.size()));
  if (is_new) {
    blobs_.push_back({hash, content->size()});
    size_bytes_ += content->size();
    contents_.push_back(std::move(content));
  }
  return place->second;
}

std::shared_ptr<const std::vector<std::byte>> MemoryBlobStore::find(BlobId id) const {
  const std::lock_guard lock(mutex_);
  return id < contents_.size() ? contents_[id] : nullptr;
}

Result<std::vector<std::byte>> MemoryBlobStore::load(BlobId id) const {
  const auto content = find(id);
  if (content == nullptr) {
    return Error{ErrorCode::kBadInput, fmt::format("blob {} does not exist: there are {}", id, blobs().size())};
  }
  return *content;
}

std::vector<Blob> MemoryBlobStore::blobs() const {
  const std::lock_guard lock(mutex_);
  return blobs_;
}

std::uint64_t MemoryBlobStore::size_bytes() const {
  const std::lock_guard lock(mutex_);
  return size_bytes_;
}

}  // namespace crucible::trace
