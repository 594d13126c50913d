// A .crtrace file that is written while the recording grows: memory does not grow with it, and whatever ends the
// process (kill -9, a crash, a full disk) loses at most the iteration that was not complete. trace_file.hpp's
// write_file is for traces that are in memory.
//
// Until finish() there are two files: PATH.partial, which becomes PATH, has the blobs; PATH.journal has the tables
// (journal.hpp). recover.hpp makes PATH of what a process that was ended has left.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <new>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "core/base/result.hpp"
#include "core/trace/byte_stream.hpp"
#include "core/trace/journal.hpp"
#include "core/trace/output_file.hpp"
#include "core/trace/records.hpp"
#include "core/trace/section_writer.hpp"
#include "core/trace/trace.hpp"
#include "core/trace/trace_file.hpp"

namespace crucible::trace {

/// Threads: one caller at a time. A forked child may destroy its copy and nothing else.
/// Errors: what goes wrong while adding (a full disk, above all) is kept: what follows is dropped, failure() says what
/// it was, and the next end_iteration() returns it. The complete iterations before it stay.
class StreamWriter {
 public:
  /// Takes PATH.lock, unless this process has it, and creates the two files; what an earlier recording of that path
  /// left unfinished is replaced. `metadata` is what a recovered file gets unless set_metadata() follows. Errors:
  /// kBadInput when the folder is missing or not writable, or another recording holds the path.
  static Result<std::unique_ptr<StreamWriter>> create(const std::filesystem::path& path, const Metadata& metadata);
  /// Keeps both files when an iteration was complete and neither finish() nor drop() was called.
  ~StreamWriter();
  StreamWriter(const StreamWriter&) = delete;
  StreamWriter& operator=(const StreamWriter&) = delete;

  // Each appends one record to its table and returns its number there. Numbers may be used as soon as they are known.
  SchemaId add(const Schema& schema) { return append(SectionId::kSchemas, schema); }
  SiteId add(const Site& site) { return append(SectionId::kSites, site); }
  ModuleId add_module(const std::string& path) { return append(SectionId::kModules, path); }
  StorageId add(const Storage& storage) { return append(SectionId::kStorages, storage); }
  TensorId add(const Tensor& tensor) { return append(SectionId::kTensors, tensor); }
  std::uint32_t add(const Op& op) { return append(SectionId::kOps, op); }
  std::uint32_t add(const External& external) { return append(SectionId::kExternals, external); }
  std::uint32_t add(const Draw& draw) { return append(SectionId::kDraws, draw); }
  std::uint32_t add(const FinalState& state) { return append(SectionId::kFinalStates, state); }
  std::uint32_t add(const GeneratorState& state) { return append(SectionId::kGenerators, state); }
  std::uint32_t add(const Output& output) { return append(SectionId::kOutputs, output); }
  std::uint32_t add(const CompoundTensor& compound) { return append(SectionId::kCompounds, compound); }
  /// One list per op, in the ops' order, or none for any op.
  std::uint32_t add_op_hashes(const OpHashes& hashes) { return append(SectionId::kOpHashes, hashes); }

  /// Writes the bytes to PATH.partial unless the same ones are there already; returns the id they have.
  BlobId add_blob(std::span<const std::byte> content);
  /// A blob of so many bytes that the file does not have, unlike all others: for who reads the file beside them.
  BlobId add_left_out(std::uint64_t size_bytes);

  /// A storage got another size (resize_), or an external's owner became known. Until finish().
  void set_storage_bytes(StorageId storage, std::uint64_t size_bytes);
  void name_external(std::uint32_t external, Role role, std::string_view name);
  /// Replace what was said before.
  void set_not_recorded(std::span<const NotRecorded> items);
  void set_metadata(const Metadata& metadata);

  /// Everything so far can be recovered from now on. It has been handed to the operating system, which is enough when
  /// the process is ended; only finish() waits for the disk, which a power cut needs. Errors: failure(); kInternal when
  /// the iteration has ops that were not added.
  Result<void> end_iteration(const Iteration& iteration);
  /// Forgets the ops, externals, draws, generator states, outputs and hashes since the last end_iteration(). What other
  /// tables got stays, and so does the room of blobs.
  void drop_unfinished();
  /// PATH appears, synced; the other two files go. After a failure it has the complete iterations, and
  /// `incomplete_reason` says why unless the metadata do. Returns the file's size in bytes.
  /// Errors: kBadInput when it cannot be written: the two files stay for recover_file(). kInternal when records do not
  /// fit together.
  Result<std::uint64_t> finish(const Metadata& metadata);
  const std::filesystem::path& path() const { return path_; }
  /// Nothing is left, and PATH is what it was.
  void drop();

  const std::optional<Error>& failure() const { return failure_; }
  /// Records in a table so far.
  std::uint64_t count(SectionId id) const { return counts_[static_cast<std::size_t>(id)]; }
  /// Bytes on disk in both files, with those that are not written yet.
  std::uint64_t disk_bytes() const { return writer_.file().offset() + journal_.offset() + pending_bytes_; }
  /// Bytes of memory that the writer holds: buffers and the blobs' hashes.
  std::size_t memory_bytes() const;

 private:
  StreamWriter(const std::filesystem::path& path, SectionWriter writer, OutputFile journal);

  /// Allocates nothing in steady state.
  template <class Record>
  std::uint32_t append(SectionId id, const Record& record) {
    const std::size_t number = static_cast<std::size_t>(id);
    if (!is_open()) return static_cast<std::uint32_t>(counts_[number]++);
    try {
      ByteWriter& buffer = buffers_[number];
      const std::size_t before = buffer.size();
      encode(buffer, record);
      pending_bytes_ += buffer.size() - before;
    } catch (const std::bad_alloc&) {
      fail({ErrorCode::kBadInput, "not enough memory for the recording; record fewer iterations"});
    }
    ++pending_records_[number];
    const std::uint32_t given = static_cast<std::uint32_t>(counts_[number]++);
    if (pending_bytes_ >= kFlushBytes) flush(std::nullopt);
    return given;
  }

  bool is_open() const { return !failure_ && !is_closed_; }
  void flush(std::optional<JournalKind> end_with);
  void add_change(std::uint32_t kind, std::uint64_t count, const ByteWriter& payload);
  void commit(JournalKind kind);
  void fail(Error error);
  void remove_files();
  Result<std::uint64_t> assemble(Metadata metadata);

  static constexpr std::size_t kFlushBytes = 256 << 10;

  std::filesystem::path path_;
  std::optional<PathLock> lock_;
  SectionWriter writer_;                               // of PATH.partial
  OutputFile journal_;                                 // of PATH.journal
  int owner_;                                          // the process that records
  std::array<ByteWriter, kSectionCount + 1> buffers_;  // records that are not in the journal yet, by SectionId
  std::array<std::uint64_t, kSectionCount + 1> pending_records_{};
  std::array<std::uint64_t, kSectionCount + 1> counts_{};
  std::array<std::uint64_t, kSectionCount + 1> table_bytes_{};  // in the journal
  ByteWriter changes_;                                          // whole journal records
  ByteWriter out_;                                              // what flush() writes
  std::size_t pending_bytes_ = 0;
  std::map<ContentHash, BlobId> blobs_;
  // What was so at the last commit, to go back to:
  std::array<std::uint64_t, kSectionCount + 1> committed_counts_{};
  std::uint64_t committed_blob_end_ = kBlobAreaStart, committed_journal_end_ = 0;
  bool is_committed_ = false;
  bool is_closed_ = false;
  std::optional<Error> failure_;
};

}  // namespace crucible::trace
