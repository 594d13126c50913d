// The journal says what is complete; the blobs that it names are compared with their checksums first.
#include "core/trace/recover.hpp"

#include <fmt/format.h>

#include <new>
#include <optional>
#include <system_error>
#include <utility>

#include "core/base/hash.hpp"
#include "core/trace/journal.hpp"
#include "core/trace/journal_tables.hpp"
#include "core/trace/mapped_file.hpp"
#include "core/trace/section_writer.hpp"
#include "core/trace/sections.hpp"
#include "core/trace/trace_file.hpp"

namespace crucible::trace {

namespace {

Error cannot_recover(const std::filesystem::path& path, const std::string& why) {
  return {ErrorCode::kBadInput, fmt::format("cannot recover {}: {}", path.string(), why)};
}

/// The first blob that is not as it was written, or nothing.
std::optional<BlobId> first_damaged_blob(const JournalTables& tables, std::span<const std::byte> partial) {
  std::vector<Blob> blobs;
  const auto places = decode_blob_index(tables.blob_index, ~std::uint64_t{0} / 2, blobs);
  if (!places) return 0;  // check_tables has decoded it before
  const auto area = partial.subspan(std::min<std::size_t>(kBlobAreaStart, partial.size()));
  for (BlobId id = 0; id < places->size(); ++id) {
    const BlobPlace& place = (*places)[id];
    if (place.codec == Codec::kLeftOut) continue;
    if (place.offset + place.stored_bytes > area.size()) return id;
    if (checksum64(area.subspan(place.offset, place.stored_bytes)) != place.checksum) return id;
  }
  return std::nullopt;
}

struct Recovered {
  JournalContent content;
  JournalTables tables;
  std::string damage;
};

Result<Recovered> read_whole_iterations(std::span<const std::byte> journal, std::span<const std::byte> partial) {
  Recovered recovered;
  std::uint64_t max_blobs = ~std::uint64_t{0};
  for (;;) {
    CRUCIBLE_TRY(recovered.content, read_journal(journal, max_blobs));
    if (recovered.damage.empty()) recovered.damage = recovered.content.damage;
    if (recovered.content.commits == 0) {
      return Error{ErrorCode::kBadInput,
                   "no iteration was complete" + (recovered.damage.empty() ? "" : "; " + recovered.damage)};
    }
    CRUCIBLE_TRY(recovered.tables, check_tables(recovered.content));
    const auto damaged = first_damaged_blob(recovered.tables, partial);
    if (!damaged) return recovered;
    recovered.damage = fmt::format("blob {} is damaged", *damaged);
    max_blobs = *damaged;
  }
}

Metadata recovered_metadata(const Recovered& recovered) {
  Metadata metadata = recovered.tables.metadata;
  if (recovered.content.is_finished) return metadata;
  metadata.incomplete_reason = "recovered after the recorder was ended";
  if (recovered.content.lost_ops > 0)
    metadata.incomplete_reason +=
        fmt::format("; {} ops of an unfinished iteration were dropped", recovered.content.lost_ops);
  if (!recovered.damage.empty()) metadata.incomplete_reason += "; " + recovered.damage;
  return metadata;
}

/// The blobs of the partial file behind the room for a header, in a file that goes on with the tables.
Result<SectionWriter> writer_with_blobs(const std::filesystem::path& path, const std::filesystem::path& out,
                                        std::uint64_t blob_bytes, MappedFile partial) {
  if (out == path) {
    partial = MappedFile::none();  // what is cut off must not be mapped
    CRUCIBLE_TRY(OutputFile file, OutputFile::reopen(path, partial_path(path), kBlobAreaStart + blob_bytes));
    return SectionWriter::resume(std::move(file));
  }
  CRUCIBLE_TRY(OutputFile file, OutputFile::create(out));
  CRUCIBLE_TRY(SectionWriter writer, SectionWriter::begin(std::move(file)));
  if (blob_bytes > 0) CRUCIBLE_TRY_VOID(writer.file().append(partial.bytes().subspan(kBlobAreaStart, blob_bytes)));
  return writer;
}

/// The recorder was ended between the rename and the removal of the journal.
Result<RecoverReport> already_complete(const std::filesystem::path& path) {
  CRUCIBLE_TRY_VOID(check_file(path));
  CRUCIBLE_TRY(const Trace trace, read_file(path));
  CRUCIBLE_TRY(const FileLayout layout, read_layout(path));
  return RecoverReport{trace.iterations.size(), trace.ops.size(), layout.file_bytes, 0, "", true};
}

void remove_file(const std::filesystem::path& path) {
  std::error_code ignored;
  std::filesystem::remove(path, ignored);
}

Result<void> check_journal_exists(const std::filesystem::path& path) {
  std::error_code ignored;
  if (std::filesystem::exists(journal_path(path), ignored)) return {};
  return cannot_recover(
      path, fmt::format("there is no {}; a recording that was finished leaves none", journal_path(path).string()));
}

Result<RecoverReport> recover_locked(const std::filesystem::path& path, const std::filesystem::path& out) {
  CRUCIBLE_TRY_VOID(check_journal_exists(path));
  std::error_code ignored;
  if (!std::filesystem::exists(partial_path(path), ignored)) {
    auto report = already_complete(path);
    if (!report) return cannot_recover(path, fmt::format("there is no {}", partial_path(path).string()));
    if (out == path) remove_file(journal_path(path));
    return report;
  }
  CRUCIBLE_TRY(const MappedFile journal, MappedFile::open(journal_path(path)));
  CRUCIBLE_TRY(MappedFile partial, MappedFile::open(partial_path(path)));
  const auto recovered = read_whole_iterations(journal.bytes(), partial.bytes());
  if (!recovered) return cannot_recover(path, recovered.error().message);
  CRUCIBLE_TRY(SectionWriter writer, writer_with_blobs(path, out, recovered->tables.blob_bytes, std::move(partial)));
  CRUCIBLE_TRY(const std::uint64_t bytes,
               write_tables(recovered->content, recovered->tables, recovered_metadata(*recovered), writer));
  remove_file(journal_path(path));
  remove_file(partial_path(path));
  return RecoverReport{recovered->content.table(SectionId::kIterations).records,
                       recovered->content.table(SectionId::kOps).records,
                       bytes,
                       recovered->content.lost_ops,
                       recovered->damage,
                       recovered->content.is_finished};
}

}  // namespace

Result<RecoverReport> recover_file(const std::filesystem::path& path, const std::filesystem::path& out) {
  try {
    CRUCIBLE_TRY_VOID(check_journal_exists(path));  // before a lock file appears
    CRUCIBLE_TRY(const PathLock lock, PathLock::acquire(path));
    return recover_locked(path, out.empty() ? path : out);
  } catch (const std::bad_alloc&) {
    return cannot_recover(path, "not enough memory for what its journal announces");
  }
}

}  // namespace crucible::trace
