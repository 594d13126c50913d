// The one rule for the bits of NaN: its sign and payload say nothing. Processors keep those of one operand or the
// other, or make a NaN of their own with either sign, so that two devices which compute the same differ in nothing
// else. Whoever hashes results or counts equal bits (replay, compare, bench, self-tests) asks here. docs/numerics.md,
// "NaN", is the contract.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "core/base/dtype.hpp"

namespace crucible {

/// Each NaN becomes the quiet one without sign and payload: 0x7e00, 0x7fc0, 0x7fc00000 or 0x7ff8000000000000, also in
/// the parts of complex numbers. Other dtypes stay as they are. Shapes: `elements` are whole ones. Returns whether
/// anything changed.
bool canonicalize_nan(DType dtype, std::span<std::byte> elements);

/// The elements with canonical NaN: themselves where there is none, else a copy in `storage`.
std::span<const std::byte> with_canonical_nan(DType dtype, std::span<const std::byte> elements,
                                              std::vector<std::byte>& storage);

/// As many bytes and, one NaN being like another, the same.
bool same_bits(DType dtype, std::span<const std::byte> a, std::span<const std::byte> b);

}  // namespace crucible
