// Instances of the planner as CSV text: id,lower,upper,size and optional columns, as MiniMalloc reads and writes them
// (docs/memory-planner.md has the whole format).
//
// What cannot be read is refused with the number of its line. Text of anybody's making is taken: nothing is trusted.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "core/base/result.hpp"
#include "core/memory/plan.hpp"

namespace crucible::memory {

struct Instance {
  Problem problem;                     // one space for each number up to the highest in the file
  std::vector<std::string_view> ids;   // per buffer, in the text that was parsed; all different
  bool has_alignments = false, has_spaces = false, has_groups = false, has_carried = false;  // columns
};

/// Owns: the ids point into `text`, which has to outlive the instance.
/// Errors: kBadInput, naming the line, the column and the text found there.
Result<Instance> parse_csv(std::string_view text);

/// The instance with a column `offset`, in the order and with the ids of the input.
/// Shapes: one offset per buffer.
std::string to_csv(const Instance& instance, std::span<const std::uint64_t> offsets);

}  // namespace crucible::memory
