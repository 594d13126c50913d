// `crucible devices`: what is here. A plugin that cannot be used is shown with its reason, and does not keep the others
// from being shown.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>

#include "core/base/terminal.hpp"
#include "frontends/cli/calibrate_device.hpp"
#include "frontends/cli/command.hpp"
#include "frontends/cli/device_health.hpp"
#include "frontends/cli/device_profile_tables.hpp"
#include "frontends/cli/plugin_words.hpp"
#include "frontends/cli/self_test_device.hpp"
#include "frontends/cli/switches.hpp"
#include "frontends/cli/terminal_observer.hpp"
#include "frontends/replay/device_profiles.hpp"
#include "frontends/replay/open_device.hpp"
#include "frontends/replay/plugin_access.hpp"
#include "plugins/loader/backend.hpp"

namespace crucible::cli {
namespace {

using nlohmann::ordered_json;

/// A device with what it says of itself, and the verdict of `crucible health`.
struct InspectedDevice {
  backend::DeviceInfo info;
  backend::Properties properties;
  hardware::HealthVerdict health = hardware::HealthVerdict::kUnknown;
};

/// A plugin and its devices, or why it cannot be used.
struct Inspected {
  backend::FoundBackend found;
  std::string vendor, version;
  std::optional<Error> problem;
  bool is_misconfigured = false;
  std::vector<InspectedDevice> devices;
};

/// Opens every device for what it says of itself: notes on what is missing are known only then.
Result<void> inspect(config::Settings& settings, std::span<const hardware::DeviceProfile> profiles, Inspected& plugin) {
  const std::size_t known = settings.problems().size();
  settle_options(settings, plugin.found.name, terminal());
  const Result<void> options = settings.check(known);
  plugin.is_misconfigured = !options;
  CRUCIBLE_TRY_VOID(options);
  CRUCIBLE_TRY(const std::shared_ptr<backend::Backend> backend, load_plugin(settings, plugin.found.name, terminal()));
  plugin.vendor = backend->vendor();
  plugin.version = backend->version();
  CRUCIBLE_TRY(const auto infos, backend->devices());
  for (const backend::DeviceInfo& info : infos) {
    CRUCIBLE_TRY(const auto device, backend->open(info.id));
    CRUCIBLE_TRY(auto properties, device->properties());
    const DeviceHealth health = device_health(*backend, plugin.found.name, info, profiles);
    plugin.devices.push_back({info, std::move(properties), health.judgement.verdict});
  }
  return {};
}

Result<std::vector<Inspected>> inspect_all(config::Settings& settings) {
  CRUCIBLE_TRY(const std::vector<hardware::DeviceProfile> profiles, device_profiles(settings));
  std::vector<Inspected> plugins;
  for (backend::FoundBackend& found : list_plugins(settings)) {
    Inspected& plugin = plugins.emplace_back();
    plugin.found = std::move(found);
    if (const Result<void> result = inspect(settings, profiles, plugin); !result) plugin.problem = result.error();
  }
  for (backend::Decision& decision : passed_over(settings)) {
    Inspected& plugin = plugins.emplace_back();
    plugin.found = {std::move(decision.plugin), std::move(decision.path)};
    plugin.problem = Error{ErrorCode::kUnavailable, std::move(decision.reason)};
  }
  return plugins;
}

ordered_json device_json(const Inspected& plugin, const InspectedDevice& inspected) {
  const backend::DeviceInfo& info = inspected.info;
  ordered_json device = {{"backend", plugin.found.name},
                         {"id", info.id},
                         {"name", info.name},
                         {"kind", info.kind},
                         {"threads", info.threads},
                         {"memory_bytes", info.memory_bytes},
                         {"emulated", info.emulated},
                         {"health", hardware::name(inspected.health)}};
  if (!info.uuid.empty()) device["uuid"] = info.uuid;
  if (!info.pci.empty()) device["pci"] = info.pci;
  device["properties"] = ordered_json::object();
  for (const auto& [key, value] : inspected.properties) device["properties"][key] = value;
  return device;
}

void print_devices(const std::vector<Inspected>& plugins) {
  std::vector<std::vector<std::string>> rows = {{"backend", "device", "name", "threads", "memory", "health"}};
  std::string notes;
  for (const Inspected& plugin : plugins) {
    for (const auto& [info, properties, health] : plugin.devices) {
      rows.push_back({plugin.found.name, info.id, info.name, std::to_string(info.threads),
                      format_bytes(info.memory_bytes), std::string(hardware::name(health))});
      if (info.emulated) notes += fmt::format("  {} is emulated: --backend auto never chooses it\n", info.id);
      if (!info.uuid.empty()) notes += fmt::format("  {} uuid: {}\n", info.id, info.uuid);
      if (!info.pci.empty()) notes += fmt::format("  {} pci: {}\n", info.id, info.pci);
      for (const auto& [key, value] : properties) notes += fmt::format("  {} {}: {}\n", info.id, key, value);
    }
    if (!plugin.problem) continue;
    const PluginState state = plugin.is_misconfigured
                                  ? misconfigured_state(*plugin.problem)
                                  : refused_state(*plugin.problem, plugin.found.name, plugin.found.path);
    notes += fmt::format("  {} is {}: {} (crucible plugin explain {})\n", plugin.found.name, state.word, state.why,
                         plugin.found.name);
  }
  print_out("{}\n{}  {}: {} (crucible replay FILE --backend {})\n", format_table(rows), notes, kReferenceBackend,
            kReferenceWords, kReferenceBackend);
}

Result<int> run_devices(bool json) {
  CRUCIBLE_TRY(config::Settings settings, load_settings({}, terminal()));
  CRUCIBLE_TRY(const std::vector<Inspected> plugins, inspect_all(settings));
  ordered_json document = {{"devices", ordered_json::array()}, {"problems", ordered_json::array()}};
  for (const Inspected& plugin : plugins) {
    for (const InspectedDevice& device : plugin.devices) document["devices"].push_back(device_json(plugin, device));
    if (plugin.problem) {
      document["problems"].push_back(ordered_json{{"backend", plugin.found.name}, {"reason", plugin.problem->message}});
    }
  }
  document["built_in"] = {{{"backend", kReferenceBackend}, {"name", kReferenceWords}}};
  if (json) {
    print_json(document);
  } else {
    print_devices(plugins);
  }
  return document["devices"].empty() ? exit_code(ErrorCode::kUnavailable) : 0;
}

/// Devices that need not be here: what `crucible plan --device-profile` can be asked about.
Result<int> run_profiles(bool json) {
  CRUCIBLE_TRY(const config::Settings settings, load_settings({}, terminal()));
  CRUCIBLE_TRY(const std::vector<hardware::DeviceProfile> profiles, device_profiles(settings));
  if (json) {
    print_json({{"device_profiles", profiles_json(profiles)}});
  } else {
    print_out("{}", profiles_text(profiles));
  }
  return 0;
}

/// Every figure of one profile. A file's path is taken too, so this also tells what is wrong with a file.
Result<int> run_profile(const std::string& name, bool json) {
  CRUCIBLE_TRY(const config::Settings settings, load_settings({}, terminal()));
  CRUCIBLE_TRY(const std::vector<hardware::DeviceProfile> profiles, device_profiles(settings));
  CRUCIBLE_TRY(const hardware::DeviceProfile profile, choose_profile(profiles, name));
  if (json) {
    print_json(profiles_json({profile})[0]);
  } else {
    print_out("{}: {}\nsource: {}{}{}\n{}", profile.name, profile.description, profile.source,
              profile.date.empty() ? "" : ", ", profile.date, profile_text(profile));
  }
  return 0;
}

}  // namespace

void add_devices(Commands& commands) {
  struct Switches {
    bool json = false, profiles = false, calibrate = false, self_test = false, all_patterns = false;
    std::string profile;
    CalibrateSwitches calibration;
  };
  auto switches = std::make_shared<Switches>();  // shared with the callbacks, which run after this function
  CLI::App* devices = add_subcommand(
      commands.app, "devices", "The devices that can be replayed on, and what is missing.", "crucible devices --json");
  devices->add_flag("--json", switches->json, "One JSON document on standard output");
  devices->add_flag("--profiles", switches->profiles,
                    "Instead the device profiles that crucible plan --device-profile takes");
  devices
      ->add_option("--profile", switches->profile,
                   "Instead every figure of this device profile, with where it is from: a name or a file")
      ->excludes("--profiles");
  CLI::Option* calibrate =
      devices->add_flag("--calibrate", switches->calibrate,
                        "Measure the device with generated kernels and write its profile where later commands find it");
  calibrate->excludes("--profiles")->excludes("--profile");
  devices
      ->add_flag("--self-test", switches->self_test,
                 "Compute every function and rule of strict numerics on 2^22 bit patterns and compare the hashes")
      ->excludes(calibrate)
      ->excludes("--profiles")
      ->excludes("--profile");
  devices
      ->add_flag(
          "--all-patterns", switches->all_patterns,
          "With --self-test: the functions of one operand on each of the 2^32 patterns of a float (about an hour)")
      ->needs("--self-test");
  add_device_switches(*devices, switches->calibration.device);
  devices
      ->add_option("--threads", switches->calibration.device.threads,
                   "Threads of a CPU backend (default: $CRUCIBLE_THREADS, then as many as pay)")
      ->check(CLI::Range(1u, 1000000u));
  devices->add_option("-o,--output", switches->calibration.output,
                      "The file that gets the profile (default: in the user's folder, docs/configuration.md)");
  devices->add_flag("--anew", switches->calibration.anew,
                    "With --calibrate: measure, although the store has what was measured of this device before");
  devices
      ->add_option("--rounds", switches->calibration.rounds,
                   "Rounds of each measurement; the median of the better half is kept (default 15)")
      ->check(CLI::Range(1u, 1000u));
  devices->add_option("--largest", switches->calibration.largest_mib, "The largest working set, in MiB (default 256)")
      ->check(CLI::Range(1u, 65536u));
  for (const char* name : {"--output", "--rounds", "--largest", "--anew"}) devices->get_option(name)->needs(calibrate);
  devices->callback([&commands, devices, switches] {
    commands.run = [devices, switches]() -> Result<int> {
      if (switches->calibrate) return calibrate_device(switches->calibration, switches->json);
      if (switches->self_test)
        return self_test_device(switches->calibration.device, switches->all_patterns, switches->json);
      for (const char* name : {"--backend", "--device", "--fallback", "--set", "--explain", "--threads"}) {
        if (devices->get_option(name)->count() > 0)
          return Error{ErrorCode::kUsage, fmt::format("{} requires --calibrate or --self-test", name)};
      }
      if (!switches->profile.empty()) return run_profile(switches->profile, switches->json);
      return switches->profiles ? run_profiles(switches->json) : run_devices(switches->json);
    };
  });
}

}  // namespace crucible::cli
