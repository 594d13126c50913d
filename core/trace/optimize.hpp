// What a recording holds and nobody needs: external bytes that no op reads, table entries without a user.
#pragma once

#include <cstdint>

#include "core/trace/trace.hpp"

namespace crucible::trace {

struct Optimized {
  Trace trace;  // its blobs' bytes still come from the store of the trace that was given
  std::uint64_t dropped_externals = 0;
  std::uint64_t dropped_external_bytes = 0;  // equal content counted each time
  std::uint64_t dropped_blob_bytes = 0;      // of blobs that nothing refers to any more, equal content counted once
};

/// Drops external bytes where it is certain that no op reads them: no op uses the storage before its bytes are taken
/// again, or the first that does replaces all of them (OpEffects) and the storage has no final state to be compared
/// with after a replay. Then drops what nothing refers to (compacted). Replaying the result does the same as before.
/// `trace` must be valid.
Optimized optimize(const Trace& trace);

}  // namespace crucible::trace
