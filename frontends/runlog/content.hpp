// What a run's hashes are of: content alone, so that two devices that hold the same numbers have the same hashes,
// whatever their plugins' layouts. Names, dtypes and sizes are in them beside the bytes. docs/run-log.md has the bytes
// that are hashed.
#pragma once

#include <span>
#include <vector>

#include "core/graph/variants.hpp"
#include "core/trace/trace.hpp"
#include "frontends/runlog/record.hpp"
#include "runtime/run/session.hpp"

namespace crucible::runlog {

/// Each state of the program as it is now, in the recording's order: dense, row-major, each NaN as the canonical one.
/// Cost: every state is read back from the device and hashed. Errors: those of reading.
Result<std::vector<NamedState>> states_of(const runtime::Session& session);

/// The one hash of all of them.
ContentHash root_of(std::span<const NamedState> states);

/// What iteration `index` of the recording takes in: inputs and recorded draws, and states that were given other bytes
/// before it. By the recording's own hashes of those bytes. Of blobs that are not there the number counts.
ContentHash hash_of_inputs(const graph::Variants& variants, std::size_t index, std::span<const trace::Blob> blobs);

/// The numbers that it takes in: learning rate, bias corrections.
ContentHash hash_of_slots(const graph::Variants& variants, std::size_t index);

/// What it gave: losses, and tensors as the iteration that ran last left them. Errors: those of reading.
Result<ContentHash> hash_of_outputs(const runtime::Session& session, const graph::Variants& variants, std::size_t index,
                                    const runtime::IterationResult& result);

/// Of all variants: see ProgramName.
ContentHash hash_of_programs(const graph::Variants& variants, std::span<const trace::Blob> blobs);

}  // namespace crucible::runlog
