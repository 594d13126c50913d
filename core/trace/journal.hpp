// PATH.journal: the tables of a recording that is still being made, as increments in the order in which they came, so
// that whatever ends the process leaves everything up to the last complete iteration readable. docs/crtrace.md has the
// bytes. StreamWriter writes it; finishing a recording and recovering one both read it.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "core/base/result.hpp"
#include "core/trace/byte_stream.hpp"
#include "core/trace/container.hpp"
#include "core/trace/trace.hpp"

namespace crucible::trace {

/// "PATH.journal" and "PATH.partial".
std::filesystem::path journal_path(const std::filesystem::path& path);
std::filesystem::path partial_path(const std::filesystem::path& path);

/// What a record is. 1 to 18 but kBlobs: more records of the section of that number (SectionId); the metadata and the
/// table 'not_recorded' replace what was there. The numbers are part of the format: append only.
enum class JournalKind : std::uint32_t {
  kStorageSize = 100,   // payload: id storage, varint bytes
  kExternalName = 101,  // payload: varint external, u8 role, text name
  kCommit = 102,        // an iteration is complete: everything before this record counts
  kFinish = 103,        // the same, and nothing is missing behind it
  kRollback = 104,      // drops what belongs to the unfinished iteration: see is_of_iteration()
};

/// True for the tables whose records belong to an iteration and go with it: ops and what is said about them.
bool is_of_iteration(SectionId id);

/// The first bytes of a journal.
std::vector<std::byte> encode_journal_start();

/// Appends one record; `count` is the number of table records in `payload`, or 0.
void append_journal_record(ByteWriter& out, std::uint32_t kind, std::uint64_t count,
                           std::span<const std::byte> payload);

/// What a journal says up to its last commit. Spans point into the journal's bytes.
struct JournalContent {
  struct Piece {
    std::span<const std::byte> bytes;
    std::uint64_t records = 0;
  };
  struct Table {
    std::vector<Piece> pieces;
    std::uint64_t records = 0;
  };
  struct ExternalName {
    Role role = Role::kUnknown;
    std::string name;
  };
  std::array<Table, kSectionCount + 1> tables;  // by SectionId
  std::unordered_map<StorageId, std::uint64_t> storage_sizes;
  std::unordered_map<std::uint64_t, ExternalName> external_names;
  std::uint64_t commits = 0;
  bool is_finished = false;      // the last commit is a kFinish
  std::uint64_t lost_ops = 0;    // seen behind the last commit
  std::string damage;            // why reading ended before the journal did, or ""
  std::uint64_t end = 0;         // where the last commit ends, in bytes from the start
  const Table& table(SectionId id) const { return tables[static_cast<std::size_t>(id)]; }
};

/// Reads records until the end or until one that is damaged. Commits with more than `max_blobs` blobs are not taken.
/// Errors: kBadInput when the start is not a journal's, or one of a newer major version.
Result<JournalContent> read_journal(std::span<const std::byte> journal, std::uint64_t max_blobs = ~std::uint64_t{0});

}  // namespace crucible::trace
