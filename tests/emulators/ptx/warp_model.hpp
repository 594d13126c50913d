// How long an H100 would take for a launch, from what the warps of some of its blocks did: 2 us and the longest of
//   latency   rounds of resident warps x the cycles of the longest warp that was looked at
//   issue     instructions over four a cycle and multiprocessor
//   shared    wavefronts of shared memory over one a cycle and multiprocessor
//   l2        sectors that left the multiprocessors over the L2's rate
//   memory    the bytes that have to move over the rate of the memory, or of the L2 where everything fits into it
// A model for comparing kernels, not a measurement: bandwidth-bound launches take 1.2 to 2 times as long on hardware.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "tests/emulators/ptx/warp_counter.hpp"

namespace crucible::emulators::ptx {

struct WarpLaunch {
  std::uint64_t blocks = 1;
  std::uint32_t threads = 32;      // of a block
  std::uint32_t registers = 32;    // of a thread
  std::uint32_t shared_bytes = 0;  // of a block
};

/// Blocks to look at: the first, the one in the middle, the last; fewer of a small grid.
std::vector<std::uint64_t> sampled_blocks(std::uint64_t blocks);

struct ModelledTime {
  double us = 0;        // with the launch
  double bound_us = 0;  // the least that the bytes take
  double factor = 0;    // us without the launch over max(bound_us, 1)
  const char* longest = "";
  double latency_us = 0, issue_us = 0, shared_us = 0, l2_us = 0;
};

/// A launch as a whole.
struct LaunchCounts {
  WarpCounts counts;
  std::uint64_t warps = 0, resident_warps = 0;  // resident: on the whole device at once
  double warps_per_multiprocessor = 0;
  double rounds = 0;                           // waves of blocks
  double multiprocessors = 0, schedulers = 0;  // that have something to do
  std::array<double, 2> cycles = {0, 0};       // by MemoryLevel, of the longest block looked at
  double distinct_bytes = 0;                   // read, and written; an estimate unless all blocks were looked at
  bool complete = true;
  double moved_bytes() const;     // sectors
  double bytes_per_lane() const;  // of a request to global memory
  /// `least_bytes`: what has to move; 0: distinct_bytes.
  ModelledTime time(MemoryLevel level, double least_bytes = 0) const;
};

/// `sampled` are those of sampled_blocks(), in its order. The last stands for itself, the others for the rest.
LaunchCounts extrapolate(const WarpLaunch& launch, const std::vector<BlockCounts>& sampled);

/// {"warps": ..., ...}: everything above as JSON.
std::string to_json(const LaunchCounts& launch);

}  // namespace crucible::emulators::ptx
