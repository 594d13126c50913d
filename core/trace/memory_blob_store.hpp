// Blobs in memory: where the recorder puts bytes while a program runs, and where tests make traces from.
// The same content is kept once. It is not a file's store (trace_reader.cpp has that one).
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "core/trace/trace.hpp"

namespace crucible::trace {

/// Threads: any, for every function.
class MemoryBlobStore final : public BlobStore {
 public:
  /// Keeps a copy of `content` unless the same bytes are here already; returns the id they have.
  BlobId add(std::span<const std::byte> content);
  /// The same without the copy.
  BlobId add(std::vector<std::byte>&& content);
  /// Errors: kBadInput when `id` is out of range.
  Result<std::vector<std::byte>> load(BlobId id) const override;
  /// What Trace::blobs has to be: hash and size of each blob, in the order of their ids.
  std::vector<Blob> blobs() const;
  /// Bytes kept, each content once.
  std::uint64_t size_bytes() const;

 private:
  BlobId insert(const ContentHash& hash, std::shared_ptr<const std::vector<std::byte>> content);
  std::shared_ptr<const std::vector<std::byte>> find(BlobId id) const;

  mutable std::mutex mutex_;  // guards all below
  std::map<ContentHash, BlobId> ids_;
  std::vector<Blob> blobs_;
  std::vector<std::shared_ptr<const std::vector<std::byte>>> contents_;  // shared: load() copies outside the lock
  std::uint64_t size_bytes_ = 0;
};

}  // namespace crucible::trace
