// What ATen ops mean: a recorded trace becomes a vendor-neutral program (core/graph). Uses no libtorch, so a trace is
// lowered on machines without PyTorch. Ops are found by name and overload in one table (lower_table.cpp).
#pragma once

#include <cstdint>

#include "core/base/result.hpp"
#include "core/graph/composite.hpp"
#include "core/graph/program.hpp"
#include "core/graph/variants.hpp"
#include "core/trace/trace.hpp"

namespace crucible::aten {

/// Which ops become opaque ops of the program (core/graph/opaque.hpp), which only a plugin that has the framework can
/// run.
enum class Opaques : std::uint8_t {
  kRefuse,   // none: an op without lowering is an error
  kMissing,  // those without lowering, and those that their lowering gives up on
  kAll,      // every op that can be run as it was recorded
};

/// Lowers the recorded iterations: those that run the same ops on the same sizes are one program, a variant. Scalars
/// that differ within it become slots, external tensors become states, inputs or constants, in-place writes and views
/// are resolved. Errors: kBadInput when an op has no lowering and none may be opaque (all such ops listed with count,
/// module path and Python line), when no complete iteration was recorded, when what an iteration reads was left by no
/// other and is not in the recording, or when not even an opaque op can hold what was recorded (sparse and complex
/// tensors, objects). `keeps`: which composites stay whole for the backend; null: none.
Result<graph::Variants> lower_variants(const trace::Trace& trace, Opaques opaques = Opaques::kRefuse,
                                       const graph::KeepsComposite& keeps = nullptr);

/// The same for a program that runs on in the process that was recorded: nothing counts on what was equal in all
/// recorded iterations. Constants keep their memory, and numbers of optimizers' ops are slots, but for 0, 1 and -1,
/// which choose the ops.
Result<graph::Variants> lower_live(const trace::Trace& trace);

/// The same of a recording whose iterations are all alike. Errors: those, and kUsage where they are not.
Result<graph::Program> lower(const trace::Trace& trace, Opaques opaques = Opaques::kRefuse,
                             const graph::KeepsComposite& keeps = nullptr);

/// The same as lower_variants() without the passes of core/graph/passes.hpp, all composites whole: the first stage of
/// `crucible graph --stages`.
Result<graph::Variants> lower_variants_without_passes(const trace::Trace& trace, Opaques opaques = Opaques::kRefuse);
Result<graph::Program> lower_without_passes(const trace::Trace& trace, Opaques opaques = Opaques::kRefuse);

}  // namespace crucible::aten
