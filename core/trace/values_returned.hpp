// Values that left for Python and may have come back: what entered the program anew after them in the same iteration,
// or in the next one with the numbers that had left. A replay takes it from the recording, so what Python did between
// is no part of it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/trace/trace.hpp"

namespace crucible::trace {

/// True for an op that gives Python something else than tensors and nothing besides: `.item()`, `torch.equal`, and the
/// records of
/// `.numpy()`, `.tolist()` and the like (namespace "python").
bool is_reading(const Trace& trace, const Op& op);

struct ValuesReturned {
  std::uint64_t values = 0;            // elements that left, in the iteration where most did
  std::uint64_t tensors = 0;           // that entered afterwards, in the iteration where most did
  std::uint64_t numbers = 0;           // the same for numbers among the ops' arguments
  std::vector<SiteId> left_at;         // each line once, in order
  SiteId entered_at = kNone;           // the op that first read one of those that entered
  bool across_iterations = false;      // they came back in the iteration after the one that they had left
  /// Whether what entered differs between iterations; nothing where one iteration alone is complete.
  std::optional<bool> changed;
  std::string text;                    // one sentence without a full stop
};

/// Nothing when no value came back as far as the recording shows. What does not count: values of a tensor on which
/// backward is called (a loss that is logged), what optimizers read, what is printed, what parameters or an earlier
/// iteration hold (a metric after the step, before the next batch enters), also times a number of the program's; what
/// entered as input, which a loader of data gave; and numbers that are the same in every iteration whose tensors
/// entered with the same sizes. `trace` must be valid.
std::optional<ValuesReturned> values_returned(const Trace& trace);

}  // namespace crucible::trace
