// The child's side of the runner: which case, run it, say what came of it.
#include <fcntl.h>
#include <fmt/format.h>

#include <exception>
#include <nlohmann/json.hpp>

#include "core/base/terminal.hpp"
#include "plugins/conformance/opened.hpp"
#include "plugins/conformance/runner.hpp"
#include "plugins/conformance/settings_json.hpp"

namespace crucible::conformance {
namespace {

constexpr int kVerdictDescriptor = 3;  // where the runner listens

void identify(const Settings& settings) {
  Subject subject(settings);
  nlohmann::json facts = {
      {"name", to_string(subject.answer.name)},       {"vendor", to_string(subject.answer.vendor)},
      {"version", to_string(subject.answer.version)}, {"build_id", to_string(subject.answer.build_id)},
      {"abi_major", subject.answer.abi_major},        {"abi_minor", subject.answer.abi_minor}};
  subject.start();
  Items items;
  expect_ok(must(subject.tables.device.enumerate, "device.enumerate")(items.sink(), items.user()), "device.enumerate");
  std::string ids;
  for (const auto& call : items.calls) {
    const auto text = [&](const char* key) { return call.contains(key) ? call.at(key) : std::string(); };
    ids += (ids.empty() ? "" : ", ") + text("id");
    if (facts.contains("device_id") || (!settings.device.empty() && text("id") != settings.device)) continue;
    facts["device_id"] = text("id");
    facts["device_name"] = text("name");
    facts["device_kind"] = text("kind");
    facts["emulated"] = text("emulated") == "1";
  }
  expect(facts.contains("device_id"),
         settings.device.empty() ? "the plugin has a device" : "the plugin has the device " + settings.device,
         ids.empty() ? "it has none" : "it has " + ids);
  crucible_device* device = nullptr;
  if (subject.tables.device.open != nullptr && subject.tables.device.properties != nullptr) {
    const std::string id = facts["device_id"];
    expect_ok(subject.tables.device.open(borrow(id), &device), "device.open of " + id);
    Items properties;
    expect_ok(subject.tables.device.properties(device, properties.sink(), properties.user()), "device.properties");
    for (const char* key : {"driver", "driver_version", "library"}) {
      if (properties.has(key)) {
        facts["driver"] = properties.all[key];
        break;
      }
    }
    expect_ok(must(subject.tables.device.close, "device.close")(device), "device.close");
  }
  subject.stop();
  pass(facts.dump());
}

void tell_options(const Settings& settings) {
  Subject subject(settings);
  if (subject.api.describe_options == nullptr) return;
  Items items;
  if (crucible_status status = subject.api.describe_options(items.sink(), items.user())) {
    take_error(status, "describe_options");
    return;
  }
  nlohmann::json facts = nlohmann::json::array();
  for (const auto& option : items.calls) {
    const auto text = [&](const char* key) { return option.contains(key) ? option.at(key) : std::string(); };
    facts.push_back({{"name", text("name")}, {"variable", text("env")}});
  }
  pass(facts.dump());
}

}  // namespace

Case options_case() { return {"options", Tier::kStatic, "the plugin loads and tells its options", true, tell_options}; }

std::optional<std::vector<OptionFact>> parse_options(const std::string& text) {
  const auto facts = nlohmann::json::parse(text, nullptr, false);
  if (!facts.is_array()) return std::nullopt;
  std::vector<OptionFact> options;
  for (const auto& option : facts) options.push_back({option.value("name", ""), option.value("variable", "")});
  return options;
}

Case identify_case() { return {"identify", Tier::kStatic, "the plugin loads and says who it is", true, identify, 60}; }

Result<Identity> parse_identity(const std::string& text) {
  const auto facts = nlohmann::json::parse(text, nullptr, false);
  if (!facts.is_object()) return Error{ErrorCode::kBadInput, "the plugin did not say who it is"};
  Identity identity;
  identity.name = facts.value("name", "");
  identity.vendor = facts.value("vendor", "");
  identity.version = facts.value("version", "");
  identity.build_id = facts.value("build_id", "");
  identity.abi_major = facts.value("abi_major", 0u);
  identity.abi_minor = facts.value("abi_minor", 0u);
  identity.device_id = facts.value("device_id", "");
  identity.device_name = facts.value("device_name", "");
  identity.device_kind = facts.value("device_kind", "");
  identity.driver = facts.value("driver", "");
  identity.emulated = facts.value("emulated", false);
  return identity;
}

std::string child_argument(const Settings& settings, const std::string& case_name) {
  const nlohmann::json document = {{"case", case_name},         {"plugin", settings.plugin.string()},
                                   {"device", settings.device}, {"options", settings.options},
                                   {"quick", settings.quick},   {"folder", settings.folder.string()}};
  return document.dump(-1, ' ', true, nlohmann::json::error_handler_t::replace);
}

Result<ChildTask> parse_child_argument(const std::string& text) {
  const auto document = nlohmann::json::parse(text, nullptr, false);
  if (!document.is_object() || !document.contains("case") || !document.contains("plugin")) {
    return Error{ErrorCode::kUsage, "check-case takes what `crucible plugin check` gives to its children"};
  }
  ChildTask task;
  task.case_name = document.value("case", "");
  task.settings.plugin = document.value("plugin", "");
  task.settings.device = document.value("device", "");
  task.settings.options = document.value("options", std::map<std::string, std::string>{});
  task.settings.quick = document.value("quick", false);
  task.settings.folder = document.value("folder", "");
  return task;
}

int run_child(const std::string& argument) {
  const Result<ChildTask> task = parse_child_argument(argument);
  if (!task) {
    tell("{}\n", task.error().message);
    return 2;
  }
  if (fcntl(kVerdictDescriptor, F_GETFD) >= 0) {
    set_verdict_descriptor(kVerdictDescriptor);
    fcntl(kVerdictDescriptor, F_SETFD, FD_CLOEXEC);  // not for the compilers that a plugin starts
  }
  std::vector<Case> cases = all_cases();
  cases.push_back(identify_case());
  cases.push_back(options_case());
  for (const Case& entry : cases) {
    if (entry.name != task->case_name) continue;
    try {
      entry.run(task->settings);
    } catch (const std::exception& error) {
      fail(entry.rule + "; no C++ exception crosses the boundary", std::string("an exception: ") + error.what());
    } catch (...) {
      fail(entry.rule + "; no C++ exception crosses the boundary", "an exception of an unknown type");
    }
    pass();
    return 0;
  }
  fail("a case of this name", task->case_name);
}

}  // namespace crucible::conformance
