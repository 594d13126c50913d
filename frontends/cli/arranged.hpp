// What arranging a schedule in memory decided, as `plan` and `replay` say it.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "runtime/plan/arrange.hpp"

namespace crucible::cli {

struct ArrangedMemory {
  std::uint64_t budget_bytes = 0;  // 0: none was asked for
  std::uint64_t host_bytes = 0;    // of the arena on the host
  runtime::ArrangeReport report = {};
  memory::Certificate certificate = {};

  nlohmann::ordered_json to_json() const;
  /// A line per thing that was done, none for a plan in the recording's order: "order     31 steps moved: ...".
  std::string to_text(std::size_t label_width) const;
};

}  // namespace crucible::cli
