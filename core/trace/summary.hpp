// What a recording amounts to: counts, bytes by role, and how many scalar arguments change between iterations.
// Used by `crucible trace info` and `crucible record`. The lowering decides for itself what becomes a slot; the number
// here is the recording's own, before any op has a meaning.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/trace/trace.hpp"

namespace crucible::trace {

inline constexpr std::array kRoles = {Role::kParameter, Role::kBuffer, Role::kOptimizerState, Role::kInput,
                                      Role::kUnknown};

/// "parameter", "buffer", "optimizer_state", "input", "unknown".
std::string_view name(Role role);
/// "forward", "backward", "optimizer".
std::string_view name(Phase phase);

struct Summary {
  struct Externals {
    std::uint64_t count = 0, size_bytes = 0;
  };
  std::uint32_t iterations = 0, complete_iterations = 0;
  std::uint64_t ops = 0;  // in all iterations
  std::vector<std::uint32_t> ops_per_iteration;
  std::uint64_t unique_ops = 0;                      // different schemas among them
  std::array<Externals, kRoles.size()> externals{};  // by Role's number
  std::uint64_t external_bytes = 0;                  // of all externals, equal content counted each time
  std::uint64_t blob_bytes = 0;                      // of all blobs, equal content counted once
  /// Scalar arguments whose value differs between complete iterations at the same place; nothing when it cannot be
  /// told.
  std::optional<std::uint64_t> slots;
  std::string no_slots_reason;  // why `slots` is nothing
};

Summary summarize(const Trace& trace);

}  // namespace crucible::trace
