// Test support for forms of programs (text, binary): random programs with names and numbers that a careless form loses.
#pragma once

#include <cstdint>
#include <string>

#include "core/graph/program.hpp"

namespace crucible::graph {

/// A valid program, some after all passes, with names of any bytes, sources, other NaNs, infinities and subnormal
/// numbers.
Program awkward_program(std::uint64_t seed);

/// The first thing that differs, or "": every field of every structure of program.hpp and opaque.hpp.
std::string difference(const Program& a, const Program& b);

}  // namespace crucible::graph
