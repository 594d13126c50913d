// The kernel IR as bytes: what crosses the plugin boundary, what a store keeps and what a kernel's name is made of. The
// format is docs/kernel-ir.md; writer and reader are made from one list of each record's fields (serialize.cpp).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "plugins/kernel_ir/kernel_ir.hpp"

namespace crucible::kernel {

inline constexpr std::uint32_t kIrMagic = 0x52494b43u;  // "CKIR"
inline constexpr std::uint16_t kIrMajor = 1, kIrMinor = 5;

/// Why bytes are no kernel.
struct IrFault {
  std::string what;     // what is wrong, with both numbers
  std::string version;  // of bytes of another version of the format: which, as "2.5"; else empty
};

/// Deterministic: equal kernels have equal bytes. Little-endian whatever the machine. Threads: any.
std::vector<std::byte> serialize_ir(const KernelIr& kernel);

/// The kernel that was written, field by field, if it passes check_types() (check.hpp); its bounds are check_bounds()'s
/// question. Bytes are believed nothing: sizes first, then the checksum, then each record. Threads: any. Errors: bytes
/// that are cut, changed, of another version, too large, hold a number that no enumerator has, or are no sound kernel.
std::variant<KernelIr, IrFault> deserialize_ir(std::span<const std::byte> bytes);

/// "1.5"
std::string ir_version(std::uint16_t major = kIrMajor, std::uint16_t minor = kIrMinor);

}  // namespace crucible::kernel
