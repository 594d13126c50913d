// Decisions as text, and the log that keeps them.
#include "plugins/loader/decision.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdlib>
#include <nlohmann/json.hpp>
#include <utility>

#include "core/base/output.hpp"
#include "core/base/terminal.hpp"

namespace crucible::backend {

std::string_view step_name(Step step) {
  switch (step) {
    case Step::kCandidate:
      return "candidate";
    case Step::kLists:
      return "lists";
    case Step::kTrust:
      return "trust";
    case Step::kInspect:
      return "inspect";
    case Step::kDependency:
      return "dependency";
    case Step::kProbe:
      return "probe";
    case Step::kLoad:
      return "load";
    case Step::kQuery:
      return "query";
    case Step::kFill:
      return "fill";
    case Step::kCheck:
      return "check";
    case Step::kInit:
      return "init";
  }
  return "?";
}

std::string_view outcome_name(Outcome outcome) {
  switch (outcome) {
    case Outcome::kPassed:
      return "passed";
    case Outcome::kWarned:
      return "warned";
    case Outcome::kRefused:
      return "refused";
    case Outcome::kSkipped:
      return "skipped";
  }
  return "?";
}

std::string to_json_line(const Decision& decision) {
  const nlohmann::ordered_json line = {{"step", step_name(decision.step)}, {"outcome", outcome_name(decision.outcome)},
                                       {"plugin", decision.plugin},        {"path", decision.path.string()},
                                       {"reason", decision.reason},        {"time_ns", decision.time_ns}};
  return line.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

DecisionLog::~DecisionLog() {
  if (descriptor_ >= 0) close(descriptor_);
}

void DecisionLog::add(Decision decision) {
  const std::lock_guard lock(mutex_);
  if (descriptor_ >= 0) {
    const std::string line = to_json_line(decision) + "\n";
    // One write per line: several processes may append to one file. A full disk must not keep a plugin from loading.
    [[maybe_unused]] const ssize_t written = write(descriptor_, line.data(), line.size());
  }
  decisions_.push_back(std::move(decision));
}

std::vector<Decision> DecisionLog::all() const {
  const std::lock_guard lock(mutex_);
  return decisions_;
}

std::vector<Decision> DecisionLog::of(std::string_view plugin) const {
  const std::lock_guard lock(mutex_);
  std::vector<Decision> result;
  for (const Decision& decision : decisions_) {
    if (decision.plugin == plugin) result.push_back(decision);
  }
  return result;
}

Result<void> DecisionLog::append_to(const std::filesystem::path& file) {
  const std::lock_guard lock(mutex_);
  if (descriptor_ >= 0) close(std::exchange(descriptor_, -1));
  CRUCIBLE_TRY(descriptor_, open_to_append(file));
  return {};
}

DecisionLog& process_log() {
  static DecisionLog* const log = [] {
    auto* const made = new DecisionLog;  // never destroyed: plugins are loaded until the very end
    // secure_getenv: a process with raised rights writes no file that its user's environment names.
    if (const char* file = secure_getenv("CRUCIBLE_DECISIONS"); file != nullptr && *file != 0) {
      if (const Result<void> opened = made->append_to(file); !opened) {
        tell("crucible: warning: CRUCIBLE_DECISIONS: {}\n", opened.error().message);
      }
    }
    return made;
  }();
  return *log;
}

}  // namespace crucible::backend
