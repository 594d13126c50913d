// What the loader decided about each candidate, step by step, and why. Nothing about loading is silent: every step
// leaves a record, as JSON Lines for programs and in words for people (`crucible plugin explain`).
#pragma once

#include <cstdint>
#include <filesystem>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/result.hpp"

namespace crucible::backend {

/// The loader's steps, in their order.
enum class Step : std::uint8_t {
  kCandidate,   // found, and where
  kLists,       // allow and deny lists
  kTrust,       // owner, mode, pin
  kInspect,     // static inspection of the file, in the child
  kDependency,  // a missing library, and the package that has it
  kProbe,       // the query in a child process
  kLoad,        // dlopen
  kQuery,       // the query in this process
  kFill,        // tables copied and filled
  kCheck,       // mandatory tables, names, sizes
  kInit,        // init, at first use
};
std::string_view step_name(Step step);

enum class Outcome : std::uint8_t { kPassed, kWarned, kRefused, kSkipped };
std::string_view outcome_name(Outcome outcome);

struct Decision {
  Step step = Step::kCandidate;
  Outcome outcome = Outcome::kPassed;
  std::string plugin;          // its name, from the file name
  std::filesystem::path path;  // of the candidate
  std::string reason;          // one sentence; what to do when it was refused
  std::uint64_t time_ns = 0;   // what the step took
};

/// One line of JSON without a newline: step, outcome, plugin, path, reason, time_ns.
std::string to_json_line(const Decision& decision);

/// The decisions of one process, in order. Threads: any.
class DecisionLog {
 public:
  DecisionLog() = default;
  DecisionLog(const DecisionLog&) = delete;
  DecisionLog& operator=(const DecisionLog&) = delete;
  ~DecisionLog();
  void add(Decision decision);
  std::vector<Decision> all() const;
  std::vector<Decision> of(std::string_view plugin) const;
  /// From now on each decision is also appended to `file`, a line of JSON each. Errors: kBadInput with
  /// the reason: a link of that name, a folder that is not there.
  Result<void> append_to(const std::filesystem::path& file);

 private:
  mutable std::mutex mutex_;
  std::vector<Decision> decisions_;
  int descriptor_ = -1;  // of the file of append_to
};

/// The log of whoever gives none. It is written to the file that CRUCIBLE_DECISIONS names, unless the process has
/// raised rights.
DecisionLog& process_log();

}  // namespace crucible::backend
