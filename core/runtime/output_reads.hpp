// What an iteration gives back lies in many small pieces, and each read of a device waits for it: pieces that lie near each
// other are read together, once an iteration.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "core/base/result.hpp"

namespace crucible::runtime {

/// Bytes [begin, end) of a device's arena.
struct ByteRange {
  std::uint64_t begin = 0, end = 0;
  bool operator==(const ByteRange&) const = default;
};

/// What is read at once for `wanted`: ranges by where they begin, each of which holds two or more of them with little between. A range
/// of `wanted` lies in the last one that begins at or before it, or, where it is large or alone, in none.
std::vector<ByteRange> near_ranges(std::vector<ByteRange> wanted);

/// The reads of one iteration's results: a range of near_ranges() is read when something in it is asked for first, and kept.
/// One thread at a time; `ranges` and what `read` uses outlive it.
class OutputReads {
 public:
  using Read = std::function<Result<void>(std::uint64_t offset, std::span<std::byte> bytes)>;
  OutputReads(std::span<const ByteRange> ranges, Read read) : ranges_(ranges), kept_(ranges.size()), read_(std::move(read)) {}

  /// Bytes from `offset` on. Errors: those of `read`.
  Result<void> read(std::uint64_t offset, std::span<std::byte> bytes);

 private:
  std::span<const ByteRange> ranges_;
  std::vector<std::vector<std::byte>> kept_;  // by range; empty: not yet read
  Read read_;
};

}  // namespace crucible::runtime
