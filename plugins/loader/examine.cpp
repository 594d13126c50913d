#include "plugins/loader/examine.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <optional>
#include <string>
#include <utility>

#include "plugins/abi/crucible_plugin.h"
#include "plugins/loader/certified.hpp"
#include "plugins/loader/dependency.hpp"
#include "plugins/loader/inspect.hpp"
#include "plugins/loader/probe.hpp"
#include "plugins/loader/stopwatch.hpp"

namespace crucible::backend {
namespace {

/// Writes the decisions about one candidate.
class Recorder {
 public:
  Recorder(const Candidate& candidate, DecisionLog& log) : candidate_(candidate), log_(log) {}
  void note(Step step, Outcome outcome, std::string reason, std::uint64_t time_ns) {
    // The symbols that a plugin exports are its author's business, not its user's.
    if (outcome == Outcome::kWarned && step != Step::kInspect) warnings_.push_back(reason);
    log_.add({step, outcome, candidate_.name, candidate_.path, std::move(reason), time_ns});
  }
  Error refuse(Step step, Error error, std::uint64_t time_ns) {
    note(step, Outcome::kRefused, error.message, time_ns);
    return error;
  }

  std::vector<std::string> take_warnings() { return std::move(warnings_); }

 private:
  const Candidate& candidate_;
  DecisionLog& log_;
  std::vector<std::string> warnings_;
};

bool contains(const std::vector<std::string>& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

Result<void> check_lists(const Candidate& candidate, const LoadPolicy& policy, Recorder& record) {
  const Stopwatch time;
  if (contains(policy.deny, candidate.name)) {
    return record.refuse(
        Step::kLists,
        {ErrorCode::kUnavailable, fmt::format("plugin {} is on the deny list: take it off to use it", candidate.name)},
        time.ns());
  }
  if (!policy.allow.empty() && !contains(policy.allow, candidate.name)) {
    return record.refuse(
        Step::kLists,
        {ErrorCode::kUnavailable, fmt::format("plugin {} is not on the allow list, which has {} name{}", candidate.name,
                                              policy.allow.size(), policy.allow.size() == 1 ? "" : "s")},
        time.ns());
  }
  record.note(Step::kLists, Outcome::kPassed,
              policy.allow.empty() ? "not on the deny list; there is no allow list" : "on the allow list", time.ns());
  return {};
}

std::string lower(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(), [](unsigned char letter) { return std::tolower(letter); });
  return text;
}

bool is_judged_by_content(const Candidate& candidate, const OpenFile& file, const LoadPolicy& policy) {
  return policy.pins.contains(candidate.name) || !candidate.pin.empty() || has_certificate(file);
}

/// The pins of the user and of the manifest. Errors: kUnavailable for another content.
Result<std::string> check_pins(const Candidate& candidate, const OpenFile& file, const LoadPolicy& policy) {
  struct Pin {
    std::string digest, by, mend;
  };
  std::vector<Pin> pins;
  if (const auto pin = policy.pins.find(candidate.name); pin != policy.pins.end()) {
    const auto by = policy.pinned_by.find(candidate.name);
    pins.push_back({pin->second, by == policy.pinned_by.end() ? "the policy" : by->second, "correct the pin"});
  }
  if (!candidate.pin.empty())
    pins.push_back({candidate.pin, fmt::format("the manifest {}", candidate.manifest.string()), "correct its sha256"});
  if (pins.empty()) return std::string("no pin");
  CRUCIBLE_TRY(const std::string digest, file_digest(file));
  for (const Pin& pin : pins) {
    if (lower(pin.digest) != digest) {
      return Error{
          ErrorCode::kUnavailable,
          fmt::format("plugin {} has the SHA-256 {}, it is pinned to {} by {}: install the plugin again, or {}",
                      file.path().string(), digest, pin.digest, pin.by, pin.mend)};
    }
  }
  return std::string("the pinned SHA-256");
}

Result<void> check_trust(const Candidate& candidate, const OpenFile& file, const LoadPolicy& policy, Recorder& record) {
  const Stopwatch time;
  // Whoever runs us with raised rights may have chosen the policy.
  const TrustPolicy trust = is_privileged() ? TrustPolicy::kEnforce : policy.trust;
  const Result<std::string> pinned = check_pins(candidate, file, policy);  // the user's own words count in every policy
  if (!pinned) return record.refuse(Step::kTrust, pinned.error(), time.ns());
  if (trust == TrustPolicy::kOff) {
    record.note(Step::kTrust, Outcome::kSkipped, fmt::format("switched off by the policy; {}", *pinned), time.ns());
    return {};
  }
  const Result<std::optional<std::string>> certificate = certificate_beside(file);
  if (!certificate && trust == TrustPolicy::kEnforce)
    return record.refuse(Step::kTrust, certificate.error(), time.ns());
  // One decision of this step, whatever it is made of.
  const std::string certified = !certificate ? certificate.error().message : *certificate ? **certificate : "";
  const auto with_certificate = [&](const std::string& reason) {
    return certified.empty() ? reason : fmt::format("{}; {}", reason, certified);
  };
  std::string problems;
  for (const std::string& problem : trust_problems(file)) {
    problems += fmt::format("{}{}", problems.empty() ? "" : ", ", problem);
  }
  for (const std::filesystem::path& library : foreign_libraries(inspect_needs(file.descriptor()), file.path())) {
    const Result<OpenFile> opened = OpenFile::open(library);
    if (!opened) continue;  // the dynamic loader will say so
    for (const std::string& problem : trust_problems(*opened)) {
      problems += fmt::format("{}of its library {}, {}", problems.empty() ? "" : ", ", library.string(), problem);
    }
  }
  if (problems.empty()) {
    record.note(
        Step::kTrust, certificate ? Outcome::kPassed : Outcome::kWarned,
        with_certificate(fmt::format(
            "only root and this user can write the file, the libraries that it brings, and the folders above them; {}",
            *pinned)),
        time.ns());
    return {};
  }
  const std::string reason = fmt::format("plugin {} can be changed by others: {}", file.path().string(), problems);
  if (trust == TrustPolicy::kWarn) {
    record.note(Step::kTrust, Outcome::kWarned, with_certificate(reason), time.ns());
    return {};
  }
  return record.refuse(Step::kTrust,
                       {ErrorCode::kUnavailable, reason + ": chmod or chown it, or load it with another policy"},
                       time.ns());
}

/// Without a probe the headers are read here, and nothing is known of what the plugin says.
Result<std::optional<PluginFacts>> inspect_here(const Candidate& candidate, const OpenFile& file,
                                                const std::string& why, Outcome outcome, Recorder& record) {
  const Stopwatch time;
  const Inspection inspection = inspect_file(file.descriptor());
  const std::string path = file.path().string();
  if (!inspection.problem.empty()) {
    return record.refuse(
        Step::kInspect,
        {ErrorCode::kUnavailable, fmt::format("plugin {} cannot be loaded: {}", path, inspection.problem)}, time.ns());
  }
  if (!inspection.exports_symbol(CRUCIBLE_QUERY_SYMBOL)) {
    return record.refuse(Step::kInspect,
                         {ErrorCode::kBadInput,
                          fmt::format("{} is not a Crucible plugin: it exports no {}", path, CRUCIBLE_QUERY_SYMBOL)},
                         time.ns());
  }
  record.note(Step::kInspect, Outcome::kPassed, "a shared object for this machine that exports the query", time.ns());
  record.note(Step::kDependency, Outcome::kSkipped, why, 0);
  record.note(Step::kProbe, outcome, why, 0);
  return std::optional<PluginFacts>();
}

Result<std::optional<PluginFacts>> take_answer(const OpenFile& file, const ProbeAnswer& answer, bool remembered,
                                               Recorder& record) {
  for (const ProbeStep& step : answer.steps) {
    const std::string reason = step.reason + (remembered ? " (remembered from an earlier probe)" : "");
    record.note(step.step, step.outcome, reason, remembered ? 0 : step.time_ns);
    if (step.outcome == Outcome::kRefused) return Error{step.code, step.reason};
  }
  if (answer.facts) return answer.facts;
  return record.refuse(
      Step::kProbe,
      {ErrorCode::kBadInput, fmt::format("plugin {}: the probe ended without an answer", file.path().string())}, 0);
}

Result<std::optional<PluginFacts>> probe(const Candidate& candidate, const OpenFile& file, const LoadPolicy& policy,
                                         Recorder& record) {
  if (!policy.probe) return inspect_here(candidate, file, "switched off by the policy", Outcome::kSkipped, record);
  if (const auto answer = remembered_answer(file, policy)) return take_answer(file, *answer, true, record);
  const Stopwatch time;
  const Result<ProbeAnswer> answer = run_probe(file, policy, ProbeDepth::kQuery);
  if (!answer) {
    const bool enforce = is_privileged() || policy.trust == TrustPolicy::kEnforce;
    if (enforce) return record.refuse(Step::kProbe, answer.error(), time.ns());
    return inspect_here(candidate, file, answer.error().message, Outcome::kWarned, record);
  }
  remember_answer(file, policy, *answer);
  return take_answer(file, *answer, false, record);
}

}  // namespace

Result<Examined> examine_candidate(const Candidate& candidate, const LoadPolicy& policy, DecisionLog& log) {
  Recorder record(candidate, log);
  CRUCIBLE_TRY_VOID(check_lists(candidate, policy, record));
  const Stopwatch time;
  Result<OpenFile> file = OpenFile::open(candidate.path);
  // Whom to trust is not the question where there is nothing that can be opened.
  if (!file) return record.refuse(Step::kInspect, file.error(), time.ns());
  if (is_judged_by_content(candidate, *file, policy)) {
    if (const Result<void> sealed = file->seal(); !sealed)
      return record.refuse(Step::kTrust, sealed.error(), time.ns());
  }
  CRUCIBLE_TRY_VOID(check_trust(candidate, *file, policy, record));
  CRUCIBLE_TRY(std::optional<PluginFacts> facts, probe(candidate, *file, policy, record));
  const bool probed = facts.has_value();
  if (!probed) facts.emplace().name = candidate.name;
  return Examined{candidate,     *std::move(file),  *std::move(facts), probed, record.take_warnings(),
                  policy.layers, policy.trace_file, policy.store};
}

std::optional<PluginFacts> remembered_facts(const Candidate& candidate, const LoadPolicy& policy) {
  if (!policy.probe) return std::nullopt;
  const Result<OpenFile> file = OpenFile::open(candidate.path);
  const std::optional<ProbeAnswer> answer = file ? remembered_answer(*file, policy) : std::nullopt;
  if (!answer) return std::nullopt;
  const bool is_refused =
      std::ranges::any_of(answer->steps, [](const ProbeStep& step) { return step.outcome == Outcome::kRefused; });
  return is_refused ? std::nullopt : answer->facts;
}

Result<PluginFacts> examine(const std::filesystem::path& path, const LoadPolicy& policy, DecisionLog& log) {
  CRUCIBLE_TRY(const Examined examined, examine_candidate(explicit_candidate(path), policy, log));
  return examined.facts;
}

Result<std::vector<DeviceInfo>> probe_devices(const Examined& plugin, const Options& options, const LoadPolicy& policy,
                                              DecisionLog& log) {
  Recorder record(plugin.candidate, log);
  const Stopwatch time;
  const Result<ProbeAnswer> answer = run_probe(plugin.file, policy, ProbeDepth::kDevices, options);
  if (!answer) return record.refuse(Step::kInit, answer.error(), time.ns());
  for (const ProbeStep& step : answer->steps) {
    if (step.step == Step::kInit) record.note(step.step, step.outcome, step.reason, step.time_ns);
    if (step.outcome == Outcome::kRefused) return Error{step.code, step.reason};
  }
  return answer->devices;
}

}  // namespace crucible::backend
