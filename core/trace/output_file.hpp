// A file that appears under its name only when it is complete: written beside it, synced, renamed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>

#include "core/base/result.hpp"

namespace crucible::trace {

/// Who may read a file besides its owner: nobody (mode 0600), as everything that is made of a recording, which holds
/// its maker's data; or whom the umask lets (mode 0666 under it).
enum class Readers { kOwner, kAnyone };

/// Writes to a temporary name until commit(). Destroyed before that, the temporary is removed, unless it is kept, and
/// PATH is as it was. Threads: one caller at a time; a forked child must not use it.
class OutputFile {
 public:
  /// Errors: kBadInput when the folder is missing or not writable, or PATH is something else than a file.
  /// The temporary is PATH.PID-TID.tmp.
  static Result<OutputFile> create(const std::filesystem::path& path, Readers readers = Readers::kOwner);
  /// The same with a temporary of the caller's choice; what lies under its name is replaced.
  static Result<OutputFile> create(const std::filesystem::path& path, const std::filesystem::path& temporary,
                                   Readers readers = Readers::kOwner);
  /// Goes on with a temporary that is there, from `offset` on; what lies behind is cut off. It is kept.
  static Result<OutputFile> reopen(const std::filesystem::path& path, const std::filesystem::path& temporary,
                                   std::uint64_t offset);
  OutputFile(OutputFile&& other) noexcept;
  OutputFile& operator=(OutputFile&&) = delete;
  ~OutputFile();

  /// Appends. Errors: kBadInput (disk full, input/output error), naming the path and what to do.
  Result<void> append(std::span<const std::byte> bytes);
  /// Appends zeros up to the next multiple of kAlignment (container.hpp).
  Result<void> align();
  /// Overwrites the first bytes, which were appended before.
  Result<void> overwrite_start(std::span<const std::byte> bytes);
  /// Goes back to `offset`, at most offset(): what lies behind is cut off. Errors: as append.
  Result<void> truncate(std::uint64_t offset);
  /// From now on the destructor leaves the temporary where it is (or removes it again).
  void keep_temporary(bool keep) { keep_ = keep; }
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
  bool keep_ = false;
};

}  // namespace crucible::trace
