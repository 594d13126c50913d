// Compression, checksums and places of sections and blobs.
#include "core/trace/section_writer.hpp"

#include <fmt/format.h>

#include <utility>
#include <vector>

#include "core/base/hash.hpp"
#include "core/trace/compression.hpp"
#include "core/trace/limits.hpp"
#include "core/trace/trace_file.hpp"

namespace crucible::trace {

SectionWriter::SectionWriter(OutputFile file) : file_(std::move(file)), container_{kFormatMajor, kFormatMinor, 0, {}} {}

Result<SectionWriter> SectionWriter::begin(OutputFile file, int zstd_level) {
  SectionWriter writer(std::move(file));
  writer.zstd_level_ = zstd_level;
  CRUCIBLE_TRY_VOID(writer.file_.append(std::vector<std::byte>(kBlobAreaStart)));
  return writer;
}

Result<BlobPlace> SectionWriter::add_blob(std::span<const std::byte> content) {
  CRUCIBLE_TRY(const std::vector<std::byte> packed, compress_if_smaller(content, zstd_level_));
  const std::span<const std::byte> stored = packed.empty() ? content : std::span<const std::byte>(packed);
  CRUCIBLE_TRY_VOID(file_.align());
  const BlobPlace place{file_.offset() - kBlobAreaStart, stored.size(), packed.empty() ? Codec::kRaw : Codec::kZstd,
                        checksum64(stored)};
  CRUCIBLE_TRY_VOID(file_.append(stored));
  return place;
}

Result<void> SectionWriter::end_blobs(std::span<const std::byte> index) {
  const std::uint64_t size = file_.offset() - kBlobAreaStart;
  container_.sections.push_back(
      {static_cast<std::uint32_t>(SectionId::kBlobs), Codec::kIndexed, kBlobAreaStart, size, size, 0});
  return add_section(SectionId::kBlobIndex, index);
}

Result<void> SectionWriter::add_section(SectionId id, std::span<const std::byte> content) {
  return add_section(id, std::span(&content, 1));
}

Result<void> SectionWriter::add_section(SectionId id, std::span<const std::span<const std::byte>> pieces) {
  std::uint64_t raw_bytes = 0;
  for (const auto piece : pieces) raw_bytes += piece.size();
  if (raw_bytes > limits().table_bytes) {
    return Error{ErrorCode::kBadInput,
                 fmt::format("section '{}' would have {} bytes, at most {} are allowed; record fewer iterations",
                             section_name(id), raw_bytes, limits().table_bytes)};
  }
  CRUCIBLE_TRY_VOID(file_.align());
  const std::uint64_t start = file_.offset();
  const auto append = [this, &pieces](Codec codec, Checksum64& checksum) -> Result<void> {
    const auto sink = [&](std::span<const std::byte> part) {
      checksum.update(part);
      return file_.append(part);
    };
    if (codec == Codec::kZstd) return compress_pieces(pieces, sink, zstd_level_);
    for (const auto piece : pieces) CRUCIBLE_TRY_VOID(sink(piece));
    return {};
  };
  for (const Codec codec : {Codec::kZstd, Codec::kRaw}) {
    Checksum64 checksum;
    CRUCIBLE_TRY_VOID(append(codec, checksum));
    const std::uint64_t stored = file_.offset() - start;
    if (codec == Codec::kZstd && !is_worth_compressing(stored, raw_bytes)) {
      CRUCIBLE_TRY_VOID(file_.truncate(start));
      continue;
    }
    container_.sections.push_back({static_cast<std::uint32_t>(id), codec, start, stored, raw_bytes, checksum.value()});
    break;
  }
  return {};
}

Result<std::uint64_t> SectionWriter::commit() {
  container_.file_bytes = file_.offset();
  CRUCIBLE_TRY_VOID(file_.overwrite_start(encode_container(container_)));
  CRUCIBLE_TRY_VOID(file_.commit());
  return container_.file_bytes;
}

}  // namespace crucible::trace
