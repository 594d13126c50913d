// Rewrites of a program that keep its meaning: every one ends with a program that verify() accepts and that computes
// the same states and outputs. One list says which run after lowering, in which order.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string_view>

#include "core/graph/program.hpp"

namespace crucible::graph {

/// Fills of the same number and coordinates of the same shape become one value. Ends of states stay apart.
void merge_generators(Program& program);

/// Ops of one kind with equal operands, attributes and results become one. Ends of states stay apart.
void merge_equal(Program& program);

/// The sum or maximum of all of a large tensor becomes that of its parts and then that of the parts' results.
void split_reductions(Program& program);

/// Removes ops that no state's end and no output depends on, then states, inputs, constants, slots, sources and values
/// that nobody uses, and renumbers what is left in its old order. A state that is only read is used.
void eliminate_dead(Program& program);

struct Pass {
  std::string_view name;
  std::string_view description;
  void (*run)(Program& program);
};

/// The passes that follow lowering, in order.
std::span<const Pass> passes();

/// Runs all passes and verifies after each. `after` (may be empty) sees the program after each pass with the
/// nanoseconds it took. Errors: kInternal, naming the pass that broke the program.
Result<void> run_passes(Program& program,
                        const std::function<void(const Pass&, const Program&, std::uint64_t)>& after = {});

}  // namespace crucible::graph
