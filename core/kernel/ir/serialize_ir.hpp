// The kernel IR as bytes: what crosses the plugin boundary and what a store keeps. The format is docs/kernel-ir.md; the
// reader of plugins is their own (plugins/sdk/kernel_ir.hpp) and shares no code with this one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "core/base/result.hpp"
#include "core/kernel/ir/kernel_ir.hpp"

namespace crucible::kernel {

inline constexpr std::uint32_t kIrMagic = 0x52494b43u;  // "CKIR"
inline constexpr std::uint16_t kIrMajor = 1, kIrMinor = 5;

/// Deterministic: equal kernels have equal bytes. Little-endian whatever the machine.
std::vector<std::byte> serialize_ir(const KernelIr& kernel);

/// The kernel that was written, field by field. Checks the form only: whether the kernel makes sense is
/// verify_kernel()'s question, which must be asked of bytes that come from elsewhere. Errors: kBadInput naming what is
/// wrong and both numbers, for bytes that are cut, changed, of another version, too large, or hold a number that no
/// enumerator has.
Result<KernelIr> read_ir(std::span<const std::byte> bytes);

}  // namespace crucible::kernel
