#include "frontends/replay/arranged.hpp"

#include <nlohmann/json.hpp>

namespace crucible::replay {

nlohmann::ordered_json ArrangedMemory::to_json() const {
  return {{"budget_bytes", budget_bytes == 0 ? nlohmann::ordered_json(nullptr) : nlohmann::ordered_json(budget_bytes)},
          {"bound_as_recorded_bytes", report.bound_as_recorded},
          {"bound_ordered_bytes", report.bound_ordered},
          {"steps_moved", report.moved},
          {"steps_repeated", report.repeats},
          {"repeated_share", report.step_ns > 0 ? report.repeat_ns / report.step_ns : 0},
          {"transfers", report.transfers},
          {"transfer_bytes", report.transfer_bytes},
          {"host_bytes", host_bytes},
          {"certificate", {{"sha256", certificate.digest.hex()}, {"verdict", certificate.verdict}}}};
}

}  // namespace crucible::replay
