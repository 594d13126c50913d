// From what the recorder gathered to a trace::Trace: records in the order of their sequence numbers, tensors interned,
// storages numbered by first use, bytes deduplicated. Runs once, after recording, on one thread.
#pragma once

#include "core/trace/trace.hpp"
#include "frontends/torch/recorder.hpp"

namespace crucible::recorder {

/// The trace of the complete iterations. `metadata` is taken as it is, but for device, overhead and frontend.
/// Reads parameters and states in place: no op may run meanwhile. Threads: one, with the recorder stopped.
/// Errors: kBadInput when no iteration is complete.
Result<trace::Trace> build_trace(const Recorder& recorder, trace::Metadata metadata);

}  // namespace crucible::recorder
