// What this build calls itself where it says so: `crucible --version`, records of runs.
#pragma once

namespace crucible {

inline constexpr const char* kNameAndVersion = "crucible 0.1.0";

}  // namespace crucible
