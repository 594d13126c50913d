// Runs one grid on the processor: blocks on a pool of threads, the threads of a block by turns. A thread's code is
// either resumable (it returns at each meeting and is called again) or runs on a fiber. All lanes of a warp run until
// each waits or has ended; then meetings that are complete take place. When nothing can go on, the meeting is reported
// as divergent. A wild access is caught and reported.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "tests/emulators/core/kernel_abi.h"
#include "tests/emulators/core/lane_words.hpp"
#include "tests/emulators/core/timing.hpp"

namespace crucible::emulator {

enum class Outcome { kDone, kTrap, kDivergentMeeting, kIllegalAddress, kCancelled, kRace };

/// How a kernel's code is entered: exactly one of `thread` and `block` is set.
struct KernelCode {
  int (*thread)(EmuBlock*, EmuThread*) = nullptr;  // one thread, up to its end or its next meeting: EMU_DONE, ...
  void (*block)(EmuBlock*, EmuThread*) = nullptr;  // all threads of a block in one call; for kernels without meetings
  bool fibers = false;                             // `thread` calls block->wait at a meeting instead of returning
  std::uint32_t shared_bytes = 0;                  // static part
  std::uint32_t local_bytes = 0;                   // per thread
  std::uint32_t save_words = 0;                    // per thread of a resumable function
  std::uint32_t warp = 32;                         // 1 to 64
  bool observed = false;                           // the code tells of itself: block->observer has to be there
  bool races = false;                              // of that, accesses to shared memory are judged
  std::string name = {};                           // for what is said of it
  std::function<void()> before_block = {};         // called in the thread that runs the block; may be empty
};

struct Launch {
  std::array<std::uint32_t, 3> grid = {1, 1, 1}, block = {1, 1, 1};
  std::uint32_t dynamic_shared_bytes = 0;
  const char* arguments = nullptr;  // must stay until run_grid() returns
};

inline constexpr std::uint32_t kMaximumBlockThreads = 1024;

/// What a grid of a kernel that tells of itself did.
struct Observed {
  Work work;
  std::string race;  // a line about the first race, of kRace
};

/// Blocks of a grid whose lanes tell what they do, while the others run as ever.
struct Sampling {
  KernelCode code;                    // the same kernel, of a text that tells
  std::vector<std::uint64_t> blocks;  // by number; each once
  bool alone = false;                 // the other blocks do not run
  /// After each of them, one at a time.
  std::function<void(std::uint64_t block, const LaneWords& words)> told;
};

/// Runs all blocks in the order of settings() and returns when none runs any more. Shared memory is filled with 0xCD
/// before each block. `cancel` (may be null) is looked at between turns of a block's threads. What a kernel that tells
/// of itself did is added to `observed` (may be null): work is the same in any order of blocks and on any number of
/// threads. An access to a device address whose tag the code did not strip (a pointer that it read from device memory)
/// is mended once by stripping registers, then tried again: x86-64 only. The signal handler for wild accesses is there
/// only while a grid runs. Threads: any.
Outcome run_grid(const KernelCode& kernel, const Launch& launch, const std::atomic<bool>* cancel = nullptr,
                 Observed* observed = nullptr, const Sampling* sampling = nullptr);

}  // namespace crucible::emulator
