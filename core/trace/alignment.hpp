// Two lists of keys laid side by side so that as many as possible stand opposite their equals (Myers' greedy
// algorithm). `crucible trace diff` uses it for ops; it knows keys only.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace crucible::trace {

/// `length` keys from `a` on in the one list are equal to those from `b` on in the other.
struct EqualRun {
  std::size_t a = 0, b = 0, length = 0;
  bool operator==(const EqualRun&) const = default;
};

struct Alignment {
  std::vector<EqualRun> runs;  // in order, none empty
  bool is_shortest = true;  // false: more than the allowed edits are needed; then only equal starts and ends are runs
};

/// The runs between which the fewest keys are left over.
/// Units: time grows with (lengths x edits), memory with 4 bytes x max_edits^2.
/// Source: E. W. Myers, "An O(ND) difference algorithm and its variations", Algorithmica 1, 1986.
Alignment align(std::span<const std::uint64_t> a, std::span<const std::uint64_t> b, std::size_t max_edits = 2000);

}  // namespace crucible::trace
