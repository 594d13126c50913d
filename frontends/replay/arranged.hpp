// What arranging a schedule in memory decided, for the reports of plans and replays.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "runtime/plan/arrange.hpp"

namespace crucible::replay {

struct ArrangedMemory {
  std::uint64_t budget_bytes = 0;  // 0: none was asked for
  std::uint64_t host_bytes = 0;    // of the arena on the host
  runtime::ArrangeReport report = {};
  memory::Certificate certificate = {};

  nlohmann::ordered_json to_json() const;
};

}  // namespace crucible::replay
