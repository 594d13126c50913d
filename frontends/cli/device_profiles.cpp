// Profiles of the configuration over the built-in ones: see device_profiles.hpp.
#include "frontends/cli/device_profiles.hpp"

#include <fmt/format.h>

#include <map>

#include "frontends/cli/command.hpp"
#include "frontends/config/suggest.hpp"

namespace crucible::cli {
namespace {

constexpr std::string_view kTable = "device_profile.";

/// The number of a profile that a key of the configuration names; null: it is no number.
std::uint64_t* number_of(runtime::DeviceProfile& profile, std::string_view key) {
  if (key == "memory_bytes") return &profile.memory_bytes;
  if (key == "reserved_bytes") return &profile.reserved_bytes;
  if (key == "memory_bytes_per_second") return &profile.memory_bytes_per_second;
  if (key == "f32_flops_per_second") return &profile.f32_flops_per_second;
  if (key == "host_link_bytes_per_second") return &profile.host_link_bytes_per_second;
  return nullptr;
}

std::string rate(std::uint64_t per_second, const char* unit) {
  return per_second == 0 ? "-" : fmt::format("{:.4g} {}", static_cast<double>(per_second) / 1e9, unit);
}

}  // namespace

Result<std::vector<runtime::DeviceProfile>> device_profiles(const config::Settings& settings) {
  std::map<std::string, runtime::DeviceProfile> profiles;
  for (const runtime::DeviceProfile& profile : runtime::built_in_profiles()) profiles[profile.name] = profile;
  for (const auto& [key, setting] : settings.all()) {
    if (!key.starts_with(kTable)) continue;
    const std::size_t dot = key.rfind('.');
    const std::string name = key.substr(kTable.size(), dot - kTable.size());
    runtime::DeviceProfile& profile = profiles[name];
    if (profile.source.empty() || profile.name.empty()) profile.source = "configuration";
    profile.name = name;
    if (std::uint64_t* number = number_of(profile, key.substr(dot + 1))) {
      *number = static_cast<std::uint64_t>(settings.number(key));
    } else {
      profile.source = settings.text(key);
    }
  }
  std::vector<runtime::DeviceProfile> all;
  for (auto& [name, profile] : profiles) {
    if (profile.memory_bytes == 0) {
      return Error{ErrorCode::kBadInput,
                   fmt::format("device_profile.{0} has no memory_bytes: write how much memory {0} has", name)};
    }
    if (profile.usable_bytes() == 0) {
      return Error{ErrorCode::kBadInput, fmt::format("device_profile.{} keeps back {} of {} bytes: nothing is left",
                                                     name, profile.reserved_bytes, profile.memory_bytes)};
    }
    all.push_back(std::move(profile));
  }
  return all;
}

Result<runtime::DeviceProfile> choose_profile(const std::vector<runtime::DeviceProfile>& profiles,
                                              const std::string& name) {
  if (const runtime::DeviceProfile* found = runtime::find_profile(profiles, name)) return *found;
  std::vector<std::string> names;
  std::string hint;
  for (const runtime::DeviceProfile& profile : profiles) {
    names.push_back(profile.name);
    if (hint.empty() && !name.empty() && profile.name.starts_with(name))
      hint = fmt::format("; did you mean '{}'?", profile.name);
  }
  if (hint.empty()) hint = config::did_you_mean(name, names);
  return Error{ErrorCode::kUsage,
               fmt::format("no device profile is called '{}'{} `crucible devices --profiles` lists them, and "
                           "[device_profile.NAME] in crucible.toml adds one",
                           name, hint.empty() ? ";" : hint)};
}

std::string profiles_text(const std::vector<runtime::DeviceProfile>& profiles) {
  std::vector<std::vector<std::string>> rows = {
      {"profile", "memory", "usable", "bandwidth", "f32", "host link", "source"}};
  for (const runtime::DeviceProfile& profile : profiles) {
    rows.push_back({profile.name, format_bytes(profile.memory_bytes), format_bytes(profile.usable_bytes()),
                    rate(profile.memory_bytes_per_second, "GB/s"), rate(profile.f32_flops_per_second / 1000, "TF/s"),
                    rate(profile.host_link_bytes_per_second, "GB/s"), profile.source});
  }
  return format_table(rows);
}

nlohmann::ordered_json profiles_json(const std::vector<runtime::DeviceProfile>& profiles) {
  nlohmann::ordered_json rows = nlohmann::ordered_json::array();
  for (const runtime::DeviceProfile& profile : profiles) {
    rows.push_back({{"name", profile.name},
                    {"memory_bytes", profile.memory_bytes},
                    {"reserved_bytes", profile.reserved_bytes},
                    {"memory_bytes_per_second", profile.memory_bytes_per_second},
                    {"f32_flops_per_second", profile.f32_flops_per_second},
                    {"host_link_bytes_per_second", profile.host_link_bytes_per_second},
                    {"source", profile.source}});
  }
  return rows;
}

}  // namespace crucible::cli
