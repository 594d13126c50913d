// The hash of what a replay gave: two replays with the same one gave the same bits. docs/replay.md ("The hash of the
// results") says what it is made of, in which order and under which names.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/base/dtype.hpp"
#include "core/base/hash.hpp"
#include "core/base/result.hpp"
#include "runtime/run/session.hpp"

namespace crucible::runtime {

/// Of the elements of one tensor, dense and row-major. Every loss, output and state that the hash of the results covers
/// goes through here, so that a rule about bits that count as equal has one place.
ContentHash hash_of_elements(DType dtype, std::span<const std::byte> elements);

/// Lower-case SHA-256 over the losses and outputs of all iterations and the states as they are now. `results` are those
/// of all iterations that ran, with their outputs compared. Nothing where there is neither a loss nor an output nor a
/// state. Errors: kUsage when outputs were not compared; those of reading states.
Result<std::optional<std::string>> result_sha256(const Session& session, const graph::Program& program,
                                                 const std::vector<IterationResult>& results);

}  // namespace crucible::runtime
