// The kernel IR's reader and verifier (plugins/kernel_ir) for the host: what they say, as our errors.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <variant>

#include "core/base/result.hpp"
#include "plugins/kernel_ir/check.hpp"
#include "plugins/kernel_ir/serialize.hpp"

namespace crucible::kernel {

/// deserialize_ir(). Errors: kBadInput.
inline Result<KernelIr> read_ir(std::span<const std::byte> bytes) {
  auto read = deserialize_ir(bytes);
  if (const IrFault* const fault = std::get_if<IrFault>(&read)) return Error{ErrorCode::kBadInput, fault->what};
  return std::get<KernelIr>(std::move(read));
}

/// check_types(), then check_bounds(). Errors: kInternal, naming the rule and both numbers.
inline Result<void> verify_kernel(const KernelIr& kernel, std::span<const std::int64_t> buffer_elements,
                                  std::int64_t grid) {
  std::string broken = check_types(kernel);
  if (broken.empty()) broken = check_bounds(kernel, buffer_elements, grid);
  if (broken.empty()) return {};
  return Error{ErrorCode::kInternal, "kernel IR: " + broken};
}

}  // namespace crucible::kernel
