// What scheduling finds out once for all that is equal, and stamps out: which groups are joined (fuse/group_stamps.hpp)
// and what launches look like (launch_stamps.hpp). docs/regions.md, "Stamping".
#pragma once

#include "core/kernel/fuse/group_stamps.hpp"
#include "core/kernel/launch_stamps.hpp"

namespace crucible::kernel {

/// Owned by whoever schedules several programs alike, variants of one for example; a schedule has its own otherwise.
/// All have the same numerics. Threads: one schedule at a time.
struct Stamps {
  /// With `reuse` false everything is found out anew, with the same result: for tests, which compare the two.
  explicit Stamps(bool reuse = true) : groups(reuse), launches(reuse) {}

  GroupStamps groups;
  LaunchStamps launches;
};

}  // namespace crucible::kernel
