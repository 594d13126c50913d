// Buffers into journal records, blobs to the partial file, and the way back to the last commit when a write fails.
#include "core/trace/stream_writer.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <utility>

#include "core/base/hash.hpp"
#include "core/trace/journal_tables.hpp"
#include "core/trace/limits.hpp"
#include "core/trace/mapped_file.hpp"

namespace crucible::trace {

namespace {

constexpr std::size_t kTables = kSectionCount + 1;

std::string kept_text(const std::filesystem::path& path, std::uint64_t iterations) {
  return fmt::format("; {} complete iteration{} kept in {} and {}", iterations, iterations == 1 ? " is" : "s are",
                     partial_path(path).filename().string(), journal_path(path).filename().string());
}

}  // namespace

Result<std::unique_ptr<StreamWriter>> StreamWriter::create(const std::filesystem::path& path,
                                                           const Metadata& metadata) {
  std::optional<PathLock> lock;
  if (!PathLock::held_here(path)) {
    CRUCIBLE_TRY(lock, PathLock::acquire(path));
  }
  CRUCIBLE_TRY(OutputFile partial, OutputFile::create(path, partial_path(path)));
  // The journal is the last to appear: without it there is nothing to recover.
  CRUCIBLE_TRY(SectionWriter writer, SectionWriter::begin(std::move(partial)));
  CRUCIBLE_TRY(OutputFile journal, OutputFile::create(path, journal_path(path)));
  CRUCIBLE_TRY_VOID(journal.append(encode_journal_start()));
  std::unique_ptr<StreamWriter> made(new StreamWriter(path, std::move(writer), std::move(journal)));
  made->lock_ = std::move(lock);
  made->set_metadata(metadata);
  return made;
}

StreamWriter::StreamWriter(const std::filesystem::path& path, SectionWriter writer, OutputFile journal)
    : path_(path), writer_(std::move(writer)), journal_(std::move(journal)), owner_(getpid()) {
  writer_.file().keep_temporary(true);
  journal_.keep_temporary(true);
  committed_journal_end_ = journal_.offset();
}

StreamWriter::~StreamWriter() {
  if (!is_closed_ && !is_committed_ && owner_ == getpid()) remove_files();
}

BlobId StreamWriter::add_blob(std::span<const std::byte> content) {
  if (!is_open()) return kNone;
  const ContentHash hash = sha256(content);
  const auto [place, is_new] = blobs_.try_emplace(hash, static_cast<BlobId>(count(SectionId::kBlobIndex)));
  if (!is_new) return place->second;
  const auto written = writer_.add_blob(content);
  if (!written) {
    fail(written.error());
    return kNone;
  }
  return append(SectionId::kBlobIndex, BlobEntry{{hash, content.size()}, *written});
}

BlobId StreamWriter::add_left_out(std::uint64_t size_bytes) {
  if (!is_open()) return kNone;
  const std::string text = fmt::format("left out {}", count(SectionId::kBlobIndex));
  const Blob blob{sha256(std::as_bytes(std::span(text))), size_bytes};
  return append(SectionId::kBlobIndex, BlobEntry{blob, {0, 0, Codec::kLeftOut, 0}});
}

void StreamWriter::add_change(std::uint32_t kind, std::uint64_t count, const ByteWriter& payload) {
  if (!is_open()) return;
  const std::size_t before = changes_.size();
  append_journal_record(changes_, kind, count, payload.bytes());
  pending_bytes_ += changes_.size() - before;
}

void StreamWriter::set_storage_bytes(StorageId storage, std::uint64_t size_bytes) {
  ByteWriter payload;
  payload.id(storage);
  payload.varint(size_bytes);
  add_change(static_cast<std::uint32_t>(JournalKind::kStorageSize), 0, payload);
}

void StreamWriter::name_external(std::uint32_t external, Role role, std::string_view name) {
  ByteWriter payload;
  payload.varint(external);
  payload.u8(static_cast<std::uint8_t>(role));
  payload.text(name);
  add_change(static_cast<std::uint32_t>(JournalKind::kExternalName), 0, payload);
}

void StreamWriter::set_not_recorded(std::span<const NotRecorded> items) {
  ByteWriter payload;
  for (const NotRecorded& item : items) encode(payload, item);
  add_change(static_cast<std::uint32_t>(SectionId::kNotRecorded), items.size(), payload);
}

void StreamWriter::set_metadata(const Metadata& metadata) {
  ByteWriter payload;
  encode(payload, metadata);
  add_change(static_cast<std::uint32_t>(SectionId::kMetadata), 1, payload);
}

/// Everything that is pending becomes part of the journal, `end_with` as its last record.
void StreamWriter::flush(std::optional<JournalKind> end_with) {
  if (!is_open()) return;
  try {
    out_.clear();
    for (std::size_t id = 0; id < kTables; ++id) {
      if (buffers_[id].size() == 0) continue;
      table_bytes_[id] += buffers_[id].size();
      if (table_bytes_[id] + 10 > limits().table_bytes) {  // 10: the count in front
        return fail({ErrorCode::kBadInput,
                     fmt::format("cannot write {}: section '{}' has reached its limit of {} bytes; record fewer "
                                 "iterations",
                                 path_.string(), section_name(static_cast<SectionId>(id)), limits().table_bytes)});
      }
      append_journal_record(out_, static_cast<std::uint32_t>(id), pending_records_[id], buffers_[id].bytes());
    }
    out_.raw(changes_.bytes());
    if (end_with) append_journal_record(out_, static_cast<std::uint32_t>(*end_with), 0, {});
  } catch (const std::bad_alloc&) {
    return fail({ErrorCode::kBadInput, "not enough memory for the recording; record fewer iterations"});
  }
  if (const auto written = journal_.append(out_.bytes()); !written) return fail(written.error());
  for (ByteWriter& buffer : buffers_) buffer.clear();
  pending_records_ = {};
  changes_.clear();
  pending_bytes_ = 0;
}

void StreamWriter::commit(JournalKind kind) {
  const std::uint64_t hashes = count(SectionId::kOpHashes), ops = count(SectionId::kOps);
  if (hashes != 0 && hashes != ops) {
    fail({ErrorCode::kInternal,
          fmt::format("the recording of {} has {} ops and the hashes of {}", path_.string(), ops, hashes)});
  }
  flush(kind);
  if (!is_open()) return;
  committed_counts_ = counts_;
  committed_blob_end_ = writer_.file().offset();
  committed_journal_end_ = journal_.offset();
  is_committed_ = true;
}

Result<void> StreamWriter::end_iteration(const Iteration& iteration) {
  if (is_open()) {
    const std::uint64_t end = std::uint64_t{iteration.first_op} + iteration.op_count;
    if (end > count(SectionId::kOps)) {
      fail({ErrorCode::kInternal, fmt::format("an iteration of {} has the ops {} to {}, but only {} were added",
                                              path_.string(), iteration.first_op, end, count(SectionId::kOps))});
    }
    append(SectionId::kIterations, iteration);
    commit(JournalKind::kCommit);
  }
  if (failure_) return *failure_;
  return {};
}

void StreamWriter::drop_unfinished() {
  flush(JournalKind::kRollback);
  for (std::size_t id = 0; id < kTables; ++id) {
    if (is_of_iteration(static_cast<SectionId>(id))) counts_[id] = committed_counts_[id];
  }
}

/// Keeps the error, gives the room back that the unfinished iteration has taken, and stops.
void StreamWriter::fail(Error error) {
  if (failure_) return;
  error.message += kept_text(path_, committed_counts_[static_cast<std::size_t>(SectionId::kIterations)]);
  failure_ = std::move(error);
  (void)writer_.file().truncate(committed_blob_end_);
  (void)journal_.truncate(committed_journal_end_);
  for (ByteWriter& buffer : buffers_) buffer = {};
  changes_ = {};
  out_ = {};
  pending_records_ = {};
  pending_bytes_ = 0;
}

Result<std::uint64_t> StreamWriter::assemble(Metadata metadata) {
  CRUCIBLE_TRY(const MappedFile journal, MappedFile::open(journal_path(path_)));
  CRUCIBLE_TRY(const JournalContent content, read_journal(journal.bytes()));
  if (content.end != committed_journal_end_) {
    return Error{ErrorCode::kBadInput, fmt::format("{} was changed by somebody else: {}", journal_path(path_).string(),
                                                   content.damage.empty() ? "it is shorter" : content.damage)};
  }
  const auto tables = check_tables(content);
  if (!tables) {
    return Error{ErrorCode::kInternal,
                 fmt::format("the recording of {} does not fit together: {}", path_.string(), tables.error().message)};
  }
  if (failure_ && metadata.incomplete_reason.empty()) metadata.incomplete_reason = failure_->message;
  return write_tables(content, *tables, metadata, writer_);
}

Result<std::uint64_t> StreamWriter::finish(const Metadata& metadata) {
  if (is_closed_ || owner_ != getpid()) {
    return Error{ErrorCode::kInternal, fmt::format("the recording of {} is finished already, or it belongs to another "
                                                   "process",
                                                   path_.string())};
  }
  if (!failure_) {
    set_metadata(metadata);
    commit(JournalKind::kFinish);
  }
  if (!is_committed_) {  // a failure before the first iteration was complete
    remove_files();
    is_closed_ = true;
    lock_.reset();
    return *failure_;
  }
  is_closed_ = true;
  Result<std::uint64_t> done = Error{};
  try {
    done = assemble(metadata);
  } catch (const std::bad_alloc&) {
    done = Error{ErrorCode::kBadInput, fmt::format("cannot write {}: not enough memory", path_.string())};
  }
  if (done) {
    std::error_code ignored;
    std::filesystem::remove(journal_path(path_), ignored);
  } else {
    (void)writer_.file().truncate(committed_blob_end_);
    done = Error{done.error().code,
                 done.error().message +
                     kept_text(path_, committed_counts_[static_cast<std::size_t>(SectionId::kIterations)]) +
                     fmt::format(": crucible trace recover {}", path_.string())};
  }
  lock_.reset();
  return done;
}

void StreamWriter::drop() {
  if (is_closed_ || owner_ != getpid()) return;
  remove_files();
  is_closed_ = true;
  lock_.reset();
}

void StreamWriter::remove_files() {
  std::error_code ignored;
  std::filesystem::remove(journal_path(path_), ignored);
  std::filesystem::remove(partial_path(path_), ignored);
}

std::size_t StreamWriter::memory_bytes() const {
  std::size_t bytes = changes_.capacity() + out_.capacity() + blobs_.size() * (sizeof(ContentHash) + 48);
  for (const ByteWriter& buffer : buffers_) bytes += buffer.capacity();
  return bytes;
}

}  // namespace crucible::trace
