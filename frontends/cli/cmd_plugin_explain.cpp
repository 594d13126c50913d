// `crucible plugin explain NAME`: what the loader decided about one plugin, step by step, and why. The plugin is
// examined and loaded as a command would load it, with the options of the configuration; it is started in a child
// process only.
#include <fmt/format.h>

#include <memory>
#include <nlohmann/json.hpp>

#include "core/base/terminal.hpp"
#include "frontends/cli/plugin_command.hpp"
#include "frontends/cli/plugin_words.hpp"
#include "frontends/cli/terminal_observer.hpp"
#include "frontends/config/load_policy.hpp"
#include "frontends/replay/open_device.hpp"
#include "frontends/replay/plugin_access.hpp"
#include "plugins/loader/examine.hpp"

namespace crucible::cli {
namespace {

using backend::Decision;
using nlohmann::ordered_json;

/// What each step asks, for a reader who has never heard of it.
std::string_view question(backend::Step step) {
  switch (step) {
    case backend::Step::kCandidate:
      return "where is it";
    case backend::Step::kLists:
      return "is it allowed";
    case backend::Step::kTrust:
      return "who can change it";
    case backend::Step::kInspect:
      return "is it a plugin for this machine";
    case backend::Step::kDependency:
      return "is all there that it needs";
    case backend::Step::kProbe:
      return "what does it answer, in a process of its own";
    case backend::Step::kLoad:
      return "does it load here";
    case backend::Step::kQuery:
      return "what does it answer here";
    case backend::Step::kFill:
      return "are its tables whole";
    case backend::Step::kCheck:
      return "is it what it said";
    case backend::Step::kInit:
      return "does it start";
  }
  return "";
}

Result<backend::Candidate> candidate_of(const std::string& name, const backend::LoadPolicy& policy,
                                        backend::DecisionLog& log) {
  if (name.find('/') == std::string::npos && !name.ends_with(".so")) return backend::find_candidate(name, policy, log);
  backend::Candidate candidate = backend::explicit_candidate(std::filesystem::absolute(name));
  log.add({backend::Step::kCandidate, backend::Outcome::kPassed, candidate.name, candidate.path, candidate.source, 0});
  return candidate;
}

/// All steps; the refusal, if any, is the last decision of the log.
Result<void> go_through(const std::string& name, config::Settings& settings, backend::DecisionLog& log) {
  const backend::LoadPolicy policy = config::load_policy(settings);
  CRUCIBLE_TRY(const backend::Candidate candidate, candidate_of(name, policy, log));
  CRUCIBLE_TRY(const backend::Examined examined, backend::examine_candidate(candidate, policy, log));
  const Result<backend::Options> options = options_of(settings, examined);
  CRUCIBLE_TRY(const auto loaded, backend::load_examined(examined, options ? *options : backend::Options(), log));
  if (!options) {
    log.add({backend::Step::kInit, backend::Outcome::kRefused, candidate.name, candidate.path,
             fmt::format("it was not started, for its options are wrong: {}", options.error().message), 0});
    return options.error();
  }
  CRUCIBLE_TRY(const auto devices, backend::probe_devices(examined, *options, policy, log));
  return {};
}

/// A reason of several lines, each below the first.
std::string indented(std::string text) {
  constexpr std::string_view kIndent = "     ";
  for (std::size_t at = 0; (at = text.find('\n', at)) != std::string::npos; at += kIndent.size())
    text.insert(++at, kIndent);
  return text;
}

void print_words(const std::string& name, const std::vector<Decision>& decisions, bool usable) {
  print_out("plugin {}: {}\n", name, usable ? "usable" : "not usable");
  int number = 0;
  for (const Decision& decision : decisions) {
    print_out("{:3}. {:<10} {:<8} {:>9}  {}?\n", ++number, step_name(decision.step), outcome_name(decision.outcome),
              decision.time_ns == 0 ? "-" : format_ns(static_cast<double>(decision.time_ns)), question(decision.step));
    print_out("     {}\n", indented(decision.reason));
  }
}

}  // namespace

Result<int> run_plugin_explain(const std::string& name, bool json, const std::string& decisions_file) {
  CRUCIBLE_TRY(config::Settings settings, load_settings({}, terminal()));
  backend::DecisionLog& log = backend::process_log();
  CRUCIBLE_TRY_VOID(write_decisions(log, decisions_file));
  const Result<void> result = go_through(name, settings, log);
  tell_warnings(settings, terminal());
  const std::vector<Decision> decisions = log.all();
  if (!result && decisions.empty()) return result.error();  // a name that is none
  if (json) {
    ordered_json document = {{"plugin", name},
                             {"usable", result.has_value()},
                             {"reason", result ? "" : result.error().message},
                             {"decisions", ordered_json::array()}};
    for (const Decision& decision : decisions) {
      document["decisions"].push_back(ordered_json::parse(to_json_line(decision)));
    }
    print_json(document);
  } else {
    print_words(name, decisions, result.has_value());
  }
  return result ? 0 : exit_code(result.error().code);
}

}  // namespace crucible::cli
