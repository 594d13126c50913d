// What a verdict is worth where a recording was stripped (core/trace/strip.hpp).
#pragma once

#include "runtime/run/session.hpp"
#include "core/trace/trace.hpp"

namespace crucible::replay {

/// Of a stripped recording there is nothing to agree with: it is "not verified: the recording was stripped", and what
/// was compared with noise is forgotten. Returns whether it was; such a verdict is not to be settled or explained
/// again.
bool judge_stripped(runtime::Verification& verdict, const trace::Trace& trace);

}  // namespace crucible::replay
