// Runs cases in child processes, several at once, each with a time limit and resource limits, and reads their verdicts.
// A crash, a hang, an exit or an abort of the child is that case's failure and nobody else's.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "core/base/result.hpp"
#include "plugins/conformance/case.hpp"
#include "plugins/conformance/result.hpp"

namespace crucible::conformance {

/// How a child is started: the words of the command; the runner appends the settings and the case as one argument.
using Command = std::vector<std::string>;

struct Limits {
  double time_factor = 1;          // on every case's own time limit
  std::uint64_t memory_bytes = 0;  // of the child's writable memory; 0: what the machine has
};

inline constexpr std::size_t kOutputBytes = 16384;

/// The results in the order of `cases`. `done` is called after each, in the order in which they end.
std::vector<CaseResult> run_cases(const Command& command, const Settings& settings, const std::vector<Case>& cases,
                                  const Limits& limits, unsigned jobs,
                                  const std::function<void(const CaseResult&)>& done);

/// What the child does: `argument` is what the runner appended. Returns the exit code; mostly it does not return.
int run_child(const std::string& argument);

/// The case that asks who the plugin is; its facts are an Identity. It is in no tier.
Case identify_case();

/// The case that asks which options the plugin takes, before it is started; in no tier.
Case options_case();

struct OptionFact {
  std::string name, variable;  // "" for an option without a variable
};

/// Nothing where the plugin cannot tell (ABI 0.1) or the facts are not those of options_case().
std::optional<std::vector<OptionFact>> parse_options(const std::string& facts);

/// Errors: kBadInput when the facts are not those of identify_case().
Result<Identity> parse_identity(const std::string& facts);

}  // namespace crucible::conformance
