// The settings of an emulated machine, from the environment: how many devices of which kind, how much memory, in which
// order unordered work is done. One table of variables; a word that is wrong ends the process with a message, because a
// test that runs under other settings than it asked for proves nothing.
#pragma once

#include <cstdint>
#include <expected>
#include <functional>
#include <string>
#include <vector>

namespace crucible::emulator {

/// In which order nodes of a graph and blocks of a grid are visited where nothing prescribes one.
enum class Order { kForward, kReverse, kShuffled };

/// Which times events tell: the emulator's own, or those of the model in timing.hpp. With kWarps they are the
/// emulator's, and what warps would do is counted.
enum class Timing { kOff, kRoofline, kWarps };

struct Settings {
  std::uint64_t devices = 1;        // CRUCIBLE_EMU_DEVICES, 1 to 16
  std::uint64_t memory_mib = 4096;  // CRUCIBLE_EMU_MEMORY_MIB, of each device
  std::vector<std::string> archs;   // CRUCIBLE_EMU_ARCH: a list; the last one holds for all further devices
  std::uint64_t celsius =
      61;                    // CRUCIBLE_EMU_CELSIUS, 0 to 1000: what a device tells of its temperature (telemetry.hpp)
  std::uint64_t watt = 350;  // CRUCIBLE_EMU_WATT, 0 to 10000: and of its power
  std::uint64_t wave = 0;    // CRUCIBLE_EMU_WAVE: 32 or 64; 0: what the architecture has
  std::uint64_t seed = 1;    // CRUCIBLE_EMU_SEED, of Order::kShuffled
  Order order = Order::kForward;  // CRUCIBLE_EMU_ORDER: forward, reverse, shuffled
  std::uint64_t threads = 0;      // CRUCIBLE_EMU_THREADS that run blocks; 0: as many as processors
  bool guard_at_end = false;      // CRUCIBLE_EMU_GUARD: start or end, where an allocation touches its guard page
  std::string faults;             // CRUCIBLE_EMU_FAULTS, see faults.hpp
  std::string log;                // CRUCIBLE_EMU_LOG, a file that gets one line per fired rule
  std::string cache;              // CRUCIBLE_EMU_CACHE, folder of compiled kernels; "": one per user under TMPDIR
  std::string compiler;           // CRUCIBLE_EMU_COMPILER; "": clang-19, else clang
  std::vector<std::string> check_archs;  // CRUCIBLE_EMU_CHECK_ARCH: really compile for these too (AMD)
  std::vector<std::string> without;  // CRUCIBLE_EMU_WITHOUT: features that the devices lack: virtual, pools (NVIDIA)
  std::uint64_t pitch = 0x7fffffff;  // CRUCIBLE_EMU_PITCH: the longest row of a copy that has rows, bytes (NVIDIA)
  bool keep = false;                 // CRUCIBLE_EMU_KEEP=1: texts handed to the compiler are kept in the cache
  /// CRUCIBLE_EMU_EMPTY=1: kernels that are launched do nothing, to measure what is around them; under
  /// CRUCIBLE_EMU_TIMING=warps the blocks that are counted run, and launches that are cheap. Results are wrong then.
  bool empty = false;
  bool races = false;            // CRUCIBLE_EMU_RACES: on or off: kernels that race on shared memory fail (NVIDIA)
  Timing timing = Timing::kOff;  // CRUCIBLE_EMU_TIMING: off, roofline or warps (NVIDIA)
  std::string nvjitlink;  // CRUCIBLE_EMU_NVJITLINK: the file of a library that knows a kernel's registers, for warps
  std::string warps;      // CRUCIBLE_EMU_WARPS: the file that CRUCIBLE_EMU_TIMING=warps writes

  /// The architecture of a device, or `fallback` when none is set.
  std::string arch(std::uint64_t device, const std::string& fallback) const;
};

/// Reads every variable of the table through `lookup` (null: not set). Errors: the variable, its word, the right ones.
std::expected<Settings, std::string> parse_settings(const std::function<const char*(const char*)>& lookup);

/// Those of the environment, read at the first call. A wrong word ends the process. Threads: any.
const Settings& settings();

/// Reads environment, settings and faults again, for tests that try several in one process. No other call may be
/// running.
void reload_environment();

/// "crucible emulator: `message`" on standard error, then abort: for what makes a run meaningless.
[[noreturn]] void give_up(const std::string& message);

}  // namespace crucible::emulator
