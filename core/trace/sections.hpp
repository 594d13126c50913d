// What stands inside each section of a .crtrace file: one function pair per table of the Trace.
// docs/crtrace.md has the bytes. Ids are not compared with table sizes here: validate.hpp does that.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "core/base/result.hpp"
#include "core/trace/container.hpp"
#include "core/trace/trace.hpp"

namespace crucible::trace {

inline constexpr int kMaxListDepth = 16;  // lists in lists; the frameworks' own schemas reach 2

/// The uncompressed content of one of the sections kMetadata .. kNotRecorded.
std::vector<std::byte> encode_section(const Trace& trace, SectionId id);

/// Fills the table of `trace` that belongs to one of the sections kMetadata .. kNotRecorded.
/// Errors: kBadInput naming the section, the record and the byte.
Result<void> decode_section(std::span<const std::byte> content, SectionId id, Trace& trace);

/// Where a blob lies in the section 'blobs'.
struct BlobPlace {
  std::uint64_t offset = 0;  // from the start of that section
  std::uint64_t stored_bytes = 0;
  Codec codec = Codec::kRaw;   // kRaw or kZstd
  std::uint64_t checksum = 0;  // XXH3-64 of the stored bytes
};

std::vector<std::byte> encode_blob_index(std::span<const Blob> blobs, std::span<const BlobPlace> places);

/// `area_bytes` is the size of the section 'blobs'.
/// Errors: kBadInput naming the section 'blob_index'; places outside the area, overlapping or unaligned ones included.
Result<std::vector<BlobPlace>> decode_blob_index(std::span<const std::byte> content, std::uint64_t area_bytes,
                                                 std::vector<Blob>& blobs);

}  // namespace crucible::trace
