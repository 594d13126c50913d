#include "frontends/replay/device_energy.hpp"

#include <cstdint>
#include <string>
#include <string_view>

namespace crucible::replay {

std::optional<double> joules_of(const backend::Device& device) {
  const auto keep = [](void* place, const crucible_kv* items, std::uint32_t count) {
    for (std::uint32_t i = 0; i < count; ++i) {
      const bool is_energy = items[i].type == CRUCIBLE_V_U64 &&
                             std::string_view(items[i].key.data, items[i].key.size) == "energy_microjoule";
      if (is_energy) *static_cast<std::optional<double>*>(place) = static_cast<double>(items[i].u) * 1e-6;
    }
  };
  std::optional<double> joules;
  const std::string& id = device.info().id;
  const Result<void> sampled = backend::to_result(
      device.backend().tables().health.sample({id.data(), id.size()}, keep, &joules), "health.sample");
  return sampled ? joules : std::nullopt;
}

}  // namespace crucible::replay
