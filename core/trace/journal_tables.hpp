// From a journal's increments to the sections of the file. Memory does not grow with the recording: records are decoded
// and checked one at a time and sections are compressed from where they lie.
#pragma once

#include <cstdint>
#include <vector>

#include "core/base/result.hpp"
#include "core/trace/journal.hpp"
#include "core/trace/section_writer.hpp"
#include "core/trace/trace.hpp"

namespace crucible::trace {

/// What has been checked, and the two tables in which records change after they were written.
struct JournalTables {
  std::vector<std::byte> storages, externals;  // whole contents; empty when nothing changed
  std::vector<std::byte> blob_index;           // whole content
  std::uint64_t blob_bytes = 0;                // of the area, up to the end of the last blob
  Metadata metadata;                           // as the journal has it
};

/// Applies the reader's rules to every record.
/// Errors: kBadInput naming the section and the record.
Result<JournalTables> check_tables(const JournalContent& content);

/// Writes all sections behind the blobs, which `writer` has, and commits. Returns the file's size.
/// Errors: kBadInput (disk full, ...), naming the path and what to do.
Result<std::uint64_t> write_tables(const JournalContent& content, const JournalTables& tables, const Metadata& metadata,
                                   SectionWriter& writer);

}  // namespace crucible::trace
