// One pass over the ops in their order decides for each external.
#include "core/trace/optimize.hpp"

#include <utility>
#include <vector>

#include "core/trace/compact.hpp"
#include "core/trace/op_effects.hpp"

namespace crucible::trace {

namespace {

std::uint64_t blob_bytes(const Trace& trace) {
  std::uint64_t bytes = 0;
  for (const Blob& blob : trace.blobs) bytes += blob.size_bytes;
  return bytes;
}

/// By external: true when an op may read its bytes, or when a replay's check of the final states needs its name.
std::vector<bool> needed_externals(const Trace& trace) {
  std::vector<bool> has_final_state(trace.storages.size(), false);
  for (const FinalState& state : trace.final_states) has_final_state[state.storage] = true;
  std::vector<std::vector<std::uint32_t>> at_op(trace.ops.size());
  for (std::uint32_t i = 0; i < trace.externals.size(); ++i) at_op[trace.externals[i].op].push_back(i);
  std::vector<std::uint32_t> waiting(trace.storages.size(), kNone);  // by storage: an external that no op used yet
  std::vector<bool> is_needed(trace.externals.size(), false);
  OpEffects effects(trace);
  for (std::size_t op = 0; op < trace.ops.size(); ++op) {
    for (const std::uint32_t external : at_op[op]) waiting[trace.externals[external].storage] = external;
    for (const TensorUse& use : effects.uses(trace.ops[op])) {
      const std::uint32_t external = std::exchange(waiting[use.storage], kNone);
      if (external == kNone) continue;
      is_needed[external] = !use.is_replaced || has_final_state[use.storage];
    }
  }
  // A model may return what it was given, so that only the comparison with the recorded outputs reads it.
  for (const Output& output : trace.outputs) {
    const StorageId storage = trace.tensors[output.tensor].storage;
    if (storage != kNone && waiting[storage] != kNone) is_needed[waiting[storage]] = true;
  }
  return is_needed;
}

}  // namespace

Optimized optimize(const Trace& trace) {
  Optimized made;
  made.trace = trace;
  made.trace.externals.clear();
  const std::vector<bool> is_needed = needed_externals(trace);
  for (std::size_t i = 0; i < trace.externals.size(); ++i) {
    const External& external = trace.externals[i];
    if (is_needed[i]) {
      made.trace.externals.push_back(external);
    } else {
      ++made.dropped_externals;
      made.dropped_external_bytes += trace.blobs[external.blob].size_bytes;
    }
  }
  made.trace = compacted(std::move(made.trace));
  made.dropped_blob_bytes = blob_bytes(trace) - blob_bytes(made.trace);
  return made;
}

}  // namespace crucible::trace
