// What became of one case, and of a whole run. Values only.
#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "plugins/conformance/case.hpp"

namespace crucible::conformance {

enum class Outcome : std::uint8_t {
  kPassed,
  kFailed,
  kUnsupported,      // the plugin lacks something optional: neither passed nor failed
  kExpectedFailure,  // failed, and an exclusion says that it would
  kUnexpectedPass,   // passed, though an exclusion says that it fails: counts as a failure
  kSkipped,          // an exclusion says not to run it
};
inline constexpr int kOutcomeCount = 6;
std::string_view outcome_name(Outcome outcome);

struct CaseResult {
  std::string name;
  Tier tier = Tier::kStatic;
  std::string rule;
  Outcome outcome = Outcome::kPassed;
  std::string expected, got;  // of a failure; `got` alone: why unsupported, excluded or skipped
  std::string output;         // what the child printed, at most its last kOutputBytes
  std::string facts;          // JSON that the case handed out
  std::uint64_t time_ns = 0;
};

/// Who was tested, as the plugin says it.
struct Identity {
  std::string name, vendor, version, build_id;
  std::uint32_t abi_major = 0, abi_minor = 0;
  std::string sha256;  // of the file
  std::string device_id, device_name, device_kind, driver;
  bool emulated = false;
};

/// An option that the plugin was given, and who said it: "--set", or a variable of the environment.
struct GivenOption {
  std::string name, value, from;
};

struct Report {
  std::string plugin;  // path
  Identity identity;
  bool quick = false;
  std::vector<GivenOption> options;  // without the folder of compiled kernels that each run has of its own
  std::vector<CaseResult> cases;
  std::uint64_t time_ns = 0;

  /// Per tier and outcome.
  std::uint32_t count(Tier tier, Outcome outcome) const;
  std::uint32_t count(Outcome outcome) const;
  /// True when nothing failed and no expected failure passed.
  bool passed() const;
};

/// Documents of a report; see docs/conformance.md for the keys.
nlohmann::ordered_json to_json(const Report& report);
std::string to_junit(const Report& report);
/// The table of tiers, then each failure with how to run it alone. `command` is put before the path.
std::string to_text(const Report& report, std::string_view command);

}  // namespace crucible::conformance
