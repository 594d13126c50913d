// See device_profile_tables.hpp.
#include "frontends/cli/device_profile_tables.hpp"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "core/base/figures.hpp"

namespace crucible::cli {
namespace {

std::string rate(std::uint64_t per_second, const char* unit) {
  return per_second == 0 ? "-" : fmt::format("{:.4g} {}", static_cast<double>(per_second) / 1e9, unit);
}

}  // namespace

std::string profiles_text(const std::vector<hardware::DeviceProfile>& profiles) {
  std::vector<std::vector<std::string>> rows = {
      {"profile", "memory", "usable", "bandwidth", "f32", "host link", "source"}};
  for (const hardware::DeviceProfile& profile : profiles) {
    const std::string source =
        profile.is_calibrated() ? fmt::format("{}, {}", profile.source, profile.date) : profile.source;
    rows.push_back({profile.name, format_bytes(profile.memory_bytes()), format_bytes(profile.usable_bytes()),
                    rate(profile.memory_bytes_per_second(), "GB/s"),
                    rate(profile.f32_flops_per_second() / 1000, "TF/s"),
                    rate(profile.host_link_bytes_per_second(), "GB/s"), source});
  }
  return format_table(rows);
}

nlohmann::ordered_json figures_json(const hardware::DeviceProfile& profile) {
  nlohmann::ordered_json figures = nlohmann::ordered_json::object();
  for (const hardware::FigureKey& key : hardware::figure_keys()) {
    const hardware::Figure* figure = profile.find(key.name);
    if (figure == nullptr) continue;
    nlohmann::ordered_json row = {{"value", figure->value}, {"provenance", name(figure->provenance)}};
    if (figure->spread > 0) row["spread"] = figure->spread;
    if (!figure->note.empty()) row["note"] = figure->note;
    figures[std::string(key.name)] = std::move(row);
  }
  return figures;
}

nlohmann::ordered_json profiles_json(const std::vector<hardware::DeviceProfile>& profiles) {
  nlohmann::ordered_json rows = nlohmann::ordered_json::array();
  for (const hardware::DeviceProfile& profile : profiles) {
    rows.push_back(
        {{"name", profile.name},
         {"memory_bytes", profile.memory_bytes()},
         {"reserved_bytes", profile.reserved_bytes()},
         {"memory_bytes_per_second", profile.memory_bytes_per_second()},
         {"f32_flops_per_second", profile.f32_flops_per_second()},
         {"host_link_bytes_per_second", profile.host_link_bytes_per_second()},
         {"source", profile.source},
         {"description", profile.description},
         {"date", profile.is_calibrated() ? nlohmann::ordered_json(profile.date) : nlohmann::ordered_json(nullptr)},
         {"figures", figures_json(profile)}});
  }
  return rows;
}

std::string profile_text(const hardware::DeviceProfile& profile) {
  std::vector<std::vector<std::string>> rows = {{"figure", "value", "spread", "provenance", "note"}};
  for (const hardware::FigureKey& key : hardware::figure_keys()) {
    const hardware::Figure* figure = profile.find(key.name);
    if (figure == nullptr) continue;
    rows.push_back({std::string(key.name), format_figure(key.quantity, figure->value),
                    figure->spread > 0 ? fmt::format("{:.0f}%", 100 * figure->spread) : "",
                    std::string(name(figure->provenance)), figure->note});
  }
  return format_table(rows);
}

}  // namespace crucible::cli
