// What the tiers of the planner work on: a problem reduced to blocks in one space. Groups are one block, sizes are in
// units, time is compressed to sections, and blocks that cannot meet are in different parts.
//
// A section is a moment at which a maximal set of blocks is alive: two blocks meet if and only if they share a section.
// This is the inside of the planner: everybody else uses plan.hpp.
#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "core/memory/plan.hpp"

namespace crucible::memory {

inline constexpr std::uint32_t kNone = std::numeric_limits<std::uint32_t>::max();

/// Sections [begin, end), begin < end.
struct Range {
  std::uint32_t begin = 0;
  std::uint32_t end = 0;
};

/// A block of `size` > 0 units; its life is within the sections [begin, end).
struct Block {
  std::uint64_t size = 0;
  std::uint32_t begin = 0;
  std::uint32_t end = 0;
};

/// Lists of different lengths in one array: list i is items[first[i]] to items[first[i + 1] - 1].
template <class T>
struct Lists {
  std::vector<std::uint32_t> first;
  std::vector<T> items;
  bool empty() const { return items.empty(); }
  std::span<const T> operator[](std::size_t i) const {
    return std::span<const T>(items).subspan(first[i], first[i + 1] - first[i]);
  }
};

/// Blocks that can be placed without regard to any other part.
struct Part {
  std::vector<Block> blocks;
  std::uint32_t sections = 0;
  std::vector<std::uint32_t> ids;         // per block: its number in the space
  std::vector<std::uint64_t> load;        // per section: units alive
  std::vector<std::uint64_t> max_load;    // per block: highest load during its life
  std::vector<std::uint64_t> length;      // per block: steps that it is alive
  std::uint64_t bound = 0;                // no plan has a smaller peak
  // Rules that few problems have; empty when no block has one.
  std::vector<std::uint64_t> alignment;   // per block, in units
  std::vector<std::uint64_t> pinned;      // per block: its offset or kUnpinned
  Lists<Range> ranges;                    // per block: its life, when it has gaps
  Lists<std::uint32_t> apart;             // per block: those that it must not share a unit with at any time
  /// Only sizes, lives and alignments: a skyline pass can place it.
  bool is_plain() const { return pinned.empty() && ranges.empty() && apart.empty(); }
  std::span<const Range> life(std::uint32_t block, Range& own) const {
    if (!ranges.empty()) return ranges[block];
    own = {blocks[block].begin, blocks[block].end};
    return {&own, 1};
  }
  std::uint64_t aligned(std::uint32_t block, std::uint64_t offset) const {
    if (alignment.empty()) return offset;
    const std::uint64_t rest = offset % alignment[block];
    return rest == 0 ? offset : offset + (alignment[block] - rest);
  }
};

/// One space of a problem. Offsets in it are in units of `unit_bytes`.
struct SpaceBlocks {
  std::uint64_t unit_bytes = 1;
  std::vector<Part> parts;
  Lists<std::uint32_t> members;                // per block: the buffers that it stands for
  std::vector<std::uint32_t> idle;             // buffers that occupy nothing
  std::uint64_t bound = 0;                     // of all parts, in units
  std::uint32_t bound_time = 0;
  std::vector<std::uint32_t> witness;          // buffers
};

/// Reduces space `space` of a problem that check_problem() accepted.
SpaceBlocks reduce(const Problem& problem, std::uint32_t space);

/// Errors: kBadInput, naming the buffer and what is wrong with it.
Result<void> check_problem(const Problem& problem);

/// The end of an iteration: carried buffers live up to it.
std::uint32_t period_of(const Problem& problem);

/// Offsets of the blocks of a part, in units, and their peak.
struct Placed {
  std::vector<std::uint64_t> offsets;
  std::uint64_t peak = std::numeric_limits<std::uint64_t>::max();
};

}  // namespace crucible::memory
