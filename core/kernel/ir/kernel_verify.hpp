// The verifier of the kernel IR: what every kernel must satisfy before it is printed and compiled for a device.
#pragma once

#include <cstdint>
#include <span>

#include "core/base/result.hpp"
#include "core/kernel/ir/kernel_ir.hpp"

namespace crucible::kernel {

/// Checks that operands and results have the types of their operation, that every variable is defined before and within
/// the block that uses it and only mutable ones are set, that only written buffers are stored to, that exactly one grid
/// loop exists, and, by interval arithmetic over loop bounds, that every access to a buffer of `buffer_elements[i]`
/// elements and to an array is in bounds when the grid has `grid` items.
/// Errors: kInternal, naming the rule and both numbers.
Result<void> verify_kernel(const KernelIr& kernel, std::span<const std::int64_t> buffer_elements, std::int64_t grid);

}  // namespace crucible::kernel
