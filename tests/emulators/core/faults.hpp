// Faults on demand, by one grammar for all emulated vendors, in CRUCIBLE_EMU_FAULTS:
//   faults = rule {";" rule}
//   rule   = action [":" arg {"," arg}] "@" site ["(" glob ")"] [when]
//   action = oom | fail | lost | hang | trap | flip | slow | hot | ecc | xid | deny | missing
//   site   = init | alloc | free | copy | compile | load | launch | sync | record | submit | query
//   when   = "#" n  the n-th match | "#" n "+"  from the n-th on | "%" n  every n-th | nothing: each
//   arg    = 250ms | 1.5GBps | code=NAME | arg=K | byte=B | bit=N | celsius=C | count=N | corrected=N | number=N
// hot, ecc, xid, deny and missing are for the site query alone: telemetry.hpp.
// Each rule counts its own matches, so that a run can be repeated. A fired rule is one line of the log: a test whose
// fault did not fire has to fail. A misspelt rule ends the process.
#pragma once

#include <cstdint>
#include <expected>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace crucible::emulator {

enum class Action { kOom, kFail, kLost, kHang, kTrap, kFlip, kSlow, kHot, kEcc, kXid, kDeny, kMissing };
enum class Site { kInit, kAlloc, kFree, kCopy, kCompile, kLoad, kLaunch, kSync, kRecord, kSubmit, kQuery };
enum class When { kEach, kNth, kFromNth, kEveryNth };

std::string_view name(Action action);
std::string_view name(Site site);

struct Rule {
  Action action = Action::kFail;
  Site site = Site::kInit;
  std::string glob = "*";           // of the name at the site: a kernel, h2d, d2h, d2d, fill, or an entry point
  When when = When::kEach;
  std::uint64_t n = 0;
  std::optional<double> wait_ms;    // hang and slow; a hang without it lasts until the device is lost or reset
  double gigabytes_per_second = 0;  // slow
  std::string code;                 // the vendor's name of the error to answer; "": the usual one
  std::uint64_t arg = 0, byte = 0, bit = 0;  // flip: which argument's memory, which bit of it
  std::uint64_t celsius = 94;                // hot
  std::uint64_t count = 1, corrected = 0;    // ecc
  std::uint64_t number = 79;                 // xid
  std::uint64_t seen = 0;           // matches so far
};

/// Errors: which rule is wrong, and what could stand there.
std::expected<std::vector<Rule>, std::string> parse_faults(std::string_view text);

class Faults {
 public:
  Faults(std::vector<Rule> rules, std::string log_file);

  /// Counts this call for every rule that it matches and returns the first one that fires, which is logged as
  /// "action@site(name) match n". Rules of hot, ecc, xid, deny and missing do not see it. Threads: any.
  std::optional<Rule> hit(Site site, std::string_view name = "");
  /// The same for rules with a `possible` action; the others do not see it.
  std::optional<Rule> hit(Site site, std::string_view name, std::span<const Action> possible);
  /// One line for the log, without a rule: what was refused, what was found wrong. Threads: any.
  void note(std::string_view line);

 private:
  void append(const std::string& line);
  std::mutex mutex_;
  std::vector<Rule> rules_;
  std::string log_file_;
};

/// Those of the environment. Threads: any.
Faults& faults();
/// Reads them again: see reload_environment(), which calls it.
void reload_faults();

}  // namespace crucible::emulator
