// What the backward pass needs of the forward pass: kept in memory, or computed again from less. A GELU leaves four
// tensors behind that are a few products and sums of two; the two are read instead, and the others never written.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "core/graph/program.hpp"
#include "core/kernel/fuse/fusion.hpp"
#include "core/kernel/ir/numerics.hpp"

namespace crucible::kernel {

/// A program and its units, as make_units() has them.
struct Rematerialized {
  std::optional<graph::Program> program;  // none: that which was given stays as it is
  std::vector<Unit> units;                // of whichever it is
};

/// The program with copies of cheap element-wise ops of the forward pass (sums, products, comparisons, selections,
/// conversions) before their readers in later passes, where that takes less: a minimum cut between what cannot be
/// computed again and what the later passes read, in bytes that are written, read and kept. The same bits: the copies
/// compute what their originals do. No change when kernels would not move fewer bytes. Phases are those of the ops'
/// sources. The program passes verify(). `stamps`: as of make_units().
Rematerialized rematerialize(const graph::Program& program, Numerics numerics, GroupStamps* stamps = nullptr);

/// Bytes that kernels of these units read and write, each value once per unit; products and other kinds of their own
/// left out.
std::uint64_t bytes_of_groups(const graph::Program& program, const std::vector<Unit>& units);

}  // namespace crucible::kernel
