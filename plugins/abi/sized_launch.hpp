// How a host tells a device how large the buffers of a launch are. Only one that asks for it, by the property below, is
// told: behind the kernel's own scalars stand as many more as the launch has buffers, each with the slot below. They
// are no operands of the kernel. The CPU plugin asks when its kernels check their accesses (its option "sanitize").
#pragma once

#include <cstdint>
#include <string_view>

namespace crucible::abi {

inline constexpr std::string_view kSizedLaunchesProperty = "sized_launches";  // "1"

inline constexpr std::uint32_t kBufferBytesSlot = 0xfffffffeu;  // CRUCIBLE_SLOT_NONE is the number above

/// `bits` of such a scalar: the bytes of the buffer, and whether the kernel may write to it.
inline constexpr std::uint64_t kMayWrite = std::uint64_t{1} << 63;
constexpr std::uint64_t buffer_bits(std::uint64_t bytes, bool may_write) { return bytes | (may_write ? kMayWrite : 0); }

}  // namespace crucible::abi
