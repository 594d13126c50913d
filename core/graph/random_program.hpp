// Test support: random valid programs with matching data, for differential tests of passes, schedules and backends.
// Numbers stay bounded and nothing discontinuous depends on rounded results, so two correct executions agree closely.
#pragma once

#include <cstdint>
#include <vector>

#include "core/graph/program.hpp"
#include "core/graph/reference_numbers.hpp"

namespace crucible::graph {

struct RandomOptions {
  std::uint64_t seed = 0;
  std::uint32_t ops = 30;         // about how many
  std::int64_t largest_side = 9;  // sizes of dimensions are 1 to this
  bool contractions = true;       // matmul
  bool indexed = true;            // gather, scatter-add, concat, update, scans, sorting
  bool generators = false;  // what is filled or counted, again and again: written at places, in slices, listed by masks
};

struct RandomProgram {
  Program program;
  std::vector<Bytes> values;  // per value; filled for states, inputs and constants: ready for run_iteration
  std::vector<Number> slots;
};

/// The same seed and options give the same program and data. The program passes verify().
RandomProgram random_program(const RandomOptions& options);

}  // namespace crucible::graph
