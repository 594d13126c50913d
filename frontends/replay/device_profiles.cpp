// Who says what of a device, weakest first: what is compiled in, the user's folder, the configuration. See
// device_profiles.hpp.
#include "frontends/replay/device_profiles.hpp"

#include <fmt/format.h>

#include <array>
#include <charconv>
#include <map>

#include "frontends/config/profile_file.hpp"
#include "frontends/config/suggest.hpp"

namespace crucible::replay {
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
      profile.figures.insert_or_assign(std::string(figure),
                                       hardware::Figure{.value = static_cast<double>(settings.number(key)),
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
    if (key == "threads" && std::from_chars(value.data(), value.data() + value.size(), threads).ec == std::errc())
      return threads;
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

}  // namespace crucible::replay
