// What ATen ops mean: a recorded trace becomes a vendor-neutral program (core/graph). Uses no libtorch, so a trace is
// lowered on machines without PyTorch. Ops are found by name and overload in one table (lower_table.cpp).
#pragma once

#include "core/base/result.hpp"
#include "core/graph/program.hpp"
#include "core/trace/trace.hpp"

namespace crucible::aten {

/// Lowers the recorded iterations to one program: the op sequence is the same in all of them, scalars that differ
/// become slots, external tensors become states, inputs or constants, in-place writes and views are resolved. Errors:
/// kBadInput when an op has no lowering (all such ops listed with count, module path and Python line), when two
/// iterations differ (the first differing op of both is named), or when no complete iteration was recorded.
Result<graph::Program> lower(const trace::Trace& trace);

/// The same without the passes of core/graph/passes.hpp: the first stage of `crucible graph --stages`.
Result<graph::Program> lower_without_passes(const trace::Trace& trace);

}  // namespace crucible::aten
