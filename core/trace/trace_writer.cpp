// write_file: the trace is in memory, its blobs are loaded one at a time.
#include <fmt/format.h>

#include <new>
#include <utility>

#include "core/trace/output_file.hpp"
#include "core/trace/section_writer.hpp"
#include "core/trace/sections.hpp"
#include "core/trace/trace_file.hpp"
#include "core/trace/validate.hpp"

namespace crucible::trace {

namespace {

Result<void> write_blobs(const Trace& trace, SectionWriter& writer) {
  if (!trace.blobs.empty() && trace.blob_store == nullptr) {
    return Error{ErrorCode::kInternal, fmt::format("the trace has {} blobs and no blob store", trace.blobs.size())};
  }
  std::vector<BlobPlace> places;
  for (BlobId id = 0; id < trace.blobs.size(); ++id) {
    CRUCIBLE_TRY(const std::vector<std::byte> content, trace.blob_store->load(id));
    if (content.size() != trace.blobs[id].size_bytes) {
      return Error{ErrorCode::kInternal, fmt::format("blob {} has {} bytes in its store, the trace says {}", id,
                                                     content.size(), trace.blobs[id].size_bytes)};
    }
    CRUCIBLE_TRY(places.emplace_back(), writer.add_blob(content));
  }
  return writer.end_blobs(encode_blob_index(trace.blobs, places));
}

Result<void> write_all(const Trace& trace, const std::filesystem::path& path) {
  CRUCIBLE_TRY_VOID(validate(trace));
  CRUCIBLE_TRY(OutputFile file, OutputFile::create(path));
  CRUCIBLE_TRY(SectionWriter writer, SectionWriter::begin(std::move(file)));
  CRUCIBLE_TRY_VOID(write_blobs(trace, writer));
  for (const SectionId id : kTableSections) {
    const std::vector<std::byte> content = encode_section(trace, id);
    if (is_optional(id) && content.size() == 1) continue;  // no records
    CRUCIBLE_TRY_VOID(writer.add_section(id, content));
  }
  CRUCIBLE_TRY(const std::uint64_t file_bytes, writer.commit());
  (void)file_bytes;
  return {};
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
