// Blobs that a session loads again and again, the inputs of repeated iterations above all, kept as they are after
// decompression and checking: between two steps of a millisecond, unpacking their inputs once more would let threads
// fall asleep and caches go cold.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <unordered_map>
#include <vector>

#include "core/base/result.hpp"
#include "core/trace/trace.hpp"

namespace crucible::runtime {

/// The blobs of another store. What is loaded for the second time is kept from then on, while all that is kept has at
/// most `most_bytes`; a run that loads everything once keeps nothing.
class KeptBlobs final : public trace::BlobStore {
 public:
  static constexpr std::uint64_t kMostBytes = std::uint64_t{256} << 20;

  explicit KeptBlobs(std::shared_ptr<const trace::BlobStore> blobs, std::uint64_t most_bytes = kMostBytes)
      : blobs_(std::move(blobs)), most_bytes_(most_bytes) {}

  /// As the other store does. Threads: any.
  Result<std::vector<std::byte>> load(trace::BlobId id) const override;

 private:
  std::shared_ptr<const trace::BlobStore> blobs_;  // shared: the mapped file lives as long as its last reader
  const std::uint64_t most_bytes_;
  mutable std::mutex mutex_;  // of what follows
  mutable std::unordered_map<trace::BlobId, std::optional<std::vector<std::byte>>>
      kept_;  // of every blob that was loaded once
  mutable std::uint64_t kept_bytes_ = 0;
};

}  // namespace crucible::runtime
