// Whether a Trace is consistent in itself: every id within its table, every op range within the ops. The writer asks
// before it writes and the reader after it has read, so that nobody behind them has to.
#pragma once

#include "core/base/result.hpp"
#include "core/trace/trace.hpp"

namespace crucible::trace {

/// Errors: kBadInput naming the section, the record and the rule.
Result<void> validate(const Trace& trace);

}  // namespace crucible::trace
