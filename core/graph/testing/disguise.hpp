// The same computation in other words: for tests of what must not depend on ids, names and orders.
#pragma once

#include <cstdint>

#include "core/graph/program.hpp"

namespace crucible::graph {

enum class Modules : std::uint8_t {
  kDropped,  // ops have no sources
  kRenamed   // every part of a path becomes another word, the same one everywhere, in names of states, too
};

/// Ops in another valid order, values, states and inputs with other numbers, other names, other recorded numbers.
/// The same seed gives the same program.
Program disguised(const Program& program, std::uint64_t seed, Modules modules = Modules::kDropped);

}  // namespace crucible::graph
