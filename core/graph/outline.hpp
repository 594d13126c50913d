// Making composites: ops that stand together become one composite op with them as its body. The way back is
// expand_composites(), which gives the same program again.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/graph/composite.hpp"

namespace crucible::graph {

/// Ops from `first` on up to `end` that are a composite by their meaning.
struct Outline {
  OpId first = 0, end = 0;
  std::string name;
  std::vector<CompositeAttribute> attributes;
  std::vector<Role> inputs;   // in the order of the operands to be; those that no op reads are left out
  std::vector<Role> outputs;  // what results are called; a result that nobody reads outside is none
};

/// Makes composite ops of the outlined ones, which must be disjoint; those with equal bodies share an entry. An outline
/// stays as it was where its ops are not neutral, read a tensor that no role has, make nothing that is read outside, or
/// name their inner values. The program must pass verify(), and does so afterwards. Returns how many composite ops were
/// made.
std::uint32_t outline(Program& program, std::vector<Outline> outlines);

}  // namespace crucible::graph
