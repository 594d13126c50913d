// The parts of the behaviour tier.
#pragma once

#include <vector>

#include "plugins/conformance/case.hpp"

namespace crucible::conformance {

std::vector<Case> behaviour_memory_cases();  // behaviour_memory.cpp
std::vector<Case> behaviour_plan_cases();    // behaviour_plan.cpp: kernels, lists, slots, order
std::vector<Case> behaviour_queue_cases();   // behaviour_queue.cpp: queues and timelines
std::vector<Case> behaviour_flight_cases();  // behaviour_flight.cpp: plans in flight
std::vector<Case> behaviour_compile_cases();  // behaviour_compile.cpp
std::vector<Case> behaviour_report_cases();  // behaviour_report.cpp: profile, health, score, self test

}  // namespace crucible::conformance
