#include "runtime/run/kept_blobs.hpp"

namespace crucible::runtime {

Result<std::vector<std::byte>> KeptBlobs::load(trace::BlobId id) const {
  {
    const std::lock_guard lock(mutex_);
    const auto found = kept_.find(id);
    if (found != kept_.end() && found->second) return *found->second;
  }
  CRUCIBLE_TRY(std::vector<std::byte> bytes, blobs_->load(id));
  const std::lock_guard lock(mutex_);
  const auto [entry, is_new] = kept_.try_emplace(id);
  if (!is_new && !entry->second && bytes.size() <= most_bytes_ - kept_bytes_) {
    entry->second = bytes;
    kept_bytes_ += bytes.size();
  }
  return bytes;
}

}  // namespace crucible::runtime
