// The .crtrace file: versioned, little-endian, sections compressed with zstd and checksummed with XXH3-64.
// docs/crtrace.md is the format's description.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "core/base/result.hpp"
#include "core/trace/trace.hpp"

namespace crucible::trace {

inline constexpr std::uint16_t kFormatMajor = 1;
inline constexpr std::uint16_t kFormatMinor = 1;

/// Writes `trace` (its blobs through trace.blob_store) to a temporary name beside `path`, syncs and renames it.
/// Errors: kBadInput when the disk is full, the folder is missing or another recording holds `path` (a lock file
/// PATH.lock held with flock; a PathLock that this process holds is no obstacle); nothing is left under the final name
/// then, and an older file there is kept.
Result<void> write_file(const Trace& trace, const std::filesystem::path& path);

/// How a file is written, where that is a choice.
struct WriteOptions {
  int zstd_level = 1;                 // 1 (fast) to 19 (small)
  std::filesystem::path blob_folder;  // not empty: the blobs go there (blob_folder.hpp), not into the file
};

/// The same with a choice. The metadata's blob_folder is set or emptied to fit.
Result<void> write_file(const Trace& trace, const std::filesystem::path& path, const WriteOptions& options);

/// Maps the file and reads everything but the blobs' bytes, which are read on demand.
/// Errors: kBadInput naming the section that is truncated, damaged, too large, inconsistent or of a newer major
/// version.
Result<Trace> read_file(const std::filesystem::path& path);

/// The same from a file's bytes in memory, of which it takes a copy. Errors: as read_file, with "bytes in memory" for
/// the path.
Result<Trace> read_bytes(std::span<const std::byte> file);

/// Reads the file whole: every blob too, hash and checksum compared. Errors: as read_file, naming the blob.
Result<void> check_file(const std::filesystem::path& path);

/// What the file's header and section table say.
struct FileLayout {
  struct Section {
    std::string name;
    std::uint64_t stored_bytes = 0, raw_bytes = 0;
  };
  std::uint16_t major = 0, minor = 0;
  std::uint64_t file_bytes = 0;
  std::vector<Section> sections;
};

/// Reads header and section table only. Errors: as read_file.
Result<FileLayout> read_layout(const std::filesystem::path& path);

/// Holds PATH.lock (flock, kept open) for the life of the object, so that two recordings cannot share one path.
class PathLock {
 public:
  /// Errors: kBadInput when another process holds it.
  static Result<PathLock> acquire(const std::filesystem::path& path);
  /// True when this process, or the one it was forked from, holds the lock of `path` already.
  static bool held_here(const std::filesystem::path& path);
  PathLock(PathLock&& other) noexcept;
  PathLock& operator=(PathLock&& other) noexcept;
  ~PathLock();

 private:
  PathLock(int descriptor, std::filesystem::path lock_path);
  int descriptor_ = -1;
  std::filesystem::path lock_path_;
  int owner_ = 0;  // process that took it: a forked child's copy does not release it
};

}  // namespace crucible::trace
