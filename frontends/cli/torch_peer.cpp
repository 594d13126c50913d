#include "frontends/cli/torch_peer.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>

#include "frontends/cli/command_words.hpp"
#include "frontends/cli/python_folder.hpp"

namespace crucible::cli {
namespace {

using Json = nlohmann::json;

constexpr std::array<const char*, 4> kModes = {"default", "reduce-overhead", "max-autotune",
                                               "max-autotune-no-cudagraphs"};
constexpr std::size_t kLongestError = 300;

std::string text_in(const Json& event, const char* key) {
  return event.contains(key) && event[key].is_string() ? event[key].get<std::string>() : "";
}

/// What the process's side says, or {"event": "gone"} with what is known instead.
Json event_of(ChildProcess& child, int patience_seconds) {
  const Result<std::string> line = child.read_line(patience_seconds);
  if (!line) return {{"event", "gone"}, {"silent", line.error().message == "silent"}};
  Json event = Json::parse(*line, nullptr, false);
  if (event.is_object() && event.contains("event")) return event;
  return {{"event", "gone"}, {"silent", false}};
}

/// "nan" and "inf" come as texts.
double number_in(const Json& value) {
  return value.is_number() ? value.get<double>()
                           : std::strtod(value.is_string() ? value.get<std::string>().c_str() : "nan", nullptr);
}

PeerRun run_of(const Json& event) {
  PeerRun run;
  for (const Json& time : event.value("times_ns", Json::array())) run.times_ns.push_back(time.get<double>());
  for (const Json& losses : event.value("losses", Json::array())) {
    std::vector<double>& kept = run.losses.emplace_back();
    for (const Json& loss : losses) kept.push_back(number_in(loss));
  }
  for (const Json& output : event.value("outputs", Json::array())) {
    PeerOutput& kept = run.outputs.emplace_back();
    kept.iteration = output.value("iteration", 0u);
    kept.name = text_in(output, "name");
    kept.dtype = text_in(output, "dtype");
    kept.is_recorded = output.value("recorded", false);
    kept.is_equal = output.value("equal", false);
    if (output.contains("max_rel_diff") && output["max_rel_diff"].is_number())
      kept.max_rel_diff = output["max_rel_diff"].get<double>();
  }
  return run;
}

}  // namespace

Result<PeerKind> peer_kind_of(const std::string& name) {
  if (name == "eager") return PeerKind{.name = name};
  if (name == "cudagraphs") return PeerKind{.name = name, .compile = "cudagraphs"};
  if (name == "compile") return PeerKind{.name = name, .compile = "inductor"};
  if (name.starts_with("compile:")) {
    const std::string mode = name.substr(8);
    if (std::ranges::find(kModes, mode) != kModes.end())
      return PeerKind{.name = name, .compile = "inductor", .mode = mode};
  }
  return Error{
      ErrorCode::kUsage,
      fmt::format("no peer is called '{}': eager, compile, compile:MODE (default, reduce-overhead, max-autotune, "
                  "max-autotune-no-cudagraphs) and cudagraphs are",
                  name)};
}

Result<std::unique_ptr<TorchPeer>> TorchPeer::start(PeerRequest request) {
  CRUCIBLE_TRY(TemporaryFolder folder, TemporaryFolder::create());
  std::unique_ptr<TorchPeer> peer(new TorchPeer(std::move(request), std::move(folder)));
  CRUCIBLE_TRY_VOID(peer->launch());
  return peer;
}

Result<void> TorchPeer::launch() {
  CRUCIBLE_TRY(const std::filesystem::path python, python_folder());
  CRUCIBLE_TRY(ChildProcess made, ChildProcess::create());
  child_ = std::make_unique<ChildProcess>(std::move(made));
  const char* const present = std::getenv("PYTHONPATH");
  const std::string start = (python / "start").string();
  const Json config = {{"status", (folder_.path() / fmt::format("status{}", started_)).string()},
                       {"pythonpath", present == nullptr ? Json(nullptr) : Json(present)},
                       {"peer",
                        {{"descriptor", child_->descriptor()},
                         {"compile", request_.kind.compile},
                         {"mode", request_.kind.mode},
                         {"own_random", request_.has_own_random},
                         {"threads", request_.threads},
                         {"warmup", request_.warmup},
                         {"end_of_iteration", request_.end_of_iteration},
                         {"outputs", request_.outputs.string()}}}};
  ++started_;
  CRUCIBLE_TRY_VOID(
      child_->start(request_.command,
                    {{"PYTHONPATH", present == nullptr || *present == '\0' ? start : start + ":" + present},
                     {"CRUCIBLE_RECORDING", config.dump(-1, ' ', true, Json::error_handler_t::replace)}},
                    folder_.path() / "errors"));
  const Json event = event_of(*child_, request_.patience_seconds);
  if (text_in(event, "event") != "ready") return why_not(event);
  facts_ = {.torch = text_in(event, "torch"), .device = text_in(event, "device"), .threads = event.value("threads", 0u),
            .warmup_ns = event.value("warmup_ns", std::uint64_t{0})};
  return {};
}

Result<Json> TorchPeer::run_once(bool is_checked) {
  child_->write_line(
      Json{{"run", request_.iterations}, {"check", is_checked}}.dump());  // one that has ended is seen by what it says
  const Json event = event_of(*child_, request_.patience_seconds);
  if (text_in(event, "event") == "ran") return event;
  return why_not(event);
}

Result<PeerRun> TorchPeer::run_checked() {
  CRUCIBLE_TRY(const Json event, run_once(true));
  return run_of(event);
}

Result<PeerRun> TorchPeer::run(const std::function<void()>& begins) {
  if (child_) {
    if (begins) begins();
    child_->write_line(Json{{"run", request_.iterations}}.dump());
    const Json event = event_of(*child_, request_.patience_seconds);
    if (text_in(event, "event") == "ran") return run_of(event);
    const bool is_over = text_in(event, "event") == "ended" && text_in(event, "why").empty();
    if (!is_over) return why_not(event);
    child_.reset();
  }
  CRUCIBLE_TRY_VOID(launch());
  if (begins) begins();
  CRUCIBLE_TRY(const Json event, run_once(false));
  return run_of(event);
}

std::string TorchPeer::last_error() const {
  std::ifstream file(folder_.path() / "errors");
  std::string line, last;
  while (std::getline(file, line)) {
    if (line.find_first_not_of(" \t\r") != std::string::npos) last = line;
  }
  return last.substr(0, kLongestError);
}

Error TorchPeer::why_not(const Json& event) {
  const std::string kind = text_in(event, "event");
  const std::string command = line_of(request_.command);
  const std::unique_ptr<ChildProcess> child = std::move(child_);
  if (kind == "refused") return {ErrorCode::kUnavailable, text_in(event, "message")};
  if (kind == "gone" && event.value("silent", false)) {
    return {
        ErrorCode::kUnavailable,
        fmt::format(
            "`{}` has said nothing for {} s: no end of an iteration was seen, or it takes longer; mark the end of each "
            "with crucible.step(), or raise --peer-timeout",
            command, request_.patience_seconds)};
  }
  const int code = child->end();
  if (kind == "gone") {
    const std::string said = last_error();
    if (code == 0)
      return {ErrorCode::kUnavailable,
              fmt::format("`{}` ended without importing torch; give --script with the command that runs it", command)};
    return {ErrorCode::kUnavailable,
            fmt::format("`{}` ended with exit code {}{}{}; give --script with the command that runs it here", command,
                        code, said.empty() ? "" : ": ", said)};
  }
  const std::string why = text_in(event, "why");
  if (!why.empty())
    return {ErrorCode::kUnavailable, fmt::format("`{}` ended with {}", command, why.substr(0, kLongestError))};
  const unsigned seen = event.value("iterations", 0u);
  if (seen == 0) {
    return {ErrorCode::kUnavailable,
            fmt::format("`{}` ended and no end of an iteration was seen; mark each with crucible.step()", command)};
  }
  return {
      ErrorCode::kUnavailable,
      fmt::format(
          "`{}` ended after {} iterations, and {} of warm-up and {} more are needed; give --script with a command that "
          "runs longer",
          command, seen, request_.warmup, request_.iterations)};
}

}  // namespace crucible::cli
