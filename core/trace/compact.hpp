// A trace without what nothing in it refers to. The last step of trimming and optimizing.
#pragma once

#include "core/trace/trace.hpp"

namespace crucible::trace {

/// Drops schemas, sites, modules, storages, tensors, compound tensors and blobs that no op, iteration, external, draw,
/// final state, generator, output or not-recorded item refers to; what stays keeps its order and is renumbered.
/// `trace` must be valid (validate.hpp). The blobs' bytes are not copied: they still come from the store of `trace`.
Trace compacted(Trace trace);

}  // namespace crucible::trace
