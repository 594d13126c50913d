// Sections from tables and back.
#include "core/trace/sections.hpp"

#include <fmt/format.h>

namespace crucible::trace {

namespace {

template <class Record>
void read_table(ByteReader& in, std::vector<Record>& records) {
  const std::size_t count = in.count(kMinRecordBytes<Record>);
  for (std::size_t i = 0; i < count && in.ok(); ++i) {
    records.emplace_back();
    decode(in, records.back());
    if (!in.ok()) in.prefix(fmt::format("record {}: ", i));
  }
}

Result<void> finish(const ByteReader& in, SectionId id) {
  if (!in.ok()) return section_error(id, in.problem());
  if (in.remaining() > 0)
    return section_error(id, fmt::format("{} bytes are left after its last record", in.remaining()));
  return {};
}

}  // namespace

std::vector<std::byte> encode_section(const Trace& trace, SectionId id) {
  ByteWriter out;
  if (id == SectionId::kMetadata) {
    encode(out, trace.metadata);
    return out.take();
  }
  visit_table(id, trace, [&out](const auto& records) {
    out.varint(records.size());
    for (const auto& record : records) encode(out, record);
  });
  return out.take();
}

Result<void> decode_section(std::span<const std::byte> content, SectionId id, Trace& trace) {
  ByteReader in(content);
  if (id == SectionId::kMetadata) {
    decode(in, trace.metadata);
  } else {
    visit_table(id, trace, [&in](auto& records) { read_table(in, records); });
  }
  return finish(in, id);
}

std::vector<std::byte> encode_blob_index(std::span<const Blob> blobs, std::span<const BlobPlace> places) {
  ByteWriter out;
  out.varint(blobs.size());
  for (std::size_t i = 0; i < blobs.size(); ++i) encode(out, BlobEntry{blobs[i], places[i]});
  return out.take();
}

Result<std::vector<BlobPlace>> decode_blob_index(std::span<const std::byte> content, std::uint64_t area_bytes,
                                                 std::vector<Blob>& blobs) {
  ByteReader in(content);
  std::vector<BlobEntry> entries;
  read_table(in, entries);
  CRUCIBLE_TRY_VOID(finish(in, SectionId::kBlobIndex));
  std::vector<BlobPlace> places;
  std::uint64_t free_from = 0;
  for (const auto& [blob, place] : entries) {
    if (place.codec == Codec::kFolder || place.codec == Codec::kLeftOut) {
      if (place.offset != 0 || place.stored_bytes != 0 || place.checksum != 0) {
        return section_error(
            SectionId::kBlobIndex,
            fmt::format("record {}: it is {} and has an offset, bytes or a checksum here", places.size(),
                        place.codec == Codec::kFolder ? "in the blob folder" : "left out"));
      }
      places.push_back(place);
      blobs.push_back(blob);
      continue;
    }
    if (place.offset < free_from || place.offset > area_bytes || place.offset % kAlignment != 0 ||
        place.stored_bytes > area_bytes - place.offset) {
      return section_error(SectionId::kBlobIndex,
                           fmt::format("record {}: {} bytes at byte {} are not inside the bytes {} to {} of section "
                                       "'blobs'",
                                       places.size(), place.stored_bytes, place.offset, free_from, area_bytes));
    }
    if (place.codec == Codec::kRaw && place.stored_bytes != blob.size_bytes) {
      return section_error(SectionId::kBlobIndex,
                           fmt::format("record {}: it is not compressed, but has {} bytes stored and {} uncompressed",
                                       places.size(), place.stored_bytes, blob.size_bytes));
    }
    free_from = place.offset + place.stored_bytes;
    places.push_back(place);
    blobs.push_back(blob);
  }
  return places;
}

}  // namespace crucible::trace
