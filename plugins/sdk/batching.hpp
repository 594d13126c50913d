// Which launches of a plan become one (graph_batches.hpp): the option of plugins whose plans have such.
#pragma once

#include <cstdint>
#include <string_view>

#include "plugins/sdk/options.hpp"

namespace crucible::sdk {

/// Where they need not wait for each other: none; those of one kernel; small ones of several kernels as well.
enum class Batching : std::uint8_t { kNone, kSame, kMixed };
inline Batching batching_of(std::string_view option) {
  return option == "none" ? Batching::kNone : option == "mixed" ? Batching::kMixed : Batching::kSame;
}

inline constexpr OptionSpec kBatchesOption = {
    .name = "batches",
    .type = OptionType::kChoice,
    .default_value = "same",
    .choices = "none same mixed",
    .help =
        "which launches that need not wait for each other become one; same: those of one kernel; mixed: small ones "
        "of several kernels as well",
    .from_folder = FromFolder::kHarmless};

}  // namespace crucible::sdk
