// Whether the indices of an iteration lay where they have to: see Bound in program.hpp.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "core/base/result.hpp"
#include "core/graph/program.hpp"

namespace crucible::graph {

/// As low and high of a bound: what is bounded is no index, but -1 where something that is computed in rounds was
/// settled before the last of them, and above where it was not.
inline constexpr std::int64_t kSettled = -1;

/// "aten::embedding (in wte at gpt.py:41): an index is 50257, outside of [0, 50256]".
std::string index_outside(const Source* source, std::int64_t index, const Bound& bound);

/// `extrema` is what the iteration left in the output: the least and the largest index of each bound.
/// Errors: kBadInput, naming op, module, line, index and range of the first that lay outside, and how many more did.
Result<void> check_bounds(const Program& program, const Output& output, std::span<const std::int64_t> extrema);

}  // namespace crucible::graph
