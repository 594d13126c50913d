// In what two programs differ, by module and in words. Equal regions are skipped whole, so that the work is that of
// what differs and of the lists that contain it.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "core/merkle/region.hpp"

namespace crucible::merkle {

enum class ChangeKind : std::uint8_t {
  kAdded,    // a region or an op that only the second has
  kRemoved,  // that only the first has
  kShape,    // sizes, strides or element types
  kNumber,   // a fixed number or an attribute; a number that is fixed in one and varies in the other
  kWiring,   // the same ops, from other operands
  kRole,     // what is a state, an input, drawn or shown
  kName      // names alone: such programs are equal
};
/// "added", "removed", "shape", "number", "wiring", "role", "name".
std::string_view name(ChangeKind kind);

struct Change {
  ChangeKind kind = ChangeKind::kAdded;
  std::string phase;   // "forward"; "" of the whole
  std::string module;  // "blocks.3.feed_forward.0"; "" outside of modules
  std::string what;    // "aten::mul at train.py:12: 0.5, now 0.25"
};

struct Difference {
  bool equal = false;           // the same computation; names may differ
  std::vector<Change> changes;  // of equal programs those of names
  std::size_t regions = 0;      // how many pairs of regions were looked into
};

/// Threads: any.
Difference diff(const RegionTree& a, const RegionTree& b);

}  // namespace crucible::merkle
