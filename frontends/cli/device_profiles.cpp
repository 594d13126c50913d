// Who says what of a device, weakest first: what is compiled in, the user's folder, the configuration. See device_profiles.hpp.
#include "frontends/cli/device_profiles.hpp"

#include <fmt/format.h>

#include <array>
#include <charconv>
#include <map>

#include "frontends/cli/command.hpp"
#include "frontends/config/profile_file.hpp"
#include "frontends/config/suggest.hpp"

namespace crucible::cli {
namespace {

using hardware::DeviceProfile;

constexpr std::string_view kTable = "device_profile.";

/// The figure that a key of the configuration names; "": it is no number.
std::string_view figure_of(std::string_view key) {
  constexpr std::array<std::pair<std::string_view, std::string_view>, 5> kFigures = {{
      {"memory_bytes", "memory.size"},
      {"reserved_bytes", "memory.reserved"},
      {"memory_bytes_per_second", "level.dram.bandwidth"},
      {"f32_flops_per_second", "peak.vector.f32"},
      {"host_link_bytes_per_second", "host_link.bandwidth"},
  }};
  for (const auto& [name, figure] : kFigures) {
    if (name == key) return figure;
  }
  return "";
}

std::string rate(std::uint64_t per_second, const char* unit) {
  return per_second == 0 ? "-" : fmt::format("{:.4g} {}", static_cast<double>(per_second) / 1e9, unit);
}

/// The numbers of the configuration, over what the profile has.
void apply(const config::Settings& settings, std::map<std::string, DeviceProfile>& profiles) {
  for (const auto& [key, setting] : settings.all()) {
    if (!key.starts_with(kTable)) continue;
    const std::size_t dot = key.rfind('.');
    const std::string name = key.substr(kTable.size(), dot - kTable.size());
    DeviceProfile& profile = profiles[name];
    if (profile.source.empty() || profile.name.empty()) profile.source = "configuration";
    profile.name = name;
    const std::string_view figure = figure_of(std::string_view(key).substr(dot + 1));
    if (figure.empty()) {
      profile.source = settings.text(key);
    } else {
      profile.figures.insert_or_assign(std::string(figure), hardware::Figure{.value = static_cast<double>(settings.number(key)),
                                                                             .provenance = hardware::Provenance::kGuessed,
                                                                             .note = "the configuration says so"});
    }
  }
}

}  // namespace

Result<std::vector<DeviceProfile>> device_profiles(const config::Settings& settings) {
  std::map<std::string, DeviceProfile> profiles;
  CRUCIBLE_TRY(const std::vector<DeviceProfile> shipped, config::shipped_profiles());
  for (const DeviceProfile& profile : shipped) profiles[profile.name] = profile;
  CRUCIBLE_TRY(const std::vector<DeviceProfile> own, config::read_profile_folder(config::user_profile_folder()));
  for (const DeviceProfile& profile : own) profiles[profile.name] = profile;
  apply(settings, profiles);
  std::vector<DeviceProfile> all;
  for (auto& [name, profile] : profiles) {
    if (profile.memory_bytes() == 0) {
      return Error{ErrorCode::kBadInput,
                   fmt::format("device_profile.{0} has no memory_bytes: write how much memory {0} has", name)};
    }
    if (profile.usable_bytes() == 0) {
      return Error{ErrorCode::kBadInput, fmt::format("device_profile.{} keeps back {} of {} bytes: nothing is left",
                                                     name, profile.reserved_bytes(), profile.memory_bytes())};
    }
    all.push_back(std::move(profile));
  }
  return all;
}

Result<DeviceProfile> choose_profile(const std::vector<DeviceProfile>& profiles, const std::string& name) {
  if (const DeviceProfile* found = hardware::find_profile(profiles, name)) return *found;
  if (name.find('/') != std::string::npos || name.ends_with(".toml")) return config::read_profile_file(name);
  std::vector<std::string> names;
  std::string hint;
  for (const DeviceProfile& profile : profiles) {
    names.push_back(profile.name);
    if (hint.empty() && !name.empty() && profile.name.starts_with(name))
      hint = fmt::format("; did you mean '{}'?", profile.name);
  }
  if (hint.empty()) hint = config::did_you_mean(name, names);
  return Error{ErrorCode::kUsage,
               fmt::format("no device profile is called '{}'{} `crucible devices --profiles` lists them, and "
                           "[device_profile.NAME] in crucible.toml or a TOML file adds one",
                           name, hint.empty() ? ";" : hint)};
}

std::uint32_t threads_of(const backend::Device& device) {
  const Result<backend::Properties> properties = device.properties();
  if (!properties) return 0;
  for (const auto& [key, value] : *properties) {
    std::uint32_t threads = 0;
    if (key == "threads" && std::from_chars(value.data(), value.data() + value.size(), threads).ec == std::errc()) return threads;
  }
  return 0;
}

Result<std::optional<DeviceProfile>> profile_of_device(const config::Settings& settings, const std::string& name,
                                                       const backend::Device* device) {
  CRUCIBLE_TRY(const std::vector<DeviceProfile> profiles, device_profiles(settings));
  if (!name.empty()) {
    CRUCIBLE_TRY(DeviceProfile chosen, choose_profile(profiles, name));
    return std::optional(std::move(chosen));
  }
  if (device == nullptr) return std::optional<DeviceProfile>();
  const DeviceProfile* found =
      hardware::find_for_device(profiles, device->backend().name(), device->info().name, threads_of(*device));
  return found == nullptr ? std::optional<DeviceProfile>() : std::optional(*found);
}

std::string profiles_text(const std::vector<DeviceProfile>& profiles) {
  std::vector<std::vector<std::string>> rows = {
      {"profile", "memory", "usable", "bandwidth", "f32", "host link", "source"}};
  for (const DeviceProfile& profile : profiles) {
    const std::string source = profile.is_calibrated() ? fmt::format("{}, {}", profile.source, profile.date) : profile.source;
    rows.push_back({profile.name, format_bytes(profile.memory_bytes()), format_bytes(profile.usable_bytes()),
                    rate(profile.memory_bytes_per_second(), "GB/s"), rate(profile.f32_flops_per_second() / 1000, "TF/s"),
                    rate(profile.host_link_bytes_per_second(), "GB/s"), source});
  }
  return format_table(rows);
}

nlohmann::ordered_json figures_json(const DeviceProfile& profile) {
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

nlohmann::ordered_json profiles_json(const std::vector<DeviceProfile>& profiles) {
  nlohmann::ordered_json rows = nlohmann::ordered_json::array();
  for (const DeviceProfile& profile : profiles) {
    rows.push_back({{"name", profile.name},
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

std::string profile_text(const DeviceProfile& profile) {
  std::vector<std::vector<std::string>> rows = {{"figure", "value", "spread", "provenance", "note"}};
  for (const hardware::FigureKey& key : hardware::figure_keys()) {
    const hardware::Figure* figure = profile.find(key.name);
    if (figure == nullptr) continue;
    rows.push_back({std::string(key.name), format_figure(key.quantity, figure->value),
                    figure->spread > 0 ? fmt::format("{:.0f}%", 100 * figure->spread) : "", std::string(name(figure->provenance)),
                    figure->note});
  }
  return format_table(rows);
}

}  // namespace crucible::cli
