// A file that appears under its name only when it is complete: written beside it, synced, renamed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>

#include "core/base/result.hpp"

namespace crucible::trace {

/// Writes to PATH.PID-TID.tmp until commit(). Destroyed before that, the temporary is removed and PATH is as it was.
/// Threads: one caller at a time; a forked child must not use it.
class OutputFile {
 public:
  /// Errors: kBadInput when the folder is missing or not writable, or PATH is something else than a file.
  static Result<OutputFile> create(const std::filesystem::path& path);
  OutputFile(OutputFile&& other) noexcept;
  OutputFile& operator=(OutputFile&&) = delete;
  ~OutputFile();

  /// Appends. Errors: kBadInput (disk full, input/output error), naming the path and what to do.
  Result<void> append(std::span<const std::byte> bytes);
  /// Appends zeros up to the next multiple of kAlignment (container.hpp).
  Result<void> align();
  /// Overwrites the first bytes, which were appended before.
  Result<void> overwrite_start(std::span<const std::byte> bytes);
  /// Syncs, closes and renames over PATH, then syncs the folder. Errors: as append.
  Result<void> commit();
  std::uint64_t offset() const { return offset_; }

 private:
  OutputFile() = default;
  Result<void> write_at(std::span<const std::byte> bytes, std::uint64_t offset);
  Error cannot_write(int reason) const;
  int descriptor_ = -1;
  std::filesystem::path path_, temporary_;
  std::uint64_t offset_ = 0;
};

}  // namespace crucible::trace
