// What OpenCL C has beside its preamble where work-items do an item together (team_kernel.hpp): how lanes tell each
// other numbers, and accesses of several elements. For dialects.cpp alone.
#pragma once

#include <string_view>

namespace crucible::sdk {

std::string_view opencl_subgroup_preamble();
std::string_view opencl_group_preamble();

}  // namespace crucible::sdk
