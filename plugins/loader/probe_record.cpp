#include "plugins/loader/probe_record.hpp"

#include <nlohmann/json.hpp>

namespace crucible::backend {
namespace {

using nlohmann::json;

std::string dump(const json& document) { return document.dump(-1, ' ', false, json::error_handler_t::replace); }

PluginFacts facts_from(const json& from) {
  PluginFacts facts;
  from.at("name").get_to(facts.name);
  from.at("vendor").get_to(facts.vendor);
  from.at("version").get_to(facts.version);
  from.at("build_id").get_to(facts.build_id);
  from.at("abi_major").get_to(facts.abi_major);
  from.at("abi_minor").get_to(facts.abi_minor);
  for (const json& item : from.at("options")) {
    OptionSchema option;
    item.at("name").get_to(option.name);
    item.at("type").get_to(option.type);
    item.at("default").get_to(option.default_value);
    item.at("help").get_to(option.help);
    item.at("env").get_to(option.env);
    item.at("choices").get_to(option.choices);
    if (item.contains("min")) option.min = item["min"].get<std::uint64_t>();
    if (item.contains("max")) option.max = item["max"].get<std::uint64_t>();
    option.folder = item.value("folder", "");
    facts.options.push_back(std::move(option));
  }
  return facts;
}

ProbeStep step_from(const json& from) {
  ProbeStep step;
  step.step = static_cast<Step>(from.at("step").get<int>());
  step.outcome = static_cast<Outcome>(from.at("outcome").get<int>());
  from.at("reason").get_to(step.reason);
  step.code = static_cast<ErrorCode>(from.at("code").get<int>());
  from.at("only_of_the_file").get_to(step.only_of_the_file);
  from.at("time_ns").get_to(step.time_ns);
  return step;
}

DeviceInfo device_from(const json& from) {
  DeviceInfo device;
  from.at("id").get_to(device.id);
  from.at("name").get_to(device.name);
  from.at("kind").get_to(device.kind);
  from.at("uuid").get_to(device.uuid);
  from.at("pci").get_to(device.pci);
  from.at("threads").get_to(device.threads);
  from.at("memory_bytes").get_to(device.memory_bytes);
  from.at("emulated").get_to(device.emulated);
  return device;
}

}  // namespace

std::string step_line(const ProbeStep& step) {
  return dump({{"step", static_cast<int>(step.step)},
               {"outcome", static_cast<int>(step.outcome)},
               {"reason", step.reason},
               {"code", static_cast<int>(step.code)},
               {"only_of_the_file", step.only_of_the_file},
               {"time_ns", step.time_ns}});
}

std::string doing_line(std::string_view what) { return dump({{"doing", what}}); }

std::string facts_line(const PluginFacts& facts) {
  json options = json::array();
  for (const OptionSchema& option : facts.options) {
    json item = {{"name", option.name}, {"type", option.type}, {"default", option.default_value},
                 {"help", option.help}, {"env", option.env},   {"choices", option.choices}};
    if (option.min) item["min"] = *option.min;
    if (option.max) item["max"] = *option.max;
    if (!option.folder.empty()) item["folder"] = option.folder;
    options.push_back(std::move(item));
  }
  return dump({{"facts",
                {{"name", facts.name},
                 {"vendor", facts.vendor},
                 {"version", facts.version},
                 {"build_id", facts.build_id},
                 {"abi_major", facts.abi_major},
                 {"abi_minor", facts.abi_minor},
                 {"options", options}}}});
}

std::string device_line(const DeviceInfo& device) {
  return dump({{"device",
                {{"id", device.id},
                 {"name", device.name},
                 {"kind", device.kind},
                 {"uuid", device.uuid},
                 {"pci", device.pci},
                 {"emulated", device.emulated},
                 {"threads", device.threads},
                 {"memory_bytes", device.memory_bytes}}}});
}

std::string finished_line() { return dump({{"finished", true}}); }

bool take_line(std::string_view line, ProbeAnswer& answer) {
  try {
    const json document = json::parse(line);
    if (document.contains("step")) {
      answer.steps.push_back(step_from(document));
    } else if (document.contains("doing")) {
      document["doing"].get_to(answer.doing);
    } else if (document.contains("facts")) {
      answer.facts = facts_from(document["facts"]);
    } else if (document.contains("device")) {
      answer.devices.push_back(device_from(document["device"]));
    } else {
      answer.finished = document.at("finished").get<bool>();
    }
    return true;
  } catch (const json::exception&) {
    return false;
  }
}

}  // namespace crucible::backend
