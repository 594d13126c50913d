// Where the variants of a recording part, and by what: see core/graph/branches.hpp.
#pragma once

#include "core/graph/branches.hpp"
#include "core/graph/variants.hpp"
#include "core/trace/trace.hpp"

namespace crucible::aten {

/// The tree of the variants that lower_variants() made of `trace`: two variants stand on one way as long as their ops
/// have the same names, sizes and types. Of a guard that is a number, the outcomes are those of all iterations that
/// came by (of 64 on each way where there are more). Where Python chose another op, the guard is a guess from what can
/// be seen: see Guard. The work grows with the number of ops in all variants.
graph::Branches find_branches(const trace::Trace& trace, const graph::Variants& variants);

}  // namespace crucible::aten
