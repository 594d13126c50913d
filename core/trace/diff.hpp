// The differences of two recordings in words: `crucible trace diff`. What a Python line, a thread or the metadata say
// does not count unless it is asked for; ids never count: storages are compared by what shares them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/base/result.hpp"
#include "core/trace/trace.hpp"

namespace crucible::trace {

/// One difference; "X against Y" is the first recording's X against the second's Y.
struct Difference {
  /// "results" (hashes of what an op computed), "metadata", "iterations", "missing" (ops only in the first), "extra"
  /// (ops only in the second), "op" (another operator), "schema", "argument", "result", "phase", "module", "site",
  /// "thread", "external", "draw", "loss", "generator", "output", "final_state", "not_recorded".
  std::string kind;
  std::optional<std::uint32_t> iteration;
  std::optional<std::uint32_t> op_a, op_b;  // index in the iteration
  std::string schema, module, site;         // of the op, "" without one
  std::string argument;                     // "self", "tensors[3]", "result 0"; or the name of the external bytes
  std::string what;                         // "shape [8, 32] against [8, 64]"
  /// "iteration 0, op 12 aten::addmm (blocks.0, train.py:31): argument self: shape [8, 32] against [8, 64]".
  std::string text() const;
};

struct DiffOptions {
  bool all = false;         // sites, threads, metadata and what was not recorded too
  std::size_t limit = 20;  // at most so many in the list, 0 for any number; all are counted
};

struct Diff {
  std::vector<Difference> differences;
  std::uint64_t count = 0;
  bool is_equal() const { return count == 0; }
};

/// Both traces must be valid. Loads blobs only where their hashes differ. Threads: any.
/// Errors: those of loading blobs.
Result<Diff> diff(const Trace& a, const Trace& b, const DiffOptions& options);

}  // namespace crucible::trace
