// The verifier of the kernel IR: what every kernel must satisfy before it is walked, printed or compiled for a device.
// Types and scopes need the kernel alone, and both sides of the plugin boundary ask for them; bounds need the sizes of
// buffers, which only the host knows.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "plugins/kernel_ir/kernel_ir.hpp"

namespace crucible::kernel {

/// "" when the kernel can be walked and printed without further questions, else the rule that it breaks, with both
/// numbers: ids are in range, operands stand before their users and have the types of their operation, every variable
/// is defined before and within the block that uses it and only mutable ones are set, only written buffers are stored
/// to, there is one grid loop, nothing is assumed of numbers from memory or from the launch, and no expression is
/// larger than a compiler takes. Threads: any.
std::string check_types(const KernelIr& kernel);

/// Of a kernel that passed check_types(): "" when, by interval arithmetic over loop bounds, every access to a buffer of
/// `buffer_elements[i]` elements and to an array is in bounds where the grid has `grid` items, else which is not.
/// Threads: any.
std::string check_bounds(const KernelIr& kernel, std::span<const std::int64_t> buffer_elements, std::int64_t grid);

}  // namespace crucible::kernel
