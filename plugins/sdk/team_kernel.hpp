// Work items that a team of threads does together: threads that run in step, a warp or a wave. A kernel's vector loops
// are dealt out to the team's lanes, so that neighbouring lanes touch neighbouring elements; all else every lane
// computes alike, and one of them stores. Arrays of the kernel lie in memory that the team shares.
//
// It is a way to run a kernel, no other kernel: nothing of the order in which a float is computed changes, except in
// sums whose order the kernel leaves free (see LoopMode::kVector).
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <vector>

#include "plugins/sdk/kernel_ir.hpp"

namespace crucible::sdk {

/// A variable from outside that all turns of a loop update by one operation.
struct TeamReduction {
  std::uint32_t variable = 0;
  Op op = Op::kAdd;
};

/// How a thread does the turns of a loop of which it has several: `width` neighbours at once, from `steps` groups of
/// them. What `loads` read is loaded for all of them before anything is computed, `stores` are done behind that, both
/// by accesses of up to 16 bytes. A vector loop promises that its turns may be mixed so, and items are independent.
struct WideLoop {
  std::uint32_t width = 1, steps = 1;
  std::map<std::uint32_t, std::uint32_t> loads;  // expressions, each with the elements of one access
  std::map<const Stmt*, std::uint32_t> stores;
  bool operator==(const WideLoop&) const = default;
};

/// An array that is no memory: a lane keeps the elements of its own turns in registers, as many as said here, and gives
/// them to others by shuffles. Element i belongs to lane i / width % lanes.
struct LaneArray {
  std::uint32_t elements = 1, width = 1;
};

struct Team {
  std::uint32_t lanes = 1;  // threads of a team; 1: each thread does its own items
  // How many groups of threads that run in step a team is. More than one: a block is one team, whose groups meet each
  // other by Dialect::meet_all and join by memory that the block shares.
  std::uint32_t warps = 1;
  std::uint32_t most = 1;                                   // teams of a block, as the arrays leave
  std::map<const Stmt*, std::vector<TeamReduction>> dealt;  // vector loops whose turns are dealt out to the lanes
  // Statements outside of these, and dealt loops, before and after which the lanes have to meet, because they may touch
  // what another lane writes or reads.
  std::set<const Stmt*> meets;
  std::set<Type> joined;  // of the variables that lanes join: for each an array with an element per lane
  std::map<std::uint32_t, LaneArray> registers;
  std::map<const Stmt*, WideLoop> wide;  // dealt loops, and the grid's where a thread does an item alone
};

/// Threads of a block, at most: a compiler that knows it gives each thread more registers.
inline constexpr std::uint32_t kMostBlockThreads = 256;

/// What a block's arrays take of the memory that its threads share, at most. A multiprocessor has room for several such
/// blocks.
inline constexpr std::uint32_t kTeamSharedBytes = 32 * 1024;

/// The team for `kernel` on a device whose threads run in step by `lanes`, a power of two. One thread where a team
/// would be in the way: the kernel has no vector loop, or short ones alone; work outside of them that only one lane
/// could do; a form that cannot be dealt out; arrays beyond what threads of a block share. Pointers are into `kernel`,
/// which has to stay as it is. `shuffles`: lanes join without memory.
Team plan_team(const Kernel& kernel, std::uint32_t lanes, bool shuffles = false);

/// The same for a language whose threads can tell each other numbers and load several at once (Dialect::meet): joins
/// and arrays without shared memory where that is possible, wide loops. Where all loops are long, a block does an item.
/// With one lane: the grid's wide loop alone.
Team plan_threads(const Kernel& kernel, std::uint32_t lanes);

}  // namespace crucible::sdk
