// The model behind CRUCIBLE_EMU_TIMING=roofline: how long a device would take at best for work that was counted while
// it ran here. Bytes over the bandwidth, operations over the peak, whichever is longer, and a launch. A bound by a
// device's published rates, no simulation of it: caches between blocks, latencies, how full the device is, and what
// else runs at that time are not in it.
#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "tests/emulators/core/kernel_abi.h"

namespace crucible::emulator {

/// What computes: the vector units by the format that they round to, and the matrix units.
enum class Unit : std::uint8_t {
  kF64 = EMU_F64,
  kF32 = EMU_F32,
  kF16 = EMU_F16,
  kBF16 = EMU_BF16,
  kMatrixF64 = EMU_MATRIX_F64,
  kMatrixTF32 = EMU_MATRIX_TF32,
  kMatrixF16 = EMU_MATRIX_F16,
  kMatrixBF16 = EMU_MATRIX_BF16
};
inline constexpr std::size_t kUnits = EMU_UNITS;

/// What a device can do. Units: bytes and operations per nanosecond, which are GB/s and GFLOP/s.
struct Rates {
  double launch_ns = 0;                   // of one launch, copy or fill inside a plan
  double memory = 0;                      // the device's memory
  double link = 0;                        // to the host and to other devices, one direction
  std::array<double, kUnits> peaks = {};  // by Unit; 0: the device has no such unit
};

/// What was done.
struct Work {
  std::uint64_t memory_bytes = 0;                     // read or written in the device's memory
  std::uint64_t link_bytes = 0;                       // moved over the link
  std::array<std::uint64_t, kUnits> operations = {};  // by Unit
  Work& operator+=(const Work& other);
};

/// Whole nanoseconds, rounded up. Operations of several units count one after the other.
std::uint64_t modelled_ns(const Rates& rates, const Work& work);

/// What an emulated device's name says: "emulated, not a GPU", and whether its times are a model's, so that nothing
/// which was timed under one of the two is taken for the other. And that not all is computed, where only the blocks run
/// that are counted.
std::string emulated_words();

}  // namespace crucible::emulator
