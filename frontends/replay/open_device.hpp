// From what a caller asks for, files and environment to an opened device: the one way by which everybody gets a
// backend.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "core/base/result.hpp"
#include "core/kernel/ir/numerics.hpp"
#include "frontends/config/settings.hpp"
#include "frontends/replay/device_choice.hpp"
#include "frontends/replay/observer.hpp"
#include "plugins/loader/backend.hpp"

namespace crucible::replay {

/// What the caller - a command line - says about the backend; "" and 0: the other layers of the configuration decide.
struct DeviceChoice {
  std::string backend = {}, device = {}, fallback = {}, numerics = {};
  std::string checkpoint_every = {};  // of a replay: docs/configuration.md
  std::string sandbox = {};           // of the `crucible` command: docs/sandbox.md
  unsigned threads = 0;
  std::vector<std::string> sets = {};  // KEY=VALUE
  std::string config_file = {};        // in the place of the crucible.toml of this folder or one above
  bool explain = false;                // let the observer hear which devices there were and why this one
};

kernel::Numerics numerics_of(const config::Settings& settings);

/// The backend that is no plugin: the reference interpreter inside crucible. `auto` never chooses it.
inline constexpr const char* kReferenceBackend = "reference";
/// The plugin that runs what others cannot.
inline constexpr const char* kFallbackPlugin = "cpu";
inline constexpr const char* kReferenceWords = "reference interpreter, never chosen by auto";

/// A device, and how it came to be this one.
struct OpenedDevice {
  std::shared_ptr<backend::Device> device;  // null: the reference interpreter
  config::Settings settings;
  std::string plugin;                 // the name under which it was found
  std::string asked_for;              // the plugin that could not be used and was replaced; mostly ""
  std::string asked_error;            // why not
  std::vector<Candidate> candidates;  // of a choice among several
};

/// The configuration that the switches are a layer of, checked. Errors: kBadInput, kUsage with every problem.
Result<config::Settings> load_settings(const DeviceChoice& choice, const Observer& observer);
/// The same with the options of the backend that would be opened settled, and without the check.
config::Settings load_unchecked_settings(const DeviceChoice& choice, const Observer& observer);
/// The layers alone: no plugin is asked, nothing is checked or told.
config::Settings read_settings(const DeviceChoice& choice);
/// The backend that the settings choose: a plugin's name, "reference" or "auto".
std::string chosen_backend(const config::Settings& settings);

/// Finds and loads the backend and opens the device. With "auto" all devices are judged for `workload`. When the
/// backend cannot be used, the fallback policy says whether the CPU plugin takes its place; the observer hears it.
/// The backend "reference" gives no device, where `takes_reference` says that the caller can do without one.
/// Errors: kUnavailable and kBadInput when plugin or device cannot be used; those of the configuration; kUsage for the
/// reference interpreter where it makes no sense.
Result<OpenedDevice> open_device(const DeviceChoice& choice, const Observer& observer,
                                 const WorkloadSource& workload = nullptr, bool takes_reference = false);

/// Opens the CPU plugin beside a device that refuses something. Errors: the loader's.
Result<std::shared_ptr<backend::Device>> open_cpu_beside(config::Settings& settings, const Observer& observer);
/// Opens the plugin `torch`, which runs opaque ops, beside another. Errors: the loader's.
Result<std::shared_ptr<backend::Device>> open_torch_beside(config::Settings& settings, const Observer& observer);

/// Loads a plugin whose options are settled and opens its addressed device. Errors: the loader's; kUnavailable when it
/// has no such device.
Result<std::shared_ptr<backend::Device>> open_addressed(config::Settings& settings, const std::string& plugin,
                                                        const DeviceAddress& address, const Observer& observer);

/// The backend that open_device() would use: a plugin's name or "auto".
std::string backend_name(const DeviceChoice& choice);
/// True when some layer names it: then it must be there.
bool is_backend_named(const DeviceChoice& choice);

}  // namespace crucible::replay
