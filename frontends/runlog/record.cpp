#include "frontends/runlog/record.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <utility>

namespace crucible::runlog {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t kDepth = 6;

Json machine_json(const Machine& machine) {
  return {{"backend", machine.backend},  {"version", machine.version}, {"build_id", machine.build_id},
          {"library", machine.library},  {"device", machine.device},   {"name", machine.name},
          {"uuid", machine.uuid},        {"driver", machine.driver},   {"mathematics", machine.mathematics},
          {"emulated", machine.emulated}};
}

Json content_json(const RunBegin& run) {
  Json options = Json::object();
  for (const auto& [name, value] : run.options) options[name] = value;
  return {
      {"kind", "run"},
      {"version", kVersion},
      {"started", run.started},
      {"tool", run.tool},
      {"recording", {{"file", run.source.file}, {"content", run.source.content.hex()}}},
      {"program",
       {{"hash", run.program.hash.hex()}, {"merkle", run.program.merkle.hex()}, {"variants", run.program.variants}}},
      {"iterations", run.iterations},
      {"every", run.every},
      {"numerics", run.numerics},
      {"options", options},
      {"machine", machine_json(run.machine)},
      {"states", run.states},
      {"state", run.state.hex()}};
}

Json content_json(const IterationRecord& iteration) {
  Json json = {{"kind", "iteration"},
               {"iteration", iteration.index},
               {"variant", iteration.variant},
               {"inputs", iteration.inputs.hex()},
               {"slots", iteration.slots.hex()},
               {"state", iteration.state.hex()},
               {"outputs", iteration.outputs.hex()},
               {"losses", Json::array()}};
  for (const std::optional<double>& loss : iteration.losses)
    json["losses"].push_back(loss && std::isfinite(*loss) ? Json(*loss) : Json(nullptr));
  return json;
}

Json content_json(const Moved& moved) {
  return {{"kind", "moved"},
          {"from", moved.from},
          {"reason", moved.reason},
          {"first_iteration", moved.first},
          {"machine", machine_json(moved.machine)}};
}

Json content_json(const RunEnd& end) {
  Json json = {{"kind", "end"},
               {"how", name(end.ending)},
               {"words", end.words},
               {"iterations", end.iterations},
               {"verified", end.verified ? Json(*end.verified) : Json(nullptr)},
               {"state", end.state ? Json(end.state->hex()) : Json(nullptr)},
               {"states", Json::array()}};
  for (const NamedState& state : end.states)
    json["states"].push_back(
        {{"name", state.name}, {"dtype", state.dtype}, {"elements", state.elements}, {"hash", state.hash.hex()}});
  return json;
}

/// Reads members and remembers the first that is not as it should be.
class Reader {
 public:
  explicit Reader(const Json& json, std::string* fault) : json_(json), fault_(fault) {}

  const Json* member(const char* name) {
    const auto found = json_.is_object() ? json_.find(name) : json_.end();
    if (!json_.is_object() || found == json_.end()) return miss(name, "is missing");
    return &*found;
  }
  std::string text(const char* name) {
    const Json* const found = member(name);
    if (found == nullptr) return {};
    if (!found->is_string()) return miss(name, "is no text"), std::string();
    return found->get<std::string>();
  }
  std::uint64_t number(const char* name) {
    const Json* const found = member(name);
    if (found == nullptr) return 0;
    if (!found->is_number_unsigned()) return miss(name, "is no whole number"), 0;
    return found->get<std::uint64_t>();
  }
  bool flag(const char* name) {
    const Json* const found = member(name);
    if (found == nullptr) return false;
    if (!found->is_boolean()) return miss(name, "is neither true nor false"), false;
    return found->get<bool>();
  }
  ContentHash hash(const char* name) { return hash_of(text(name), name); }
  bool is_null(const char* name) {
    const Json* const found = member(name);
    return found != nullptr && found->is_null();
  }
  Reader object(const char* name) {
    const Json* const found = member(name);
    if (found != nullptr && found->is_object()) return Reader(*found, fault_);
    if (found != nullptr) miss(name, "is no object");
    return Reader(kNothing, fault_);
  }
  const Json& list(const char* name) {
    const Json* const found = member(name);
    if (found != nullptr && found->is_array()) return *found;
    if (found != nullptr) miss(name, "is no list");
    return kNothing;
  }
  ContentHash hash_of(const std::string& hex, const char* name) {
    ContentHash hash;
    const auto digit = [](char c) { return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1; };
    bool is_good = hex.size() == 2 * hash.bytes.size();
    for (std::size_t at = 0; is_good && at < hash.bytes.size(); ++at) {
      const int high = digit(hex[2 * at]), low = digit(hex[2 * at + 1]);
      is_good = high >= 0 && low >= 0;
      if (is_good) hash.bytes[at] = static_cast<std::uint8_t>(high << 4 | low);
    }
    if (!is_good) miss(name, "is no SHA-256 of 64 digits");
    return hash;
  }
  const Json* miss(const char* name, const char* what) {
    if (fault_->empty()) *fault_ = fmt::format("{} {}", name, what);
    return nullptr;
  }

 private:
  static inline const Json kNothing = nullptr;
  const Json& json_;
  std::string* fault_;
};

Machine machine_of(Reader reader) {
  return {.backend = reader.text("backend"),
          .version = reader.text("version"),
          .build_id = reader.text("build_id"),
          .library = reader.text("library"),
          .device = reader.text("device"),
          .name = reader.text("name"),
          .uuid = reader.text("uuid"),
          .driver = reader.text("driver"),
          .mathematics = reader.text("mathematics"),
          .emulated = reader.flag("emulated")};
}

RunBegin run_of(Reader& reader) {
  RunBegin run;
  run.started = reader.text("started");
  run.tool = reader.text("tool");
  Reader source = reader.object("recording"), program = reader.object("program");
  run.source = {source.text("file"), source.hash("content")};
  run.program = {program.hash("hash"), program.hash("merkle"), program.number("variants")};
  run.iterations = reader.number("iterations");
  run.every = reader.number("every");
  run.numerics = reader.text("numerics");
  const Json* const options = reader.member("options");
  if (options != nullptr && options->is_object()) {
    for (const auto& [name, value] : options->items()) {
      if (value.is_string()) run.options.emplace(name, value.get<std::string>());
    }
  }
  run.machine = machine_of(reader.object("machine"));
  run.states = reader.number("states");
  run.state = reader.hash("state");
  return run;
}

IterationRecord iteration_of(Reader& reader) {
  IterationRecord iteration{.index = reader.number("iteration"),
                            .variant = reader.number("variant"),
                            .inputs = reader.hash("inputs"),
                            .slots = reader.hash("slots"),
                            .state = reader.hash("state"),
                            .outputs = reader.hash("outputs"),
                            .losses = {}};
  for (const Json& loss : reader.list("losses"))
    iteration.losses.push_back(loss.is_number() ? std::optional(loss.get<double>()) : std::nullopt);
  return iteration;
}

RunEnd end_of(Reader& reader, std::string* fault) {
  RunEnd end;
  const std::string how = reader.text("how");
  for (const Ending ending : {Ending::kDone, Ending::kFailed, Ending::kInterrupted}) {
    if (how == name(ending)) end.ending = ending;
  }
  if (how != name(end.ending)) reader.miss("how", "is neither done, failed nor interrupted");
  end.words = reader.text("words");
  end.iterations = reader.number("iterations");
  if (!reader.is_null("verified")) end.verified = reader.flag("verified");
  if (!reader.is_null("state")) end.state = reader.hash("state");
  for (const Json& state : reader.list("states")) {
    Reader each(state, fault);
    end.states.push_back({each.text("name"), each.text("dtype"), each.number("elements"), each.hash("hash")});
  }
  return end;
}

}  // namespace

std::string_view name(Ending ending) {
  switch (ending) {
    case Ending::kDone:
      return "done";
    case Ending::kFailed:
      return "failed";
    case Ending::kInterrupted:
      return "interrupted";
  }
  return "";
}

std::string to_json(const Record& record) {
  Json json = std::visit([](const auto& content) { return content_json(content); }, record.content);
  json["previous"] = record.previous.hex();
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

bool is_shallow(std::string_view json, std::size_t depth) {
  std::size_t open = 0;
  bool in_text = false;
  for (std::size_t at = 0; at < json.size(); ++at) {
    const char c = json[at];
    if (in_text) {
      if (c == '\\') ++at;
      in_text = c != '"';
    } else if (c == '"') {
      in_text = true;
    } else if (c == '[' || c == '{') {
      if (++open > depth) return false;
    } else if ((c == ']' || c == '}') && open > 0) {
      --open;
    }
  }
  return true;
}

Result<Record> parse_record(std::string_view text) {
  const auto refuse = [](std::string_view why) {
    return Error{ErrorCode::kBadInput, fmt::format("it is no record of a run: {}", why)};
  };
  if (!is_shallow(text, kDepth)) return refuse("its JSON is nested too deep");
  const Json json = Json::parse(text, nullptr, false);
  if (!json.is_object()) return refuse("it is no JSON object");
  std::string fault;
  Reader reader(json, &fault);
  const std::string kind = reader.text("kind");
  if (const auto version = json.find("version");
      version != json.end() && version->is_number_unsigned() && version->get<std::uint64_t>() > kVersion) {
    return Error{ErrorCode::kUnavailable,
                 fmt::format("it was written by a newer version of crucible (format {}, this one reads {}): read it "
                             "with that one",
                             version->get<std::uint64_t>(), kVersion)};
  }
  Record record{.previous = reader.hash("previous"), .content = {}};
  if (kind == "run") {
    if (const std::uint64_t version = reader.number("version"); version != kVersion) reader.miss("version", "is not 1");
    record.content = run_of(reader);
  } else if (kind == "iteration") {
    record.content = iteration_of(reader);
  } else if (kind == "moved") {
    record.content = Moved{.from = reader.text("from"),
                           .reason = reader.text("reason"),
                           .first = reader.number("first_iteration"),
                           .machine = machine_of(reader.object("machine"))};
  } else if (kind == "end") {
    record.content = end_of(reader, &fault);
  } else {
    reader.miss("kind", "is neither run, iteration, moved nor end");
  }
  if (!fault.empty()) return refuse(fault);
  if (to_json(record) != text) return refuse("it is not written as crucible writes it");
  return record;
}

}  // namespace crucible::runlog
