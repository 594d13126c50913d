// What the warps of one block would do on a device, from what its lanes told (warp_program.hpp): lanes that are at the
// same basic block go together, the earliest block in the text first. A model, no simulation of a device: each warp has
// the schedulers for itself, loads of a basic block overlap unless a store or a barrier is between, and a line that one
// of the warp's last 512 was is in the L1.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "tests/emulators/core/lane_words.hpp"
#include "tests/emulators/ptx/warp_program.hpp"

namespace crucible::emulators::ptx {

/// Where global memory is taken to be: two clocks run beside each other.
enum class MemoryLevel : std::uint8_t { kL2, kDram };
inline constexpr std::array<double, 2> kMemoryLatency = {270, 800};  // by MemoryLevel, cycles

/// Of warps; a request is an instruction of a warp that moves something.
struct WarpCounts {
  double instructions = 0;  // weighted: cycles of a scheduler
  double lane_use = 0;      // the same, times the part of the lanes that was there
  double load_requests = 0, store_requests = 0, load_sectors = 0, store_sectors = 0;  // global memory, 32 bytes
  double load_bytes = 0, store_bytes = 0;                                             // of all lanes
  double l1_sectors = 0;  // loads that did not leave the multiprocessor
  double atomic_requests = 0, atomic_sectors = 0;
  double wide_requests = 0;  // of loads and stores: 16 bytes by lane
  double shared_requests = 0, shared_wavefronts = 0;
  double local_requests = 0, local_sectors = 0;
  double shuffles = 0, barriers = 0, warp_barriers = 0;
  WarpCounts& operator+=(const WarpCounts& other);
  WarpCounts operator*(double factor) const;
};

struct BlockCounts {
  WarpCounts counts;                         // of all its warps
  std::array<double, 2> cycles = {0, 0};     // by MemoryLevel: until its last warp has issued everything
  std::vector<std::uint64_t> read, written;  // sectors of global memory, sorted, each once
  bool complete = true;                      // false when the lanes said too much, or what no kernel does
};

/// Threads: any.
BlockCounts count_block(const WarpProgram& program, const emulator::LaneWords& words);

}  // namespace crucible::emulators::ptx
