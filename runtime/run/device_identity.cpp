#include "runtime/run/device_identity.hpp"

#include <fmt/format.h>

#include "core/base/hash.hpp"
#include "core/kernel/schedule.hpp"

namespace crucible::runtime {

std::string identity_of(const backend::Device& device) {
  std::string identity =
      fmt::format("{} {}\n{}\n", device.backend().name(), device.backend().version(), device.info().name);
  if (const auto properties = device.properties()) {
    for (const auto& [name, text] : *properties) identity += fmt::format("{}={}\n", name, text);
  }
  const std::string_view prelude = kernel::math_prelude();
  return identity + sha256(std::as_bytes(std::span(prelude.data(), prelude.size()))).hex() + "\n";
}

}  // namespace crucible::runtime
