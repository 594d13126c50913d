#include "frontends/replay/open_device.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "frontends/replay/plugin_access.hpp"

namespace crucible::replay {
namespace {

constexpr const char* kOpaquePlugin = "torch";
constexpr const char* kAuto = "auto";

config::Requests requests_of(const DeviceChoice& choice) {
  config::Requests requests;
  const std::pair<const char*, const std::string*> switches[] = {{"backend", &choice.backend},
                                                                 {"device", &choice.device},
                                                                 {"fallback", &choice.fallback},
                                                                 {"numerics", &choice.numerics},
                                                                 {"checkpoint_every", &choice.checkpoint_every},
                                                                 {"sandbox.mode", &choice.sandbox}};
  for (const auto& [key, text] : switches) {
    if (!text->empty()) requests.switches.emplace_back(key, *text);
  }
  requests.sets = choice.sets;
  return requests;
}

config::Layer layer_of(const config::Settings& settings, const std::string& key) {
  return settings.is_said(key) ? settings.find(key)->origin.layer : config::Layer::kBuiltIn;
}

/// `--device acme:1` names a plugin too. The later layer wins; a device of a weaker one is told and left aside.
/// Errors: kUsage when one layer names both and they contradict.
Result<void> reconcile(const config::Settings& settings, const Observer& observer, std::string& plugin,
                       DeviceAddress& address) {
  if (address.kind != DeviceAddress::Kind::kIndex || address.plugin == plugin) return {};
  const config::Layer device = layer_of(settings, "device"), backend = layer_of(settings, "backend");
  const config::Setting& named = *settings.find("device");
  if (device > backend) {
    plugin = address.plugin;
    return {};
  }
  if (plugin == kAuto) return {};
  if (device == backend) {
    return Error{ErrorCode::kUsage,
                 fmt::format("device {} ({}) is not one of backend {} ({}): leave one of them out", address.text,
                             named.origin.place(), plugin, settings.find("backend")->origin.place())};
  }
  observer.tell(Notice::Level::kPlain,
                fmt::format("device {} ({}) is not one of backend {}: the first device of {} is used", address.text,
                            named.origin.place(), plugin, plugin));
  address = {};
  return {};
}

/// The id of the addressed device among those of one plugin; the text itself when there is none, for open() to refuse.
/// Errors: kUnavailable when none has the uuid or the pci address, with those that there are.
Result<std::string> find_device(const backend::Backend& backend, const std::string& plugin,
                                const DeviceAddress& address) {
  if (address.kind == DeviceAddress::Kind::kFirst) return std::string();
  CRUCIBLE_TRY(const std::vector<backend::DeviceInfo> devices, backend.devices());
  const auto exact = std::ranges::find(devices, address.text, &backend::DeviceInfo::id);
  if (exact != devices.end()) return exact->id;
  const bool by_uuid = address.kind == DeviceAddress::Kind::kUuid, by_pci = address.kind == DeviceAddress::Kind::kPci;
  std::string known;
  for (std::size_t index = 0; index < devices.size(); ++index) {
    if (matches(address, plugin, devices[index], index)) return devices[index].id;
    const std::string& mark = by_uuid ? devices[index].uuid : devices[index].pci;
    known += fmt::format("{}{} {}", known.empty() ? "" : ", ", devices[index].id, mark.empty() ? "without one" : mark);
  }
  if (!by_uuid && !by_pci) return address.text;
  return Error{ErrorCode::kUnavailable,
               fmt::format("{} has no device with {} {}: it has {}", plugin, by_uuid ? "uuid" : "pci address",
                           address.text, known.empty() ? "none" : known)};
}

/// Opens the best candidate; one that does not open is refused and the next is tried.
Result<std::shared_ptr<backend::Device>> open_best(std::vector<Candidate>& candidates, std::string& plugin) {
  for (;;) {
    const std::size_t best = best_candidate(candidates);
    if (best == candidates.size()) {
      return Error{ErrorCode::kUnavailable, "no device can be used:\n" + explain(candidates)};
    }
    Result<std::shared_ptr<backend::Device>> device = candidates[best].backend->open(candidates[best].device);
    candidates[best].chosen = static_cast<bool>(device);
    plugin = candidates[best].plugin;
    if (device) return device;
    candidates[best].eligible = false;
    candidates[best].reason = device.error().message;
  }
}

/// Settles the switch --threads and the other options of the plugin that is to be opened.
void settle_chosen(config::Settings& settings, const DeviceChoice& choice, const std::string& plugin,
                   const Observer& observer) {
  if (choice.threads != 0 && plugin != kReferenceBackend) {
    settings.request_option(plugin, "threads", std::to_string(choice.threads), "--threads");
    // Whoever takes over, for one op or for all, gets as many.
    if (plugin != kFallbackPlugin) {
      settings.request_option(kFallbackPlugin, "threads", std::to_string(choice.threads), "--threads");
    }
  }
  settle_options(settings, plugin, observer);
}

/// True when nobody but the choice among all devices can say which plugin it will be.
bool is_open_choice(const config::Settings& settings, const std::string& plugin, const DeviceAddress& address) {
  const bool by_mark = address.kind == DeviceAddress::Kind::kUuid || address.kind == DeviceAddress::Kind::kPci;
  return plugin == kAuto || (by_mark && !settings.is_said("backend"));
}

Result<void> open_choice(OpenedDevice& opened, const DeviceAddress& address, const DeviceChoice& choice,
                         const WorkloadSource& workload, const Observer& observer) {
  Workload needed;
  if (workload) {
    CRUCIBLE_TRY(needed, workload());
  }
  opened.candidates = judge_candidates(opened.settings, address, needed, choice.threads, observer);
  CRUCIBLE_TRY_VOID(opened.settings.check());
  CRUCIBLE_TRY(opened.device, open_best(opened.candidates, opened.plugin));
  for (Candidate& candidate : opened.candidates) candidate.backend.reset();  // those not chosen are stopped
  return {};
}

Result<void> open_one(OpenedDevice& opened, const DeviceAddress& address, const Observer& observer) {
  Result<std::shared_ptr<backend::Device>> device = open_addressed(opened.settings, opened.plugin, address, observer);
  if (device) {
    opened.device = *std::move(device);
    return {};
  }
  const ErrorCode code = device.error().code;
  const bool replaceable = code == ErrorCode::kUnavailable || code == ErrorCode::kBadInput;
  const std::string fallback = opened.settings.text("fallback");
  if (!replaceable || fallback == "forbid" || opened.plugin == kFallbackPlugin) return device.error();
  opened.asked_for = opened.plugin;
  opened.asked_error = device.error().message;
  observer.tell(fallback == "warn" ? Notice::Level::kWarning : Notice::Level::kNote,
                fmt::format("backend {} cannot be used, the CPU plugin takes its place: {}", opened.asked_for,
                            opened.asked_error));
  opened.plugin = kFallbackPlugin;
  CRUCIBLE_TRY(opened.device, open_cpu_beside(opened.settings, observer));
  return {};
}

/// Errors: kUsage for what the interpreter does not have.
Result<void> check_reference(const DeviceAddress& address, const DeviceChoice& choice, bool takes_reference) {
  if (!takes_reference) {
    return Error{
        ErrorCode::kUsage,
        "backend reference is the interpreter inside crucible: it has no plan, no kernels and no library; `crucible "
        "replay FILE --backend reference` runs it, and this command wants a plugin's name"};
  }
  if (address.kind != DeviceAddress::Kind::kFirst) {
    return Error{ErrorCode::kUsage,
                 fmt::format("device {}: the reference interpreter has no devices; leave --device out", address.text)};
  }
  if (choice.threads != 0) {
    return Error{ErrorCode::kUsage,
                 fmt::format("--threads {}: the reference interpreter has one thread; leave it out", choice.threads)};
  }
  return {};
}

}  // namespace

kernel::Numerics numerics_of(const config::Settings& settings) {
  return settings.text("numerics") == "strict" ? kernel::Numerics::kStrict : kernel::Numerics::kFast;
}

config::Settings read_settings(const DeviceChoice& choice) {
  config::Surroundings surroundings = config::process_surroundings();
  if (!choice.config_file.empty()) surroundings.named_file = choice.config_file;
  return config::Settings::load(surroundings, requests_of(choice));
}

std::string chosen_backend(const config::Settings& settings) {
  const DeviceAddress address = parse_device(settings.text("device"));
  const bool by_device =
      address.kind == DeviceAddress::Kind::kIndex && layer_of(settings, "device") > layer_of(settings, "backend");
  return by_device                                                     ? address.plugin
         : is_open_choice(settings, settings.text("backend"), address) ? kAuto
                                                                       : settings.text("backend");
}

config::Settings load_unchecked_settings(const DeviceChoice& choice, const Observer& observer) {
  config::Settings settings = read_settings(choice);
  const std::string plugin = chosen_backend(settings);
  if (settings.may_ask_plugins() && plugin != kAuto) settle_chosen(settings, choice, plugin, observer);
  return settings;
}

Result<config::Settings> load_settings(const DeviceChoice& choice, const Observer& observer) {
  config::Settings settings = read_settings(choice);
  tell_warnings(settings, observer);
  CRUCIBLE_TRY_VOID(settings.check());
  CRUCIBLE_TRY_VOID(keep_decisions(settings));
  return settings;
}

Result<OpenedDevice> open_device(const DeviceChoice& choice, const Observer& observer, const WorkloadSource& workload,
                                 bool takes_reference) {
  OpenedDevice opened;
  opened.settings = read_settings(choice);
  CRUCIBLE_TRY_VOID(keep_decisions(opened.settings));
  DeviceAddress address = parse_device(opened.settings.text("device"));
  opened.plugin = opened.settings.text("backend");
  CRUCIBLE_TRY_VOID(reconcile(opened.settings, observer, opened.plugin, address));
  tell_left_behind(opened.settings, opened.plugin, observer);
  if (opened.plugin == kReferenceBackend) {
    CRUCIBLE_TRY_VOID(check_reference(address, choice, takes_reference));
    if (opened.settings.may_ask_plugins()) settle_options(opened.settings, opened.plugin, observer);
    tell_warnings(opened.settings, observer);
    CRUCIBLE_TRY_VOID(opened.settings.check());
  } else if (is_open_choice(opened.settings, opened.plugin, address)) {
    tell_warnings(opened.settings, observer);
    CRUCIBLE_TRY_VOID(opened.settings.check());
    CRUCIBLE_TRY_VOID(open_choice(opened, address, choice, workload, observer));
  } else {
    if (opened.settings.may_ask_plugins()) settle_chosen(opened.settings, choice, opened.plugin, observer);
    tell_warnings(opened.settings, observer);
    CRUCIBLE_TRY_VOID(opened.settings.check());
    CRUCIBLE_TRY_VOID(open_one(opened, address, observer));
  }
  if (choice.explain && observer.opened) observer.opened(opened);
  return opened;
}

Result<std::shared_ptr<backend::Device>> open_cpu_beside(config::Settings& settings, const Observer& observer) {
  settle_options(settings, kFallbackPlugin, observer);
  CRUCIBLE_TRY_VOID(settings.check());
  return open_addressed(settings, kFallbackPlugin, {}, observer);
}

Result<std::shared_ptr<backend::Device>> open_torch_beside(config::Settings& settings, const Observer& observer) {
  settle_options(settings, kOpaquePlugin, observer);
  CRUCIBLE_TRY_VOID(settings.check());
  return open_addressed(settings, kOpaquePlugin, {}, observer);
}

Result<std::shared_ptr<backend::Device>> open_addressed(config::Settings& settings, const std::string& plugin,
                                                        const DeviceAddress& address, const Observer& observer) {
  CRUCIBLE_TRY(const std::shared_ptr<backend::Backend> backend, load_plugin(settings, plugin, observer));
  CRUCIBLE_TRY(const std::string id, find_device(*backend, plugin, address));
  return backend->open(id);
}

std::string backend_name(const DeviceChoice& choice) { return read_settings(choice).text("backend"); }

bool is_backend_named(const DeviceChoice& choice) {
  const config::Settings settings = read_settings(choice);
  return settings.is_said("backend") || settings.is_said("device");
}

}  // namespace crucible::replay
