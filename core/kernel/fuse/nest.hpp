// The loop form of ops: one iteration space, and for each operand the strides by which it walks its buffer. Fusion
// (merge.hpp, fusion.hpp) joins nests into groups with one space; emit_group.cpp makes kernels of them.
//
// A group's members are element-wise ops, lookups (row gathers and takes) and reductions. Each runs over the full
// space, or over the rows: the kept dimensions alone, its strides along the reduced ones being 0. Reductions lead from
// the first to the second.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "core/graph/program.hpp"
#include "core/kernel/ir/numerics.hpp"

namespace crucible::kernel {

/// Where an operand's element lies for each point of the space: offset + sum(index * stride).
struct Access {
  graph::ValueId value = graph::kNone;  // kNone: nothing in memory, see Member::generators; or a scalar operand
  DType type = DType::kF32;
  std::int64_t offset = 0;
  std::vector<std::int64_t> strides;  // per dimension of the space
};

/// Ops that read a table at places which data decides. The table must lie in memory before the kernel starts.
enum class Lookup : std::uint8_t {
  kNone,
  kRows,      // kGatherRows: the ids lie in memory, too
  kElements,  // kTake: the index is any value of the group
};

/// The order in which a strict sum or product of floats takes its terms (docs/numerics.md). The reduced dimensions
/// count blocks, and places in a block, by strides like those of an access, which stay right through every change of
/// the dimensions.
struct SumOrder {
  /// 0: any order. 1: the terms of a block (at most 4) are one tree, and the blocks are added up in order. Else a power
  /// of two: as many chains, of which chain c takes the places c, c + chains, ... of each block; then the chains are
  /// one tree.
  std::int64_t chains = 0;
  bool in_sequence = false;  // with one chain: no trees, one term after the other, the first one as it is (pieces)
  Access block, place;
  bool is_named() const { return chains != 0; }
};
inline constexpr std::int64_t kMostChains = 32, kTreeTerms = 4;
inline constexpr std::int64_t kPiecesAtOnce = 8;     // loads of pieces that are under way together
inline constexpr std::int64_t kLongestBlock = 4096;  // of sums by chains, so that the errors of long ones stay small

struct Member {
  graph::OpId op = graph::kNone;
  bool over_rows = false;      // runs over the kept dimensions only
  std::vector<Access> inputs;  // in the op's order; a lookup's table: its strides are 0 except inside a row
  /// Per input: the kFill or kCoordinate whose result it reads, computed in place instead of loaded; else kNone. A
  /// coordinate's access holds the index itself: offset + sum(index * stride).
  std::vector<graph::OpId> generators;
  Access output;
  Lookup lookup = Lookup::kNone;
  std::int64_t row_stride = 0;  // lookups: elements between two rows, or two elements, of the table
  SumOrder order;
};

struct Group {
  std::vector<std::int64_t> sizes;
  std::vector<bool> reduced;    // per dimension
  std::vector<Member> members;  // in the program's order

  std::int64_t elements() const;
  std::int64_t rows() const;  // product of the kept sizes
  bool has_reduction() const;
  /// The order that its reductions have to keep: all that name one name the same. Null: any order.
  const SumOrder* order() const;
  const Member* producer(graph::ValueId value) const;  // null when no member writes it
};

/// The nest of one op, without dimensions of size 1; nothing for ops that are neither element-wise nor a reduction nor
/// a lookup. Strict sums and products of floats name their order.
std::optional<Group> make_group(const graph::Program& program, graph::OpId op, Numerics numerics);

/// Replaces dimension `dim` by dimensions of the given sizes, whose product is its size, outermost first.
void split_dimension(Group& group, std::size_t dim, const std::vector<std::int64_t>& factors);

/// Reorders the dimensions: new dimension i is old dimension order[i].
void permute_dimensions(Group& group, const std::vector<std::size_t>& order);

/// Joins neighbouring dimensions of one kind wherever every access allows it, after ordering the dimensions so that
/// writes run through memory in order.
void collapse_dimensions(Group& group);

/// The largest divisor of `size` that is at most `most`; 1 when there is none.
std::int64_t divisor_below(std::int64_t size, std::int64_t most);

/// True when both accesses reach the same element at every point of a space of these sizes.
bool same_access(const Access& a, const Access& b, const std::vector<std::int64_t>& sizes);

}  // namespace crucible::kernel
