// Two names for what a recording is, independent of how its tables are ordered, where and when it was made: equal names
// mean that the same program ran, or that it ran on the same bytes with the same results.
#pragma once

#include "core/base/hash.hpp"
#include "core/trace/trace.hpp"

namespace crucible::trace {

struct ContentHashes {
  /// SHA-256 over the ops with schemas, arguments, phases and module paths, the tensors' types, shapes and strides,
  /// which of them share a storage, and the iterations. No bytes, no losses, no Python lines, no threads, no metadata.
  ContentHash program;
  /// SHA-256 over `program` and what it ran on and gave: externals and final states with names and roles, draws,
  /// generator states, outputs and losses. No op hashes: whether they were taken changes nothing.
  ContentHash content;
};

/// Of a trace that validate() takes. Records that nothing uses do not count. Blobs are not loaded: their own hashes do.
/// Threads: any.
ContentHashes hash_content(const Trace& trace);

}  // namespace crucible::trace
