// Test support: random valid programs of every kind of op, every dtype that computes, and awkward numbers (NaN,
// infinities, -0, extremes of integers). Only bit-for-bit comparisons of the interpreter with itself make sense on
// them: what two correct backends may round differently is magnified here. random_program.hpp has programs for those.
#pragma once

#include <cstdint>

#include "core/graph/random_program.hpp"

namespace crucible::graph {

struct WildOptions {
  std::uint64_t seed = 0;
  std::uint32_t ops = 16;         // about how many; the least is what states and outputs need
  std::int64_t largest_side = 4;  // sizes of dimensions are 0 (rarely) to this
};

/// The same seed and options give the same program and data. The program passes verify(), and the interpreter runs it.
/// It has two recorded iterations, whose inputs agree and whose slots differ or not; blob numbers of constants are
/// their values' numbers. `RandomProgram::slots` are those of the first iteration. One in sixteen seeds reduces tensors
/// that are large enough to be taken in parts; those sums are of whole numbers, so that every order of adding gives the
/// same bits. One in four seeds has composites.
RandomProgram wild_program(const WildOptions& options);

}  // namespace crucible::graph
