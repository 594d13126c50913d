// In which order a plan's ops may run: what each has to wait for, by the bytes that it reads and writes, which launches
// of one kernel may be one, and the graph that comes of it. Where memory is reused the addresses say so, so that
// nothing here has to know why a buffer lies where it does. Vendor-neutral: what a node becomes is the plugin's.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "plugins/sdk/op_list.hpp"

namespace crucible::sdk {

/// Bytes that an op touches, `end` excluded.
struct TouchedBytes {
  std::uint64_t begin = 0, end = 0;
  bool is_written = false;
  std::uint64_t size() const { return end - begin; }
};

/// What `op` touches; nothing of one that does nothing. `written` says of each buffer of a launch whether its kernel
/// writes it. A buffer whose size was not told reaches to the end of the memory that it lies in, and where that is not
/// known either, the op touches everything.
std::vector<TouchedBytes> touched_bytes(const ListedOp& op, const std::vector<bool>& written);

/// For each op, those before it that it has to wait for, ascending: who wrote what it touches, who read what it writes.
/// What follows from others may be missing: an op waits for all that the ops it waits for do.
using Waits = std::vector<std::vector<std::size_t>>;
Waits waits_of(const std::vector<std::vector<TouchedBytes>>& touched);

/// One node of the graph.
struct OrderedNode {
  std::vector<std::size_t> ops;    // one; several, ascending, where launches of one kernel became one
  std::vector<std::size_t> after;  // nodes before it, ascending; none of them follows from the others
  std::size_t branch = 0;          // each node of a branch comes after the one before it there
};

struct OpOrder {
  std::vector<OrderedNode> nodes;    // an order in which they may run one after the other
  std::vector<std::size_t> node_of;  // of each op; kNoNode of one that is left out
  std::size_t longest_path = 0;      // nodes of it
  static constexpr std::size_t kNoNode = ~std::size_t{0};
};

/// No op belongs together with others.
inline constexpr std::size_t kAlone = 0;
/// A driver runs so many nodes of a graph side by side without a stream of its own for each that may be.
inline constexpr std::size_t kMostBranches = 3;

/// Ops of one kind (not kAlone) become one node where none waits for another by any way, unless there are more than
/// `most_together`. `is_left_out` of an op: it is in no node; it waits for none, and none for it. An op may be moved
/// behind others for that, never so that the longest chain of ops grows.
OpOrder order_ops(const Waits& waits, const std::vector<std::size_t>& kinds, const std::vector<bool>& is_left_out,
                  std::size_t most_together = 4096, std::size_t most_branches = kMostBranches);

/// `time` dealt out in proportion to `shares`; the sum is `time`. Where all shares are 0, equally.
std::vector<std::uint64_t> shared_time(std::uint64_t time, std::span<const std::uint64_t> shares);

}  // namespace crucible::sdk
