// Test support: random pieces of a program become composites, which have no other meaning than their bodies.
#pragma once

#include <cstdint>

#include "core/graph/program.hpp"
#include "core/graph/random_program.hpp"

namespace crucible::graph {

/// Makes composites of about a third of the ops, a few neighbouring ones each, with random names and attributes; the
/// same seed makes the same ones. Nobody has an implementation of their names. Returns how many ops of that kind there
/// are then.
std::uint32_t outline_randomly(Program& program, std::uint64_t seed);

/// The same, and the data stays with its values.
std::uint32_t outline_randomly(RandomProgram& random, std::uint64_t seed);

}  // namespace crucible::graph
