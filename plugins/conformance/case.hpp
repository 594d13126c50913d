// One conformance case: what it is called, which tier it belongs to, and the function that a child process runs. Each
// tier has a list of its own (tier_static.cpp and so on), check.cpp puts them together; how a case is run and judged is
// in runner.hpp.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace crucible::conformance {

/// In the order in which they run and are reported.
enum class Tier : std::uint8_t { kStatic, kNegotiation, kApi, kBehaviour, kClaims, kStress, kFaults, kOld, kOps };
inline constexpr int kTierCount = 9;
std::string_view tier_name(Tier tier);

/// What every case is told. The same for all cases of one run.
struct Settings {
  std::filesystem::path plugin;                // absolute
  std::string device;                          // "": the first one that the plugin enumerates
  std::map<std::string, std::string> options;  // what host.get_option answers
  std::filesystem::path folder;                // a folder of this run's own, gone afterwards
  bool quick = false;                          // fewer programs and rounds
};

struct Case {
  std::string name;  // "behaviour.memory.zero_filled": tier, topic, what
  Tier tier = Tier::kStatic;
  std::string rule;    // what the plugin must do, one sentence
  bool quick = false;  // part of the quick run
  std::function<void(const Settings&)> run;
  double time_limit_s = 30;  // of the whole child process
};

/// Every case there is, in the order of the tiers; those of the ops tier are made from the op table.
std::vector<Case> all_cases();

// One list per tier, each in a file tier_NAME.cpp.
std::vector<Case> static_cases();
std::vector<Case> negotiation_cases();
std::vector<Case> api_cases();
std::vector<Case> behaviour_cases();
std::vector<Case> claims_cases();
std::vector<Case> stress_cases();
std::vector<Case> faults_cases();
std::vector<Case> old_cases();
std::vector<Case> ops_cases();

}  // namespace crucible::conformance
