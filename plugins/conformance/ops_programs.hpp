// Small programs for every kind of op, made from the op table: awkward shapes, awkward numbers, every dtype that the
// kind takes. A kind that is added to the table gets its programs from its class; a class that nobody has thought of
// fails.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/graph/program.hpp"
#include "core/graph/reference_numbers.hpp"

namespace crucible::conformance {

struct OpsProgram {
  std::string label;  // "add f32 [3, 5, 7] permuted"
  graph::Program program;
  std::vector<graph::Bytes> values;  // of inputs and states, as for graph::run_iteration
  std::vector<graph::Number> slots;
  graph::OpKind kind = graph::OpKind::kCopy;
  /// How many numbers, each at most `magnitude`, are added up for one result; 0: none are.
  double terms = 0, magnitude = 0;
  bool is_random = false;  // many ops: results are compared with the bound of a chain
  bool same_bits = false;  // numbers are moved, not computed: signs of zeros count too
};

/// Which dtypes the device computes with.
struct DtypeChoice {
  bool f64 = true, f16 = true, bf16 = true;
};

/// Programs of one kind. Empty only when the kit does not know what the kind's class needs.
std::vector<OpsProgram> programs_of(graph::OpKind kind, const DtypeChoice& dtypes, bool quick);

/// Programs of many ops, with states and slots.
std::vector<OpsProgram> random_programs(std::uint32_t count);
/// Numbers of which no double holds all digits, in slots that are read in every way; one program for each.
std::vector<OpsProgram> whole_slot_programs(const DtypeChoice& choice);

}  // namespace crucible::conformance
