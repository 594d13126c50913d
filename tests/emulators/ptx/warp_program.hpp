// What a kernel is to those who count what warps would do (warp_counter.hpp): its basic blocks, and of each instruction
// what it costs and moves. Costs are of an H100, roughly: SASS instructions that a PTX instruction becomes, with what
// half-rate units take longer, and cycles until its result is there.
//
// A text with Telling::warps has each lane say, in the order in which it does them: kBlockWord with a number when it
// enters a basic block, and at each step that `tells` an address per access, or 0 where the step's guard is false.
#pragma once

#include <cstdint>
#include <vector>

#include "tests/emulators/ptx/syntax.hpp"

namespace crucible::emulators::ptx {

inline constexpr std::uint64_t kBlockWord = 1ull << 63;

/// Cycles.
inline constexpr double kSharedLatency = 30, kL1Latency = 38, kLocalLatency = 40, kShuffleLatency = 24;

struct WarpStep {
  enum class Kind : std::uint8_t {
    kCompute,
    kLoad,
    kStore,
    kAtomic,       // its address is read and written
    kCopy,         // cp.async: two addresses, the shared one first
    kCopyWait,     // until the copies before it have come
    kMatrixLoad,   // ldmatrix: an address for each of 16 bytes
    kShuffle,      // lanes exchange
    kWarpBarrier,  // of one warp
    kBarrier,      // of the block
    kBranch
  };
  Kind kind = Kind::kCompute;
  std::uint8_t tells = 0;          // addresses by lane
  bool is_constant = false;        // kLoad: of what no store changes (.nc)
  std::uint32_t bytes = 0;         // of an access of one lane
  double weight = 0;               // cycles of a scheduler
  double latency = 0;              // of kCompute: cycles until what it writes may be read
  std::vector<int> read, written;  // registers
};

struct WarpProgram {
  std::vector<WarpStep> steps;
  std::vector<std::uint32_t> blocks;  // where basic blocks begin, by number, and behind them the end of all
  std::uint32_t registers = 0;        // by number in `steps`
  /// 32-bit registers that are needed at once, and a few: what ptxas could do with, not what it does.
  std::uint32_t live_registers = 0;
};

/// The cost and kind of an instruction; its registers are the caller's.
WarpStep warp_step(const Instruction& instruction);

}  // namespace crucible::emulators::ptx
