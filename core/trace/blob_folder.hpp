// External bytes outside the files: a folder in which every blob lies under its own SHA-256, so that many recordings of
// one model keep its weights once. docs/crtrace.md describes it. A blob is raw bytes: `sha256sum` checks it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <vector>

#include "core/base/hash.hpp"
#include "core/base/result.hpp"

namespace crucible::trace {

/// Threads: any, for every function; processes too.
class BlobFolder {
 public:
  explicit BlobFolder(std::filesystem::path folder) : folder_(std::move(folder)) {}

  /// FOLDER/ab/cdef...: the hash in hexadecimal, its first two digits a folder.
  std::filesystem::path path_of(const ContentHash& hash) const;

  /// Writes the bytes under their name (temporary, fsync, rename), and the folders on the way. A good blob that is
  /// there already is left alone; a damaged one is replaced. Compares them with `hash` first. Errors: kBadInput (disk
  /// full, not writable), naming the path and what to do.
  Result<void> store(const ContentHash& hash, std::span<const std::byte> content) const;

  /// The bytes, compared with size and hash.
  /// Errors: kBadInput when the blob is missing or damaged, naming its path and what to do.
  Result<std::vector<std::byte>> load(const ContentHash& hash, std::uint64_t size_bytes) const;

 private:
  std::filesystem::path folder_;
};

}  // namespace crucible::trace
