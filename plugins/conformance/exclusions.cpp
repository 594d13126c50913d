// Reading and applying exclusions: see exclusions.hpp.
#include "plugins/conformance/exclusions.hpp"

#include <fmt/format.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

namespace crucible::conformance {

bool matches(std::string_view pattern, std::string_view name) {
  std::size_t p = 0, n = 0, star = std::string_view::npos, tried = 0;
  while (n < name.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      tried = n;
    } else if (p < pattern.size() && pattern[p] == name[n]) {
      ++p, ++n;
    } else if (star != std::string_view::npos) {
      p = star + 1;
      n = ++tried;
    } else {
      return false;
    }
  }
  while (p < pattern.size() && pattern[p] == '*') ++p;
  return p == pattern.size();
}

Result<std::vector<Exclusion>> parse_exclusions(const std::string& json_text, const std::string& where) {
  const auto document = nlohmann::json::parse(json_text, nullptr, false);
  if (!document.is_array()) {
    return Error{ErrorCode::kBadInput,
                 fmt::format("{}: exclusions are a JSON list of objects with case, kind and reason", where)};
  }
  std::vector<Exclusion> result;
  for (const auto& entry : document) {
    const std::string place = fmt::format("{}: exclusion {}", where, result.size());
    Exclusion exclusion;
    for (const auto& [key, target] : {std::pair("case", &exclusion.pattern), {"reason", &exclusion.reason}}) {
      if (!entry.is_object() || !entry.contains(key) || !entry[key].is_string() ||
          entry[key].get<std::string>().empty()) {
        return Error{ErrorCode::kBadInput, fmt::format("{} has no text '{}'", place, key)};
      }
      *target = entry[key];
    }
    const std::string kind =
        entry.contains("kind") && entry["kind"].is_string() ? entry["kind"].get<std::string>() : "";
    if (kind != "expected-to-fail" && kind != "skip") {
      return Error{ErrorCode::kBadInput, fmt::format("{} has kind '{}': use expected-to-fail or skip", place, kind)};
    }
    exclusion.kind = kind == "skip" ? ExclusionKind::kSkip : ExclusionKind::kExpectedToFail;
    result.push_back(std::move(exclusion));
  }
  return result;
}

Result<std::vector<Exclusion>> read_exclusions(const std::filesystem::path& file) {
  std::ifstream stream(file, std::ios::binary);
  std::stringstream text;
  text << stream.rdbuf();
  if (!stream) return Error{ErrorCode::kBadInput, fmt::format("cannot read the exclusions {}", file.string())};
  return parse_exclusions(text.str(), file.string());
}

const Exclusion* find_exclusion(const std::vector<Exclusion>& exclusions, std::string_view name) {
  for (const Exclusion& exclusion : exclusions) {
    if (matches(exclusion.pattern, name)) return &exclusion;
  }
  return nullptr;
}

void apply(const Exclusion& exclusion, CaseResult& result) {
  if (result.outcome == Outcome::kFailed) {
    result.outcome = Outcome::kExpectedFailure;
    result.got += " (expected: " + exclusion.reason + ")";
  } else if (result.outcome == Outcome::kPassed) {
    result.outcome = Outcome::kUnexpectedPass;
    result.expected = "the case fails, because the exclusions say so: " + exclusion.reason;
    result.got = "it passed: take it out of the exclusions";
  }
}

}  // namespace crucible::conformance
