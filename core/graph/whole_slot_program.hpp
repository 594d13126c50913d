// Test support: a program that does with slots of whole numbers what programs do with numbers, and what must come of
// it, computed here without any of core. Whoever takes a whole number for a double on its way loses digits and is found
// out.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "core/graph/number.hpp"
#include "core/graph/program.hpp"
#include "core/graph/reference_numbers.hpp"

namespace crucible::graph {

/// Numbers of which a double holds some and others not. The last one becomes another f32 by way of a double.
inline constexpr std::array<std::int64_t, 7> kWholeNumbers = {(std::int64_t{1} << 53) + 1,
                                                              (std::int64_t{1} << 62) + 3,
                                                              INT64_MIN,
                                                              INT64_MAX,
                                                              -3,
                                                              1'790'000'000'000'000'001,
                                                              (std::int64_t{1} << 60) + (std::int64_t{1} << 36) + 1};

struct WholeSlotProgram {
  Program program;            // one iteration for each number; every result is an output, in the order of `expected`
  std::vector<Bytes> values;  // of the inputs, in each iteration the same: ready for run_iteration
  std::vector<std::vector<Number>> slots;    // of each iteration
  std::vector<std::vector<Bytes>> expected;  // of each iteration and output
};

/// Arithmetic, comparisons, indices, places that are written, and conversions of the number in slot 1; slot 0 is real.
/// `f64`: in f64, too.
WholeSlotProgram whole_slot_program(bool f64 = true);

/// "", or the first output that is not what it must be. `program`: as made, or after passes; `values`: of its
/// iteration.
std::string difference(const WholeSlotProgram& made, std::size_t iteration, const Program& program,
                       const std::vector<Bytes>& values);

}  // namespace crucible::graph
