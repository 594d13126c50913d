// Recordings in a store: what they record once, their bytes by content, so that recordings of one model share its
// weights, and regions can be shown without naming a file.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/result.hpp"
#include "store/store.hpp"

namespace crucible::cli {

/// The kind of its entries.
inline constexpr const char* kRecordingKind = "recording";

struct StoredRecording {
  store::ActionKey key;
  std::string file;  // that it was, for people
  std::uint64_t blobs = 0, blob_bytes = 0;
  std::uint64_t new_bytes = 0;  // of them, what was not in the store
};

/// Puts the recording into the store. Errors: those of reading and lowering it; those of Store::put().
Result<StoredRecording> store_recording(store::Store& store, const std::filesystem::path& file);

/// Writes a recording that is in the store to a file of its own: the same content, whose hash is compared. `digits`:
/// the first ones of the entry's key or of the recording's content hash. Errors: kUsage where none or several begin so;
/// kBadInput where a part of it is gone or the file cannot be written.
Result<StoredRecording> take_recording(store::Store& store, std::string_view digits, const std::filesystem::path& file);

/// Those that have a region whose content or Merkle hash begins so, the latest used first. Errors: those of reading.
Result<std::vector<store::Statement>> recordings_with_region(store::Store& store, std::string_view digits);

}  // namespace crucible::cli
