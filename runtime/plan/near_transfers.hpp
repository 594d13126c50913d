// What an iteration starts with and what it gives back lies in many small pieces, and each read and write of a device
// waits for it: pieces that lie near each other are read and written together.
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

/// What is transferred at once for `wanted`: ranges by where they begin, each of which holds two or more of them with
/// little between. A range of `wanted` lies in the last one that begins at or before it, or, where it is large or
/// alone, in none.
std::vector<ByteRange> near_ranges(std::vector<ByteRange> wanted);

/// The reads of one iteration's results: a range of near_ranges() is read when something in it is asked for first, and
/// kept. One thread at a time; `ranges` and what `read` uses outlive it.
class NearReads {
 public:
  using Read = std::function<Result<void>(std::uint64_t offset, std::span<std::byte> bytes)>;
  NearReads(std::span<const ByteRange> ranges, Read read)
      : ranges_(ranges), kept_(ranges.size()), read_(std::move(read)) {}

  /// Bytes from `offset` on. Errors: those of `read`.
  Result<void> read(std::uint64_t offset, std::span<std::byte> bytes);

 private:
  std::span<const ByteRange> ranges_;
  std::vector<std::vector<std::byte>> kept_;  // by range; empty: not yet read
  Read read_;
};

/// Small pieces that are written together, when all are known. One thread at a time.
class NearWrites {
 public:
  using Write = std::function<Result<void>(std::uint64_t offset, std::span<const std::byte> bytes)>;
  /// `kept`: what lies between two pieces is written over with zeros, unless one of these begins there; ascending.
  explicit NearWrites(std::span<const std::uint64_t> kept) : kept_(kept) {}

  /// Whether so many bytes are worth it; what is larger is written by itself.
  static bool takes(std::size_t bytes);
  /// Pieces may come in any order and do not overlap.
  void add(std::uint64_t offset, std::vector<std::byte> bytes) { pieces_.push_back({offset, std::move(bytes)}); }
  /// Writes all pieces, and forgets them. Errors: those of `write`; how much was written then is not said.
  Result<void> flush(const Write& write);

 private:
  struct Piece {
    std::uint64_t begin = 0;
    std::vector<std::byte> bytes;
    std::uint64_t end() const { return begin + bytes.size(); }
  };
  std::span<const std::uint64_t> kept_;
  std::vector<Piece> pieces_;
};

}  // namespace crucible::runtime
