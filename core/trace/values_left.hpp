// Values that left the tensors for Python (`.item()`, `torch.equal`, `if tensor:`): what a replay cannot hand to the
// program again. Whether the program's ops depended on them shows in the iterations behind the first.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/trace/trace.hpp"

namespace crucible::trace {

/// Ops of one kind at one line that returned something else than tensors.
struct ValueLeft {
  std::string schema;  // full name
  SiteId site = kNone;
  Phase phase = Phase::kForward;
  std::uint64_t count = 0;  // ops, in all iterations
  /// Whether two complete iterations got different values here; nothing with fewer than two.
  std::optional<bool> values_differ;
};

struct ValuesLeft {
  std::vector<ValueLeft> lines;  // in the order in which they first occur
  /// True: complete iterations have different op sequences, which the values may have caused. False: they have the same
  /// one although values differed, or no value left. Nothing: it cannot be told.
  std::optional<bool> sequence_depends;
  std::string reason;  // in words
};

/// `trace` must be valid.
ValuesLeft values_left(const Trace& trace);

}  // namespace crucible::trace
