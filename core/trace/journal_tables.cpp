// Records are read where they lie in the journal; only the tables with changed records are written anew.
#include "core/trace/journal_tables.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <type_traits>

#include "core/trace/sections.hpp"
#include "core/trace/validate.hpp"

namespace crucible::trace {

namespace {

Error inconsistent(SectionId id, std::uint64_t record, const std::string& problem) {
  return {ErrorCode::kBadInput,
          fmt::format("section '{}' is inconsistent: record {}: {}", section_name(id), record, problem)};
}

/// Calls take(record, its number) for every record of a table; take returns "" or what is wrong.
template <class Record, class Take>
Result<void> for_each_record(const JournalContent::Table& table, SectionId id, Take take) {
  std::uint64_t number = 0;
  for (const JournalContent::Piece& piece : table.pieces) {
    ByteReader in(piece.bytes);
    for (std::uint64_t i = 0; i < piece.records; ++i, ++number) {
      Record record;
      decode(in, record);
      if (!in.ok()) return inconsistent(id, number, in.problem());
      if (const std::string problem = take(record, number); !problem.empty()) return inconsistent(id, number, problem);
    }
    if (in.remaining() > 0)
      return inconsistent(id, number, fmt::format("{} bytes are left after it", in.remaining()));
  }
  return {};
}

/// The tables whose later pieces replace the earlier ones have one that counts.
JournalContent::Table last_piece(const JournalContent::Table& table) {
  if (table.pieces.empty()) return {};
  return {{table.pieces.back()}, table.pieces.back().records};
}

JournalContent::Table effective(const JournalContent& content, SectionId id) {
  return id == SectionId::kNotRecorded ? last_piece(content.table(id)) : content.table(id);
}

void change(Storage& storage, std::uint64_t number, const JournalContent& content) {
  const auto found = content.storage_sizes.find(static_cast<StorageId>(number));
  if (found != content.storage_sizes.end()) storage.size_bytes = found->second;
}

void change(External& external, std::uint64_t number, const JournalContent& content) {
  const auto found = content.external_names.find(number);
  if (found == content.external_names.end()) return;
  external.role = found->second.role;
  external.name = found->second.name;
}

template <class Record>
Result<void> check_table(const JournalContent& content, SectionId id, RecordChecker& checker, JournalTables& tables) {
  ByteWriter changed;
  changed.varint(content.table(id).records);
  constexpr bool kChanges = std::is_same_v<Record, Storage> || std::is_same_v<Record, External>;
  CRUCIBLE_TRY_VOID(for_each_record<Record>(effective(content, id), id, [&](Record& record, std::uint64_t number) {
    if constexpr (kChanges) {
      change(record, number, content);
      encode(changed, record);
    }
    return checker.check(record);
  }));
  if constexpr (std::is_same_v<Record, Storage>) {
    if (!content.storage_sizes.empty()) tables.storages = changed.take();
  }
  if constexpr (std::is_same_v<Record, External>) {
    if (!content.external_names.empty()) tables.externals = changed.take();
  }
  return {};
}

Result<void> check_blob_index(const JournalContent& content, JournalTables& tables) {
  ByteWriter index;
  const JournalContent::Table& table = content.table(SectionId::kBlobIndex);
  index.varint(table.records);
  for (const JournalContent::Piece& piece : table.pieces) index.raw(piece.bytes);
  tables.blob_index = index.take();
  std::vector<Blob> blobs;
  CRUCIBLE_TRY(const auto places, decode_blob_index(tables.blob_index, ~std::uint64_t{0} / 2, blobs));
  for (const BlobPlace& place : places)
    tables.blob_bytes = std::max(tables.blob_bytes, place.offset + place.stored_bytes);
  return {};
}

}  // namespace

Result<JournalTables> check_tables(const JournalContent& content) {
  JournalTables tables;
  const JournalContent::Table metadata = last_piece(content.table(SectionId::kMetadata));
  if (metadata.pieces.empty()) return inconsistent(SectionId::kMetadata, 0, "it is missing");
  CRUCIBLE_TRY_VOID(for_each_record<Metadata>(metadata, SectionId::kMetadata, [&](Metadata& record, std::uint64_t) {
    tables.metadata = std::move(record);
    return std::string();
  }));
  CRUCIBLE_TRY_VOID(check_blob_index(content, tables));
  const auto size = [&](SectionId id) { return static_cast<std::size_t>(content.table(id).records); };
  RecordChecker checker({size(SectionId::kSchemas), size(SectionId::kSites), size(SectionId::kModules),
                         size(SectionId::kStorages), size(SectionId::kTensors), size(SectionId::kOps),
                         size(SectionId::kIterations), size(SectionId::kOpHashes), size(SectionId::kBlobIndex)});
  CRUCIBLE_TRY_VOID(checker.check_sizes());
  for (const auto& [id, bytes] : content.storage_sizes) {
    if (id >= size(SectionId::kStorages))
      return inconsistent(SectionId::kStorages, id, "it changes and does not exist");
  }
  for (const auto& [id, name] : content.external_names) {
    if (id >= size(SectionId::kExternals))
      return inconsistent(SectionId::kExternals, id, "it changes and does not exist");
  }
  const Trace types;  // for the types of the tables' records alone
  for (const SectionId id : kTableSections) {
    Result<void> checked;
    visit_table(id, types, [&](const auto& table) {
      using Record = typename std::remove_cvref_t<decltype(table)>::value_type;
      checked = check_table<Record>(content, id, checker, tables);
    });
    if (!checked) return checked.error();
  }
  return tables;
}

Result<std::uint64_t> write_tables(const JournalContent& content, const JournalTables& tables, const Metadata& metadata,
                                   SectionWriter& writer) {
  CRUCIBLE_TRY_VOID(writer.end_blobs(tables.blob_index));
  for (const SectionId id : kTableSections) {
    ByteWriter count;
    std::vector<std::span<const std::byte>> pieces;
    const JournalContent::Table table = effective(content, id);
    if (id == SectionId::kMetadata) {
      encode(count, metadata);
      pieces = {count.bytes()};
    } else if (id == SectionId::kStorages && !tables.storages.empty()) {
      pieces = {tables.storages};
    } else if (id == SectionId::kExternals && !tables.externals.empty()) {
      pieces = {tables.externals};
    } else {
      if (is_optional(id) && table.records == 0) continue;
      count.varint(table.records);
      pieces.push_back(count.bytes());
      for (const JournalContent::Piece& piece : table.pieces) pieces.push_back(piece.bytes);
    }
    CRUCIBLE_TRY_VOID(writer.add_section(id, pieces));
  }
  return writer.commit();
}

}  // namespace crucible::trace
