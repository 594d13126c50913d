#include "core/runtime/kept_blobs.hpp"

namespace crucible::runtime {

Result<std::vector<std::byte>> KeptBlobs::load(trace::BlobId id) const {
  {
    const std::lock_guard lock(mutex_);
    const auto found = entries_.find(id);
    if (found != entries_.end() && found->second.is_kept) return found->second.bytes;
  }
  CRUCIBLE_TRY(std::vector<std::byte> bytes, blobs_->load(id));
  const std::lock_guard lock(mutex_);
  const auto [entry, is_new] = entries_.try_emplace(id);
  if (!is_new && !entry->second.is_kept && bytes.size() <= most_bytes_ - kept_bytes_) {
    entry->second = {.is_kept = true, .bytes = bytes};
    kept_bytes_ += bytes.size();
  }
  return bytes;
}

}  // namespace crucible::runtime
