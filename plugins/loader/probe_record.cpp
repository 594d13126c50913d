// The lines of a probe. One list of fields for each record serves both ways, so that what is written is what is read.
#include "plugins/loader/probe_record.hpp"

#include <nlohmann/json.hpp>

namespace crucible::backend {

using nlohmann::json;

void to_json(json& to, const OptionSchema& option) {
  to = {{"name", option.name}, {"type", option.type}, {"default", option.default_value},
        {"help", option.help}, {"env", option.env},   {"choices", option.choices}};
  if (option.min) to["min"] = *option.min;
  if (option.max) to["max"] = *option.max;
  if (!option.folder.empty()) to["folder"] = option.folder;
}

void from_json(const json& from, OptionSchema& option) {
  from.at("name").get_to(option.name);
  from.at("type").get_to(option.type);
  from.at("default").get_to(option.default_value);
  from.at("help").get_to(option.help);
  from.at("env").get_to(option.env);
  from.at("choices").get_to(option.choices);
  if (from.contains("min")) option.min = from["min"].get<std::uint64_t>();
  if (from.contains("max")) option.max = from["max"].get<std::uint64_t>();
  option.folder = from.value("folder", "");
}

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(PluginFacts, name, vendor, version, build_id, abi_major, abi_minor, options)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(ProbeStep, step, outcome, reason, code, only_of_the_file, time_ns)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(DeviceInfo, id, name, kind, uuid, pci, threads, memory_bytes, emulated)

namespace {

std::string dump(const json& document) { return document.dump(-1, ' ', false, json::error_handler_t::replace); }

}  // namespace

std::string step_line(const ProbeStep& step) { return dump(step); }

std::string doing_line(std::string_view what) { return dump({{"doing", what}}); }

std::string facts_line(const PluginFacts& facts) { return dump({{"facts", facts}}); }

std::string device_line(const DeviceInfo& device) { return dump({{"device", device}}); }

std::string finished_line() { return dump({{"finished", true}}); }

bool take_line(std::string_view line, ProbeAnswer& answer) {
  try {
    const json document = json::parse(line);
    if (document.contains("step")) {
      answer.steps.push_back(document.get<ProbeStep>());
    } else if (document.contains("doing")) {
      document["doing"].get_to(answer.doing);
    } else if (document.contains("facts")) {
      answer.facts = document["facts"].get<PluginFacts>();
    } else if (document.contains("device")) {
      answer.devices.push_back(document["device"].get<DeviceInfo>());
    } else {
      answer.finished = document.at("finished").get<bool>();
    }
    return true;
  } catch (const json::exception&) {
    return false;
  }
}

}  // namespace crucible::backend
