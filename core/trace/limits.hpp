// How much a reader takes a file's word for. What a recording unpacks to is memory that a stranger's few bytes may ask
// for.
#pragma once

#include <cstdint>

namespace crucible::trace {

struct Limits {
  /// Uncompressed bytes of one section other than the blobs.
  std::uint64_t table_bytes = std::uint64_t{1} << 30;
  /// How many times its stored bytes a section may unpack to, beyond the first `free_bytes`. Tables of recordings
  /// shrink to a fifth, those of one op a million times to a hundredth.
  std::uint64_t expansion = 256, free_bytes = std::uint64_t{32} << 20;
};

/// Those of this process; all readers and writers of recordings keep them.
const Limits& limits();

/// Threads: while nothing is read or written.
void set_limits(const Limits& limits);

/// For who has to read more: sections may have `table_bytes`, however few they are in the file.
inline Limits tables_of(std::uint64_t table_bytes) { return {.table_bytes = table_bytes, .free_bytes = table_bytes}; }

}  // namespace crucible::trace
