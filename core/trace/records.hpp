// One record of each table of a .crtrace file: its bytes, and back. docs/crtrace.md has the description.
// Tables and sections are made of them in sections.cpp (whole) and stream_writer.cpp (one at a time); ids are not
// compared with the sizes of tables here (validate.hpp).
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "core/trace/byte_stream.hpp"
#include "core/trace/container.hpp"
#include "core/trace/trace.hpp"

namespace crucible::trace {

inline constexpr int kMaxListDepth = 16;  // lists in lists; the frameworks' own schemas reach 2
/// Whoever prints an op or looks for what it reads unfolds its compound tensors, and those may name each other. One may
/// unfold to kMaxParts arguments (the frameworks' own kinds have up to 6), and those that ops use, each as often as it
/// is used, to kMaxPartsPerUse for each use and kMaxParts more.
inline constexpr std::uint64_t kMaxParts = 1 << 16, kMaxPartsPerUse = 64;

/// What the results of one op hashed to: a record of the section 'op_hashes'.
using OpHashes = std::vector<std::uint64_t>;

/// Where a blob lies in the section 'blobs'.
struct BlobPlace {
  std::uint64_t offset = 0;  // from the start of that section
  std::uint64_t stored_bytes = 0;
  Codec codec = Codec::kRaw;   // kRaw or kZstd; kFolder, kLeftOut: not in that section, and the other numbers are 0
  std::uint64_t checksum = 0;  // XXH3-64 of the stored bytes
};

/// A record of the section 'blob_index'.
struct BlobEntry {
  Blob blob;
  BlobPlace place;
};

/// The least that a record can take, which bounds what a false count can cost; 0: not the type of a record.
template <class Type>
inline constexpr std::size_t kMinRecordBytes = 0;
template <>
inline constexpr std::size_t kMinRecordBytes<Schema> = 3;
template <>
inline constexpr std::size_t kMinRecordBytes<Site> = 3;
template <>
inline constexpr std::size_t kMinRecordBytes<std::string> = 1;  // the path of a module
template <>
inline constexpr std::size_t kMinRecordBytes<Storage> = 2;
template <>
inline constexpr std::size_t kMinRecordBytes<Tensor> = 5;
template <>
inline constexpr std::size_t kMinRecordBytes<Op> = 7;
template <>
inline constexpr std::size_t kMinRecordBytes<Iteration> = 4;
template <>
inline constexpr std::size_t kMinRecordBytes<External> = 6;
template <>
inline constexpr std::size_t kMinRecordBytes<Draw> = 3;
template <>
inline constexpr std::size_t kMinRecordBytes<FinalState> = 4;
template <>
inline constexpr std::size_t kMinRecordBytes<NotRecorded> = 3;
template <>
inline constexpr std::size_t kMinRecordBytes<GeneratorState> = 3;
template <>
inline constexpr std::size_t kMinRecordBytes<Output> = 4;
template <>
inline constexpr std::size_t kMinRecordBytes<CompoundTensor> = 3;
template <>
inline constexpr std::size_t kMinRecordBytes<OpHashes> = 1;
template <>
inline constexpr std::size_t kMinRecordBytes<BlobEntry> = 32 + 3 + 1 + 8;
/// The metadata are one record: pairs of name and text, so that a reader passes over names that it does not know.
template <>
inline constexpr std::size_t kMinRecordBytes<Metadata> = 1;

template <class Type>
concept Record = kMinRecordBytes<Type> > 0;

/// Appends one record.
template <Record Type>
void encode(ByteWriter& out, const Type& record);

/// Fills a record that is as it was made. When the bytes do not fit, `in.ok()` is false and the record is anything.
template <Record Type>
void decode(ByteReader& in, Type& record);

}  // namespace crucible::trace
