// Header and section table of a .crtrace file: encoding, and the checks that make every later offset safe to follow.
#include "core/trace/container.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <string_view>

#include "core/base/hash.hpp"
#include "core/trace/byte_stream.hpp"
#include "core/trace/compression.hpp"
#include "core/trace/limits.hpp"
#include "core/trace/trace_file.hpp"

namespace crucible::trace {

namespace {

constexpr std::string_view kMagic{"CRTRACE\0", 8};
constexpr std::uint32_t kEndianMark = 0x01020304;
constexpr std::size_t kChecksummedHeaderBytes = kHeaderBytes - 8;

Error bad(std::string message) { return {ErrorCode::kBadInput, std::move(message)}; }

Result<void> check_start(std::span<const std::byte> file) {
  if (file.empty()) return bad("the file is empty (0 bytes), so it is not a crucible trace");
  const std::size_t known = std::min(file.size(), kMagic.size());
  if (std::memcmp(file.data(), kMagic.data(), known) != 0) {
    return bad("header: not a crucible trace: it does not start with CRTRACE");
  }
  if (file.size() < kHeaderBytes) {
    return bad(fmt::format("header is truncated: it has {} bytes, the file {}", kHeaderBytes, file.size()));
  }
  return {};
}

struct Header {
  std::uint16_t major = 0, minor = 0;
  std::uint32_t section_count = 0;
  std::uint64_t file_bytes = 0, table_checksum = 0;
};

Result<Header> decode_header(std::span<const std::byte> file) {
  CRUCIBLE_TRY_VOID(check_start(file));
  ByteReader reader(file.first(kHeaderBytes).subspan(kMagic.size()));
  Header header;
  header.major = reader.u16();
  header.minor = reader.u16();
  const std::uint32_t mark = reader.u32();
  header.section_count = reader.u32();
  const std::uint32_t header_bytes = reader.u32();
  header.file_bytes = reader.u64();
  header.table_checksum = reader.u64();
  // The version comes before the checksum: a later major version may well have another header.
  if (mark != kEndianMark)
    return bad(fmt::format("header is damaged: byte-order mark {:#010x} is not {:#010x}", mark, kEndianMark));
  if (header.major > kFormatMajor) {
    return bad(
        fmt::format("header: format version {}.{} is newer than {}.{}, which this crucible reads; use a newer crucible",
                    header.major, header.minor, kFormatMajor, kFormatMinor));
  }
  ByteReader end(file.first(kHeaderBytes).subspan(kChecksummedHeaderBytes));
  if (end.u64() != checksum64(file.first(kChecksummedHeaderBytes)))
    return bad("header is damaged: its checksum does not match");
  if (header.major == 0) return bad("header is damaged: format version 0 does not exist");
  if (header_bytes != kHeaderBytes) {
    return bad(
        fmt::format("header is damaged: it says that it has {} bytes, version 1 has {}", header_bytes, kHeaderBytes));
  }
  if (header.section_count > kMaxSections) {
    return bad(
        fmt::format("header is damaged: {} sections, at most {} are allowed", header.section_count, kMaxSections));
  }
  return header;
}

Result<SectionEntry> decode_entry(ByteReader& reader, std::uint64_t table_end) {
  SectionEntry entry;
  entry.id = reader.u32();
  const std::uint32_t codec = reader.u32();
  entry.offset = reader.u64();
  entry.stored_bytes = reader.u64();
  entry.raw_bytes = reader.u64();
  entry.checksum = reader.u64();
  reader.u64();  // reserved
  const bool is_blobs = entry.id == static_cast<std::uint32_t>(SectionId::kBlobs);
  const bool is_known = entry.id >= 1 && entry.id <= kSectionCount;
  if (is_known && codec > static_cast<std::uint32_t>(Codec::kIndexed)) {
    return section_error(entry.id, fmt::format("its codec {} is not known", codec));
  }
  entry.codec = static_cast<Codec>(codec);
  if (is_known && is_blobs != (entry.codec == Codec::kIndexed)) {
    return section_error(entry.id, fmt::format("codec {} does not belong to it", codec));
  }
  if (entry.offset < table_end || entry.offset % kAlignment != 0) {
    return section_error(
        entry.id, fmt::format("its offset {} is not a multiple of {} from {} on", entry.offset, kAlignment, table_end));
  }
  if (is_known && !is_blobs && entry.raw_bytes > limits().table_bytes) {
    return section_error(entry.id,
                         fmt::format("its size of {} bytes is above the limit of {} (--table-limit lets more be read)",
                                     entry.raw_bytes, limits().table_bytes));
  }
  if (is_known && entry.codec != Codec::kZstd && entry.raw_bytes != entry.stored_bytes) {
    return section_error(entry.id, fmt::format("it is not compressed, but has {} bytes stored and {} uncompressed",
                                               entry.stored_bytes, entry.raw_bytes));
  }
  return entry;
}

/// Ranges inside the file, in file order, without overlap, zeros between them.
Result<void> check_ranges(std::span<const std::byte> file, const Container& container, std::uint64_t table_end) {
  std::vector<SectionEntry> order = container.sections;
  std::ranges::sort(order, {}, &SectionEntry::offset);
  for (const SectionEntry& entry : order) {
    if (entry.offset > file.size() || entry.stored_bytes > file.size() - entry.offset) {
      return bad(fmt::format("section '{}' is truncated: {} bytes from byte {} on, the file has {}",
                             section_name(entry.id), entry.stored_bytes, entry.offset, file.size()));
    }
  }
  std::uint64_t previous_end = table_end;
  for (const SectionEntry& entry : order) {
    if (entry.offset < previous_end) {
      return section_error(
          entry.id, fmt::format("it starts at byte {}, inside what ends at byte {}", entry.offset, previous_end));
    }
    if (!all_zero(file.subspan(previous_end, entry.offset - previous_end))) {
      return section_error(entry.id, fmt::format("the padding before it, from byte {} on, is not zero", previous_end));
    }
    previous_end = entry.offset + entry.stored_bytes;
  }
  if (container.file_bytes != file.size() || previous_end != file.size()) {
    return bad(fmt::format("header: the file should have {} bytes and its sections end at {}, but it has {}",
                           container.file_bytes, previous_end, file.size()));
  }
  return {};
}

}  // namespace

std::string section_name(std::uint32_t id) {
  static constexpr const char* kNames[] = {"metadata",     "schemas",      "sites",      "modules",   "storages",
                                           "tensors",      "ops",          "iterations", "externals", "draws",
                                           "final_states", "not_recorded", "blob_index", "blobs",     "generators",
                                           "outputs",      "compounds",    "op_hashes"};
  static_assert(std::size(kNames) == kSectionCount);
  if (id >= 1 && id <= kSectionCount) return kNames[id - 1];
  return fmt::format("number {}", id);
}

Error section_error(std::uint32_t id, const std::string& what) {
  return bad(fmt::format("section '{}' is damaged: {}", section_name(id), what));
}

bool all_zero(std::span<const std::byte> bytes) {
  return std::ranges::all_of(bytes, [](std::byte byte) { return byte == std::byte{0}; });
}

const SectionEntry* Container::find(SectionId id) const {
  const auto found = std::ranges::find(sections, static_cast<std::uint32_t>(id), &SectionEntry::id);
  return found == sections.end() ? nullptr : &*found;
}

std::vector<std::byte> encode_container(const Container& container) {
  ByteWriter table;
  for (const SectionEntry& entry : container.sections) {
    table.u32(entry.id);
    table.u32(static_cast<std::uint32_t>(entry.codec));
    table.u64(entry.offset);
    table.u64(entry.stored_bytes);
    table.u64(entry.raw_bytes);
    table.u64(entry.checksum);
    table.u64(0);
  }
  ByteWriter header;
  header.raw(std::as_bytes(std::span(kMagic)));
  header.u16(container.major);
  header.u16(container.minor);
  header.u32(kEndianMark);
  header.u32(static_cast<std::uint32_t>(container.sections.size()));
  header.u32(kHeaderBytes);
  header.u64(container.file_bytes);
  header.u64(checksum64(table.bytes()));
  header.pad_to(kChecksummedHeaderBytes);
  header.u64(checksum64(header.bytes()));
  header.raw(table.bytes());
  return header.take();
}

Result<Container> decode_container(std::span<const std::byte> file) {
  CRUCIBLE_TRY(const Header header, decode_header(file));
  const std::uint64_t table_end = kHeaderBytes + std::uint64_t{header.section_count} * kSectionEntryBytes;
  if (table_end > file.size()) {
    return bad(fmt::format("section table is truncated: it ends at byte {}, the file has {}", table_end, file.size()));
  }
  const auto table = file.subspan(kHeaderBytes, table_end - kHeaderBytes);
  if (checksum64(table) != header.table_checksum) return bad("section table is damaged: its checksum does not match");
  Container container{header.major, header.minor, header.file_bytes, {}};
  ByteReader reader(table);
  for (std::uint32_t i = 0; i < header.section_count; ++i) {
    CRUCIBLE_TRY(const SectionEntry entry, decode_entry(reader, table_end));
    const bool is_known = entry.id >= 1 && entry.id <= kSectionCount;
    if (is_known && container.find(static_cast<SectionId>(entry.id)) != nullptr) {
      return section_error(entry.id, "it is in the section table twice");
    }
    container.sections.push_back(entry);
  }
  CRUCIBLE_TRY_VOID(check_ranges(file, container, table_end));
  return container;
}

Result<std::vector<std::byte>> load_section(std::span<const std::byte> file, const SectionEntry& entry) {
  const auto stored = file.subspan(entry.offset, entry.stored_bytes);
  if (checksum64(stored) != entry.checksum) return section_error(entry.id, "its checksum does not match");
  if (entry.codec == Codec::kRaw) return std::vector<std::byte>(stored.begin(), stored.end());
  auto raw = decompress(stored, entry.raw_bytes);
  if (!raw) return section_error(entry.id, raw.error().message);
  return raw;
}

}  // namespace crucible::trace
