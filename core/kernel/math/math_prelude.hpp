// The parts of math_prelude() (schedule.hpp) that have a file of their own.
#pragma once

#include <string_view>

namespace crucible::kernel {

/// C text of the float64 functions; stands behind the float32 part, whose conversions it uses.
std::string_view math_prelude_f64();
/// The functions of functions.hpp; they call those of math_prelude_f64().
std::string_view math_functions();

}  // namespace crucible::kernel
