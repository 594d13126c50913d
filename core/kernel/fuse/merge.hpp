// Joining two nests (nest.hpp) into one: find how the dimensions of one correspond to those of the other through a
// value that both touch, then prove that every value passed inside the result is read where it is written. It decides
// only what is possible; what is worth doing and what the order of ops allows is fusion.cpp's business.
#pragma once

#include <optional>

#include "core/kernel/fuse/nest.hpp"

namespace crucible::kernel {

/// One group that does the work of both, or nothing when no correspondence of dimensions holds for all shared values.
/// Groups of a single element need no shared value.
std::optional<Group> merge_groups(const Group& a, const Group& b);

/// True where merge_groups() would give put_together() of the two: nothing has to be copied to find that out. Most
/// groups of large programs are such, and grow member by member.
bool fit_as_they_are(const Group& a, const Group& b);
/// One group of the members of two that have the same dimensions.
Group put_together(Group a, Group b);

/// The finest common division of two lists of sizes with equal products, outermost first: [6, 4] and [3, 8] are
/// [3, 2, 4]. Nothing when a size of one does not divide as the other asks.
std::optional<std::vector<std::int64_t>> common_division(const std::vector<std::int64_t>& a,
                                                         const std::vector<std::int64_t>& b);

}  // namespace crucible::kernel
