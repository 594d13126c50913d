// Exclusions are data: which cases are known to fail or are not to be run, and why. One JSON file:
//   [{"case": "behaviour.queue.*", "kind": "expected-to-fail", "reason": "the driver loses signals, see its bug 12"}]
// kinds are expected-to-fail and skip; `*` in a case stands for any characters. A reason is mandatory.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/result.hpp"
#include "plugins/conformance/result.hpp"

namespace crucible::conformance {

enum class ExclusionKind : std::uint8_t { kExpectedToFail, kSkip };

struct Exclusion {
  std::string pattern;
  ExclusionKind kind = ExclusionKind::kExpectedToFail;
  std::string reason;
};

/// True when `name` is what the pattern describes; `*` stands for any characters.
bool matches(std::string_view pattern, std::string_view name);

/// Errors: kBadInput naming the entry and what is wrong with it.
Result<std::vector<Exclusion>> parse_exclusions(const std::string& json_text, const std::string& where);
Result<std::vector<Exclusion>> read_exclusions(const std::filesystem::path& file);

/// The first exclusion that describes the case, or null.
const Exclusion* find_exclusion(const std::vector<Exclusion>& exclusions, std::string_view name);

/// Turns a failure into an expected one and a pass into an unexpected one; other outcomes stay.
void apply(const Exclusion& exclusion, CaseResult& result);

}  // namespace crucible::conformance
