#include "runtime/run/device_identity.hpp"

#include <fmt/format.h>

#include <utility>

#include "plugins/kernel_ir/math_prelude.hpp"

namespace crucible::runtime {

store::ActionKey key_about(const backend::Device& device, std::string kind, kernel::Numerics numerics) {
  store::ActionKey key{.kind = std::move(kind),
                       .region = {},
                       .target = device.info().name,
                       .numerics = numerics == kernel::Numerics::kStrict ? "strict" : "fast",
                       .toolchain = fmt::format("{} {}, {}", device.backend().name(), device.backend().version(),
                                                kernel::math_identity()),
                       .options = {},
                       .specialisation = {}};
  if (const auto properties = device.properties()) {
    for (const auto& [name, text] : *properties) {
      std::string unique = name;  // notes may have one name
      for (int i = 2; key.options.contains(unique); ++i) unique = fmt::format("{} {}", name, i);
      key.options.emplace(unique, text);
    }
  }
  return key;
}

}  // namespace crucible::runtime
