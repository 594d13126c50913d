// write_file: the trace is in memory, its blobs are loaded one at a time.
#include <fmt/format.h>

#include <new>
#include <string>
#include <system_error>
#include <utility>

#include "core/trace/blob_folder.hpp"
#include "core/trace/output_file.hpp"
#include "core/trace/section_writer.hpp"
#include "core/trace/sections.hpp"
#include "core/trace/trace_file.hpp"
#include "core/trace/validate.hpp"

namespace crucible::trace {

namespace {

Result<void> write_blobs(const Trace& trace, const std::filesystem::path& folder, SectionWriter& writer) {
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
    if (folder.empty()) {
      CRUCIBLE_TRY(places.emplace_back(), writer.add_blob(content));
    } else {
      CRUCIBLE_TRY_VOID(BlobFolder(folder).store(trace.blobs[id].hash, content));
      places.push_back({0, 0, Codec::kFolder, 0});
    }
  }
  return writer.end_blobs(encode_blob_index(trace.blobs, places));
}

/// How the file at `path` names the folder: relative to its own, so that both can be moved together.
std::string name_of_folder(const std::filesystem::path& folder, const std::filesystem::path& path) {
  if (folder.empty()) return "";
  std::error_code error;
  const std::filesystem::path whole = std::filesystem::absolute(folder, error).lexically_normal();
  const std::filesystem::path from = std::filesystem::absolute(path, error).lexically_normal().parent_path();
  const std::filesystem::path relative = whole.lexically_relative(from);
  return relative.empty() ? whole.string() : relative.string();
}

/// The metadata as they are, but for the folder that this file's blobs lie in.
std::vector<std::byte> encode_metadata(const Metadata& metadata, const std::filesystem::path& folder,
                                       const std::filesystem::path& path) {
  Trace only;
  only.metadata = metadata;
  only.metadata.blob_folder = name_of_folder(folder, path);
  return encode_section(only, SectionId::kMetadata);
}

Result<void> write_all(const Trace& trace, const std::filesystem::path& path, const WriteOptions& options) {
  CRUCIBLE_TRY_VOID(validate(trace));
  CRUCIBLE_TRY(OutputFile file, OutputFile::create(path));
  CRUCIBLE_TRY(SectionWriter writer, SectionWriter::begin(std::move(file), options.zstd_level));
  CRUCIBLE_TRY_VOID(write_blobs(trace, options.blob_folder, writer));
  for (const SectionId id : kTableSections) {
    const std::vector<std::byte> content = id == SectionId::kMetadata
                                               ? encode_metadata(trace.metadata, options.blob_folder, path)
                                               : encode_section(trace, id);
    if (is_optional(id) && content.size() == 1) continue;  // no records
    CRUCIBLE_TRY_VOID(writer.add_section(id, content));
  }
  CRUCIBLE_TRY(const std::uint64_t file_bytes, writer.commit());
  (void)file_bytes;
  return {};
}

}  // namespace

Result<void> write_file(const Trace& trace, const std::filesystem::path& path) { return write_file(trace, path, {}); }

Result<void> write_file(const Trace& trace, const std::filesystem::path& path, const WriteOptions& options) {
  try {
    if (PathLock::held_here(path)) return write_all(trace, path, options);
    CRUCIBLE_TRY(const PathLock lock, PathLock::acquire(path));
    return write_all(trace, path, options);
  } catch (const std::bad_alloc&) {
    return Error{ErrorCode::kBadInput,
                 fmt::format("cannot write {}: not enough memory; record fewer iterations", path.string())};
  }
}

}  // namespace crucible::trace
