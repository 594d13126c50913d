// `crucible health`: how the devices are, before a job is lost on one. A plugin that cannot be used does not keep the
// others from being asked; no device is opened, and none is disturbed.
#include <fmt/chrono.h>
#include <fmt/format.h>
#include <signal.h>
#include <time.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <ctime>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>

#include "core/base/words.hpp"
#include "frontends/cli/command.hpp"
#include "frontends/cli/health_report.hpp"
#include "frontends/cli/terminal_observer.hpp"
#include "frontends/cli/text_sink.hpp"
#include "frontends/replay/device_profiles.hpp"
#include "frontends/replay/open_device.hpp"
#include "frontends/replay/plugin_access.hpp"

namespace crucible::cli {
namespace {

struct Switches {
  DeviceChoice choice;  // --backend, --device and --set
  bool json = false, prometheus = false;
  double watch_s = 0;
  std::string output;
};

volatile sig_atomic_t is_stopped = 0;

void stop(int) { is_stopped = 1; }

/// The plugins that are asked, started once, and each device's last sample.
class Watch {
 public:
  static Result<Watch> begin(const Switches& switches);
  HealthReport sample();

 private:
  struct Plugin {
    std::string name;
    std::shared_ptr<backend::Backend> backend;
    std::vector<backend::DeviceInfo> devices;
  };
  Result<void> start(config::Settings& settings, Plugin& plugin);
  Result<void> keep_device(const std::string& id);
  std::vector<Plugin> plugins_;
  std::vector<HealthProblem> problems_;
  std::vector<hardware::DeviceProfile> profiles_;
  std::map<std::string, hardware::HealthSample> before_;  // by plugin and device
};

Result<void> Watch::start(config::Settings& settings, Plugin& plugin) {
  const std::size_t known = settings.problems().size();
  settle_options(settings, plugin.name, terminal());
  CRUCIBLE_TRY_VOID(settings.check(known));
  CRUCIBLE_TRY(plugin.backend, load_plugin(settings, plugin.name, terminal()));
  CRUCIBLE_TRY(plugin.devices, plugin.backend->devices());
  return {};
}

/// Leaves the one device, by its id. Errors: kUnavailable naming those that there are.
Result<void> Watch::keep_device(const std::string& id) {
  std::string known;
  bool is_there = false;
  for (Plugin& plugin : plugins_) {
    for (const backend::DeviceInfo& info : plugin.devices) known += (known.empty() ? "" : ", ") + info.id;
    std::erase_if(plugin.devices, [&](const backend::DeviceInfo& info) { return info.id != id; });
    is_there |= !plugin.devices.empty();
  }
  if (is_there) return {};
  return Error{ErrorCode::kUnavailable,
               fmt::format("there is no device '{}', only {}", id, known.empty() ? "none" : known)};
}

Result<Watch> Watch::begin(const Switches& switches) {
  DeviceChoice choice;
  choice.sets = switches.choice.sets;
  CRUCIBLE_TRY(config::Settings settings, load_settings(choice, terminal()));
  Watch watch;
  CRUCIBLE_TRY(watch.profiles_, device_profiles(settings));
  const std::string& named = switches.choice.backend;
  if (!named.empty()) {
    Plugin& plugin = watch.plugins_.emplace_back();
    plugin.name = named;
    CRUCIBLE_TRY_VOID(watch.start(settings, plugin));
  }
  for (const backend::FoundBackend& found :
       named.empty() ? list_plugins(settings) : std::vector<backend::FoundBackend>()) {
    Plugin plugin{.name = found.name, .backend = {}, .devices = {}};
    if (const Result<void> result = watch.start(settings, plugin); !result) {
      watch.problems_.push_back({found.name, result.error().message});
    } else {
      watch.plugins_.push_back(std::move(plugin));
    }
  }
  if (named.empty()) {
    for (const backend::Decision& decision : passed_over(settings))
      watch.problems_.push_back({decision.plugin, decision.reason});
  }
  if (!switches.choice.device.empty()) CRUCIBLE_TRY_VOID(watch.keep_device(switches.choice.device));
  return watch;
}

HealthReport Watch::sample() {
  HealthReport report{.devices = {}, .problems = problems_};
  for (const Plugin& plugin : plugins_) {
    for (const backend::DeviceInfo& info : plugin.devices) {
      const std::string key = plugin.name + " " + info.id;
      const auto before = before_.find(key);
      report.devices.push_back(device_health(*plugin.backend, plugin.name, info, profiles_,
                                             before == before_.end() ? nullptr : &before->second));
      before_.insert_or_assign(key, report.devices.back().sample);
    }
  }
  return report;
}

Result<void> print(const Switches& switches, const HealthReport& report, std::set<std::string>* told) {
  CRUCIBLE_TRY(TextSink sink, TextSink::open(switches.output, trace::Readers::kAnyone));
  const bool is_watching = switches.watch_s > 0;
  const std::time_t now = std::time(nullptr);
  if (switches.prometheus) {
    sink.append(health_prometheus(report));
  } else if (switches.json) {
    nlohmann::ordered_json document = health_json(report);
    if (is_watching) document["time_s"] = now;
    sink.append(json_without_commands(document.dump(is_watching ? -1 : 2)) + "\n");
  } else {
    if (is_watching) sink.append(fmt::format("{:%Y-%m-%d %H:%M:%S}\n", fmt::localtime(now)));
    sink.append(health_text(report, told));
  }
  return sink.finish();
}

/// Sleeps until the next sample is due, or a signal asks for the end.
void wait(double seconds) {
  constexpr double kStep = 0.05;
  timespec begin = {}, now = {};
  clock_gettime(CLOCK_MONOTONIC, &begin);
  for (double waited = 0; is_stopped == 0 && waited < seconds;) {
    const double step = std::min(kStep, seconds - waited);
    const timespec pause = {.tv_sec = 0, .tv_nsec = static_cast<long>(step * 1e9)};
    nanosleep(&pause, nullptr);
    clock_gettime(CLOCK_MONOTONIC, &now);
    waited = static_cast<double>(now.tv_sec - begin.tv_sec) + static_cast<double>(now.tv_nsec - begin.tv_nsec) / 1e9;
  }
}

Result<int> run(const Switches& switches) {
  if (switches.prometheus && switches.watch_s > 0 && switches.output.empty())
    return Error{ErrorCode::kUsage, "--prometheus with --watch needs -o FILE, which each sample replaces"};
  CRUCIBLE_TRY(Watch watch, Watch::begin(switches));
  if (switches.watch_s > 0) {
    for (const int signal : {SIGINT, SIGTERM}) {
      struct sigaction action = {};
      action.sa_handler = stop;
      sigaction(signal, &action, nullptr);
    }
  }
  std::set<std::string> told;
  HealthReport report;
  do {
    report = watch.sample();
    CRUCIBLE_TRY_VOID(print(switches, report, &told));
    if (switches.watch_s > 0) wait(switches.watch_s);
  } while (switches.watch_s > 0 && is_stopped == 0);
  if (report.devices.empty()) return exit_code(ErrorCode::kUnavailable);
  return worst(report.devices) == hardware::HealthVerdict::kSick ? exit_code(ErrorCode::kCheckFailed) : 0;
}

}  // namespace

void add_health(Commands& commands) {
  auto switches = std::make_shared<Switches>();  // shared with the callbacks, which run after this function
  CLI::App* health = add_subcommand(
      commands.app, "health",
      "How the devices are: temperature, power, errors, and a verdict on each; exit code 1 when one is sick.",
      "crucible health --watch 10");
  health->add_option("--backend", switches->choice.backend, "Ask this plugin alone (default: all of them)");
  health->add_option("--device", switches->choice.device,
                     "Ask this device alone, by its id as crucible devices has it");
  health->add_option("--set", switches->choice.sets, "Set one key of the configuration: KEY=VALUE")->take_all();
  health->add_option("--watch", switches->watch_s, "Go on, with a sample every so many seconds, until Ctrl-C")
      ->check(CLI::Range(0.01, 86400.0));
  CLI::Option* json =
      health->add_flag("--json", switches->json, "One JSON document on standard output; with --watch one per line");
  health
      ->add_flag("--prometheus", switches->prometheus,
                 "Prometheus' text format, as its node exporter's textfile collector reads it")
      ->excludes(json);
  health->add_option("-o,--output", switches->output, "The file that gets it, complete or not at all");
  health->callback([&commands, switches] { commands.run = [switches] { return run(*switches); }; });
}

}  // namespace crucible::cli
