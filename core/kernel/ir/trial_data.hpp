// What a kernel is tried on: numbers for its buffers that it was not made for but may meet. Indices lie where the
// kernel guards them, floats have full mantissas and some of them are special, and everything follows from a seed.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "core/base/dtype.hpp"
#include "plugins/kernel_ir/kernel_ir.hpp"
#include "core/kernel/ir/touched_memory.hpp"

namespace crucible::kernel {

struct IndexRange {
  std::int64_t low = 0, high = 0;  // both included
  bool operator==(const IndexRange&) const = default;
};

/// Per buffer: where its integers have to lie so that what the kernel guards lies inside or just outside; nothing where
/// any will do. An index that is computed of a loaded number, not the number itself, lies near 0.
std::vector<std::optional<IndexRange>> index_ranges(const KernelIr& kernel);

/// Whether a sum of floats runs through a loop whose passes may come in any order: then two right compilers end with
/// other bits.
bool sums_in_any_order(const KernelIr& kernel);

/// Whether numbers are gathered up over a loop: one infinity among them would hide all others.
bool gathers_up(const KernelIr& kernel);

enum class TrialNumbers : std::uint8_t {
  kSpecial,   // of both signs, one of 32 special: NaN, infinities, zeros, subnormal and huge ones; the ends of integers
  kModerate,  // of both signs, magnitudes from 1/8 to 4
  kPositive,  // the same without signs: logarithms and roots of them are numbers
};

/// The bits, in that type, of the constants that the kernel computes with: where comparisons change their answer.
std::vector<std::uint64_t> constants_as(const KernelIr& kernel, DType type, TrialNumbers kind);

/// Numbers of a type from a seed. Without an index range integers are small, special ones excepted; one in 16 is of
/// `constants`.
TouchedMemory::Fill trial_numbers(DType type, std::uint64_t seed, TrialNumbers kind,
                                  const std::optional<IndexRange>& range, std::vector<std::uint64_t> constants = {});

}  // namespace crucible::kernel
