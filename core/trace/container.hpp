// The outer shape of a .crtrace file: header, section table, and where each section lies. docs/crtrace.md has the
// bytes. It knows neither what is in a section (sections.cpp) nor how files are opened (mapped_file, output_file).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "core/base/result.hpp"

namespace crucible::trace {

inline constexpr std::size_t kHeaderBytes = 64;
inline constexpr std::size_t kSectionEntryBytes = 48;
inline constexpr std::size_t kAlignment = 64;  // of sections and of blobs
inline constexpr std::uint32_t kMaxSections = 1024;

/// The numbers are part of the format: append only.
enum class SectionId : std::uint32_t {
  kMetadata = 1,
  kSchemas,
  kSites,
  kModules,
  kStorages,
  kTensors,
  kOps,
  kIterations,
  kExternals,
  kDraws,
  kFinalStates,
  kNotRecorded,
  kBlobIndex,
  kBlobs,
  // since 1.1, and only in files where they are not empty:
  kGenerators,
  kOutputs,
  kCompounds,
  kOpHashes,
};
inline constexpr std::uint32_t kSectionCount = 18;  // known ids are 1 .. kSectionCount

/// The sections that are tables of records, in the order in which they are written: all but the blobs and their index.
inline constexpr std::array kTableSections = {
    SectionId::kMetadata,   SectionId::kSchemas, SectionId::kSites,       SectionId::kModules,
    SectionId::kStorages,   SectionId::kTensors, SectionId::kOps,         SectionId::kIterations,
    SectionId::kExternals,  SectionId::kDraws,   SectionId::kFinalStates, SectionId::kNotRecorded,
    SectionId::kGenerators, SectionId::kOutputs, SectionId::kCompounds,   SectionId::kOpHashes};

/// True for a section that a file may lack.
constexpr bool is_optional(SectionId id) { return id >= SectionId::kGenerators; }

/// "ops"; "number 99" for an id that this version does not know.
std::string section_name(std::uint32_t id);
inline std::string section_name(SectionId id) { return section_name(static_cast<std::uint32_t>(id)); }

enum class Codec : std::uint32_t {
  kRaw = 0,
  kZstd = 1,
  kIndexed = 2,  // the blob area: each blob has its own codec and checksum in the blob index
  kFolder = 3,   // of a blob: it is not in the file but in the folder that the metadata name (blob_folder.hpp)
  kLeftOut = 4,  // of a blob: its bytes are nowhere; its hash says only which blobs are one
};

struct SectionEntry {
  std::uint32_t id = 0;
  Codec codec = Codec::kRaw;
  std::uint64_t offset = 0;  // from the start of the file
  std::uint64_t stored_bytes = 0;
  std::uint64_t raw_bytes = 0;
  std::uint64_t checksum = 0;  // XXH3-64 of the stored bytes; 0 for kIndexed
};

struct Container {
  std::uint16_t major = 0, minor = 0;
  std::uint64_t file_bytes = 0;
  std::vector<SectionEntry> sections;  // in the table's order
  /// The section with this id, or nullptr.
  const SectionEntry* find(SectionId id) const;
};

/// Rounds up to kAlignment.
constexpr std::uint64_t align_up(std::uint64_t offset) { return (offset + kAlignment - 1) / kAlignment * kAlignment; }

/// The first bytes of the file: header and section table.
std::vector<std::byte> encode_container(const Container& container);

/// Reads header and table from the start of `file` and checks every range, alignment and checksum of the two, and that
/// the bytes between sections are zero. Sections' own checksums are not looked at.
/// Errors: kBadInput naming the header, the section table or the section, without the file's path.
Result<Container> decode_container(std::span<const std::byte> file);

/// Uncompressed content of a section other than the blobs, checksum compared.
/// Errors: kBadInput naming the section.
Result<std::vector<std::byte>> load_section(std::span<const std::byte> file, const SectionEntry& entry);

/// kBadInput "section 'NAME' is damaged: WHAT".
Error section_error(std::uint32_t id, const std::string& what);
inline Error section_error(SectionId id, const std::string& what) {
  return section_error(static_cast<std::uint32_t>(id), what);
}

/// True when every byte is zero.
bool all_zero(std::span<const std::byte> bytes);

}  // namespace crucible::trace
