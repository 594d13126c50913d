// The parts of the api tier that stand in files of their own.
#pragma once

#include <vector>

#include "plugins/conformance/case.hpp"

namespace crucible::conformance {

std::vector<Case> api_optional_cases();  // api_optional.cpp: tables that a plugin may lack
std::vector<Case> api_teardown_cases();  // api_teardown.cpp: ends, in every order

}  // namespace crucible::conformance
