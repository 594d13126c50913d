// Test support: what a program gives before and after passes, bit for bit, on the interpreter.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/graph/passes.hpp"
#include "core/graph/random_program.hpp"

namespace crucible::graph {

struct PassFailure {
  std::string pass;  // its name, "pipeline", or "hash"
  std::string what;  // one sentence
};

/// Runs each of `passes` alone on the program, then all of them in their order, and compares outputs and the ends of
/// states with those of the program as it is. Every result must pass verify(), a second run of all passes must change
/// nothing, and the program's hash must not depend on the numbers of its values and slots, nor on names and sources.
/// Each pass must keep every bit; who checks split_reductions gives programs whose large sums are exact.
/// The program must pass verify() and run. `iteration`: whose slots the program runs with.
std::optional<PassFailure> check_passes(const RandomProgram& random, std::span<const Pass> passes = graph::passes(),
                                        std::uint32_t iteration = 0);

/// The same computation with values and slots numbered in another order, without names and sources.
Program renumbered(const Program& program, std::uint64_t seed);

}  // namespace crucible::graph
