// The list of the behaviour tier, from its parts.
#include "plugins/conformance/behaviour_cases.hpp"

namespace crucible::conformance {

std::vector<Case> behaviour_cases() {
  std::vector<Case> all;
  for (auto* part : {behaviour_memory_cases, behaviour_plan_cases, behaviour_queue_cases, behaviour_flight_cases,
                     behaviour_compile_cases, behaviour_report_cases}) {
    for (Case& entry : part()) all.push_back(std::move(entry));
  }
  return all;
}

}  // namespace crucible::conformance
