// Who shares memory with whom does not matter to an iteration that only reads it: a sample that is drawn twice, a state
// that is the next one of another step. Such a storage gets a name for each part that it plays, so that iterations
// which differ in nothing else are of one group.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "frontends/aten/recording/align.hpp"

namespace crucible::aten {

struct Separated {
  trace::Trace trace;  // with storages and tensors behind those of the recording, and ops that name them
  std::shared_ptr<const std::vector<trace::StorageId>> origins;  // by storage: the recording's
};

/// `groups` are those of the recording as it is. What an iteration writes, makes, gives back or calls backward on keeps
/// its name, and so do parts of compound tensors. Nothing where no group would become another's.
std::optional<Separated> separate_shared(const trace::Trace& trace, const std::vector<Alignment>& groups);

/// Whether an iteration of the group writes what it has two names for, which separate_shared() did not see.
bool writes_shared(const Alignment& group, const std::vector<trace::StorageId>& written);

}  // namespace crucible::aten
