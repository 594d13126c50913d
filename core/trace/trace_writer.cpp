// write_file: blobs first, one at a time, then the tables, then header and section table into the space left for them.
#include <fmt/format.h>

#include <new>

#include "core/base/hash.hpp"
#include "core/trace/compression.hpp"
#include "core/trace/container.hpp"
#include "core/trace/output_file.hpp"
#include "core/trace/sections.hpp"
#include "core/trace/trace_file.hpp"
#include "core/trace/validate.hpp"

namespace crucible::trace {

namespace {

Result<BlobPlace> write_blob(const Trace& trace, BlobId id, std::uint64_t area_start, OutputFile& file) {
  CRUCIBLE_TRY(const std::vector<std::byte> content, trace.blob_store->load(id));
  if (content.size() != trace.blobs[id].size_bytes) {
    return Error{ErrorCode::kInternal, fmt::format("blob {} has {} bytes in its store, the trace says {}", id,
                                                   content.size(), trace.blobs[id].size_bytes)};
  }
  CRUCIBLE_TRY(const std::vector<std::byte> packed, compress_if_smaller(content));
  const std::span<const std::byte> stored = packed.empty() ? std::span(content) : std::span(packed);
  CRUCIBLE_TRY_VOID(file.align());
  const BlobPlace place{file.offset() - area_start, stored.size(), packed.empty() ? Codec::kRaw : Codec::kZstd,
                        checksum64(stored)};
  CRUCIBLE_TRY_VOID(file.append(stored));
  return place;
}

Result<void> write_blobs(const Trace& trace, OutputFile& file, Container& container, std::vector<BlobPlace>& places) {
  if (!trace.blobs.empty() && trace.blob_store == nullptr) {
    return Error{ErrorCode::kInternal, fmt::format("the trace has {} blobs and no blob store", trace.blobs.size())};
  }
  CRUCIBLE_TRY_VOID(file.align());
  const std::uint64_t start = file.offset();
  for (BlobId id = 0; id < trace.blobs.size(); ++id) {
    CRUCIBLE_TRY(places.emplace_back(), write_blob(trace, id, start, file));
  }
  const std::uint64_t size = file.offset() - start;
  container.sections.push_back({static_cast<std::uint32_t>(SectionId::kBlobs), Codec::kIndexed, start, size, size, 0});
  return {};
}

Result<void> write_table(SectionId id, std::span<const std::byte> content, OutputFile& file, Container& container) {
  if (content.size() > kMaxTableBytes) {
    return Error{ErrorCode::kBadInput,
                 fmt::format("section '{}' would have {} bytes, at most {} are allowed; record fewer iterations",
                             section_name(id), content.size(), kMaxTableBytes)};
  }
  CRUCIBLE_TRY(const std::vector<std::byte> packed, compress_if_smaller(content));
  const std::span<const std::byte> stored = packed.empty() ? content : std::span<const std::byte>(packed);
  CRUCIBLE_TRY_VOID(file.align());
  container.sections.push_back({static_cast<std::uint32_t>(id), packed.empty() ? Codec::kRaw : Codec::kZstd,
                                file.offset(), stored.size(), content.size(), checksum64(stored)});
  return file.append(stored);
}

Result<void> write_all(const Trace& trace, const std::filesystem::path& path) {
  CRUCIBLE_TRY_VOID(validate(trace));
  CRUCIBLE_TRY(OutputFile file, OutputFile::create(path));
  Container container{kFormatMajor, kFormatMinor, 0, {}};
  const std::vector<std::byte> room(kHeaderBytes + kSectionCount * kSectionEntryBytes);
  CRUCIBLE_TRY_VOID(file.append(room));
  std::vector<BlobPlace> places;
  CRUCIBLE_TRY_VOID(write_blobs(trace, file, container, places));
  CRUCIBLE_TRY_VOID(write_table(SectionId::kBlobIndex, encode_blob_index(trace.blobs, places), file, container));
  for (const SectionId id : kTableSections) {
    const std::vector<std::byte> content = encode_section(trace, id);
    if (is_optional(id) && content.size() == 1) continue;  // no records
    CRUCIBLE_TRY_VOID(write_table(id, content, file, container));
  }
  container.file_bytes = file.offset();
  CRUCIBLE_TRY_VOID(file.overwrite_start(encode_container(container)));
  return file.commit();
}

}  // namespace

Result<void> write_file(const Trace& trace, const std::filesystem::path& path) {
  try {
    if (PathLock::held_here(path)) return write_all(trace, path);
    CRUCIBLE_TRY(const PathLock lock, PathLock::acquire(path));
    return write_all(trace, path);
  } catch (const std::bad_alloc&) {
    return Error{ErrorCode::kBadInput,
                 fmt::format("cannot write {}: not enough memory; record fewer iterations", path.string())};
  }
}

}  // namespace crucible::trace
