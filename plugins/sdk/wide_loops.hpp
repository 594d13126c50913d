// Which loops of a team, or of single threads, are done by several turns at once, and which of a team's arrays need no
// memory: see WideLoop and Team::registers in team_kernel.hpp, which this fills in.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "plugins/sdk/team_kernel.hpp"

namespace crucible::sdk {

/// Bytes of one access.
inline constexpr std::uint32_t kWideBytes = 16;

/// By buffer: whether one turn may read what another writes, or a pair of buffers may lie on each other.
std::vector<bool> contested_buffers(const Kernel& kernel);

struct WideLoops {
  std::map<const Stmt*, WideLoop> loops;
  std::map<std::uint32_t, LaneArray> registers;
};

/// For a team whose dealt loops are known. The lane of a turn is then turn / width % lanes, in all loops that touch one
/// array alike.
WideLoops widen(const Kernel& kernel, const Team& team);

}  // namespace crucible::sdk
