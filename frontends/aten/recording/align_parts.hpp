// How one iteration is compared with another: what group.cpp makes groups with.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "frontends/aten/recording/align.hpp"

namespace crucible::aten {

/// Whether the op stands in an iteration's list; others leave no trace in any tensor.
bool is_aligned(const trace::Trace& trace, const trace::Op& op);

/// Bytes that were taken when ops of the iteration had used the memory already: something put them there in between.
/// Those that no aligned op reads any more stand under kNone.
std::shared_ptr<const Changes> changes_of(const trace::Trace& trace);

/// Which tensors of the recording are lazy, sparse, nested or zeros: an alignment without iterations.
Alignment kinds_of_tensors(const trace::Trace& trace);

/// See Alignment::read_as_real.
std::unordered_map<trace::StorageId, DType> read_as_real(const trace::Trace& trace);

/// A group of one iteration, whose aligned ops are `ops`.
Alignment first_of_group(const trace::Trace& trace, const Alignment& kinds, std::uint32_t iteration,
                         std::vector<std::uint32_t> ops);

/// Adds an iteration to a group. Errors: kBadInput when it differs in anything but numbers and offsets, naming the
/// first differing op of both with its place; then the group is as it was.
Result<void> join(const trace::Trace& trace, Alignment& group, std::uint32_t iteration,
                  const std::vector<std::uint32_t>& ops);

/// The group in groups whose number at `path` is the same, in the order of their first iterations. `difference`: in
/// what they differ, in words.
std::vector<Alignment> split(const trace::Trace& trace, const Alignment& group, const ArgumentPath& path,
                             const std::string& difference);

/// Per group: of everything in which iterations of one group are alike, but for who shares memory with whom.
std::vector<std::uint64_t> signatures_of(const trace::Trace& trace, const std::vector<Alignment>& groups);

}  // namespace crucible::aten
