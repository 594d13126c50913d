// See mathematics.hpp.
#include "runtime/run/mathematics.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "plugins/kernel_ir/math_prelude.hpp"

namespace crucible::runtime {

Result<void> check_mathematics(const backend::Device& device, kernel::Numerics numerics) {
  if (numerics != kernel::Numerics::kStrict) return {};
  CRUCIBLE_TRY(const backend::Properties properties, device.properties());
  const auto told = std::ranges::find(properties, "math", &std::pair<std::string, std::string>::first);
  if (told != properties.end() && told->second == kernel::math_identity()) return {};
  return Error{
      ErrorCode::kUnavailable,
      fmt::format(
          "strict numerics: device {} of plugin {} {} computes with {}, this host with the mathematics {}, so "
          "their bits may differ: use a plugin that was built with the SDK of this Crucible, or --numerics fast",
          device.info().id, device.backend().name(), device.backend().version(),
          told == properties.end() ? "mathematics that it does not name (property math)"
                                   : fmt::format("the mathematics {}", told->second),
          kernel::math_identity())};
}

}  // namespace crucible::runtime
