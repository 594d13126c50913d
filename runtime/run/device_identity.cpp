#include "runtime/run/device_identity.hpp"

#include <fmt/format.h>

#include "plugins/kernel_ir/math_prelude.hpp"

namespace crucible::runtime {

std::string identity_of(const backend::Device& device) {
  std::string identity =
      fmt::format("{} {}\n{}\n", device.backend().name(), device.backend().version(), device.info().name);
  if (const auto properties = device.properties()) {
    for (const auto& [name, text] : *properties) identity += fmt::format("{}={}\n", name, text);
  }
  return fmt::format("{}{}\n", identity, kernel::math_identity());
}

}  // namespace crucible::runtime
