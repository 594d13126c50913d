// The mathematics that kernels call: C text of functions, one source for every device, so that strict numerics have the
// same bits everywhere. The text is the SDK's own. A device tells which one it has (property math), and a host that has
// another one does not take it for strict numerics.
#pragma once

#include <string>
#include <string_view>

#include "plugins/sdk/c_dialect.hpp"
#include "plugins/sdk/text.hpp"

namespace crucible::sdk {

/// What stands in front of kernels that were printed in `dialect`: its preamble and the functions.
std::string math_text(const Dialect& dialect);
/// The functions alone, C that begins with CRUCIBLE_FN, for who translates them. Static storage.
std::string_view math_functions();
/// Another one for another text. Static storage.
std::string_view math_identity();

/// What a device that takes kernel IR tells in device.properties.
inline constexpr std::string_view kMathProperty = "math";
inline crucible_kv math_item() { return text_item(kMathProperty, math_identity()); }

}  // namespace crucible::sdk
