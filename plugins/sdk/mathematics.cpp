// The text that the host has as well: see mathematics.hpp.
#include "plugins/sdk/mathematics.hpp"

#include "plugins/kernel_ir/math_prelude.hpp"

namespace crucible::sdk {

std::string math_text(const Dialect& dialect) {
  if (dialect.preamble.empty()) return std::string(kernel::math_prelude());
  return std::string(dialect.preamble) + std::string(kernel::math_prelude_body());
}

std::string_view math_functions() { return kernel::math_prelude_body(); }

std::string_view math_identity() { return kernel::math_identity(); }

}  // namespace crucible::sdk
