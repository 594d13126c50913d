// The parts of a .crtrace file in the order in which they are written: room for header and table, the blobs one by one,
// then the other sections, then header and table. For write_file (a trace that is in memory) and for StreamWriter (a
// recording that grows).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

#include "core/base/result.hpp"
#include "core/trace/container.hpp"
#include "core/trace/output_file.hpp"
#include "core/trace/records.hpp"

namespace crucible::trace {

/// Where the section 'blobs' begins in every file that this version writes.
inline constexpr std::uint64_t kBlobAreaStart = align_up(kHeaderBytes + kSectionCount * kSectionEntryBytes);

/// Threads: one caller at a time. Errors of all functions: kBadInput (disk full, ...), naming the path and what to do.
class SectionWriter {
 public:
  /// A new file: room for the header is written. `zstd_level` is from 1 (fast) to 19 (small).
  static Result<SectionWriter> begin(OutputFile file, int zstd_level = 1);
  /// A file whose blobs are there already, up to its offset.
  static SectionWriter resume(OutputFile file) { return SectionWriter(std::move(file)); }

  /// Writes one blob, compressed when that is worth it. All blobs come before the first section.
  Result<BlobPlace> add_blob(std::span<const std::byte> content);
  /// The blobs' section ends here. `index` is the content of the section 'blob_index'.
  Result<void> end_blobs(std::span<const std::byte> index);
  /// Another section. Errors: also kBadInput when it is larger than a reader takes.
  Result<void> add_section(SectionId id, std::span<const std::byte> content);
  /// The same from content that lies in pieces; nothing is copied.
  Result<void> add_section(SectionId id, std::span<const std::span<const std::byte>> pieces);
  /// Header and table; the file appears under its name. Returns its size in bytes.
  Result<std::uint64_t> commit();

  OutputFile& file() { return file_; }
  const OutputFile& file() const { return file_; }

 private:
  explicit SectionWriter(OutputFile file);
  OutputFile file_;
  Container container_;
  int zstd_level_ = 1;
};

}  // namespace crucible::trace
