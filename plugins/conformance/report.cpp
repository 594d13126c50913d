// A report as text, JSON and JUnit XML.
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "core/base/words.hpp"
#include "plugins/conformance/result.hpp"

namespace crucible::conformance {
namespace {

constexpr std::string_view kOutcomeNames[kOutcomeCount] = {"passed",           "failed",          "unsupported",
                                                           "expected failure", "unexpected pass", "skipped"};

bool is_failure(Outcome outcome) { return outcome == Outcome::kFailed || outcome == Outcome::kUnexpectedPass; }

std::string seconds(std::uint64_t time_ns) { return fmt::format("{:.3f}", static_cast<double>(time_ns) / 1e9); }

std::string indented(std::string_view text) {
  std::string result = "    | ";
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '\n') {
      result += text[i];
    } else if (i + 1 < text.size()) {
      result += "\n    | ";
    }
  }
  return result + "\n";
}

/// A word of a shell's command line.
std::string quoted(const std::string& word) {
  constexpr std::string_view kPlain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./:=,+@%";
  if (!word.empty() && word.find_first_not_of(kPlain) == std::string::npos) return word;
  std::string text = "'";
  for (const char letter : word) text += letter == '\'' ? std::string("'\\''") : std::string(1, letter);
  return text + "'";
}

/// What was neither passed nor failed, a line for each reason: "unsupported: REASON: CASE, CASE".
std::string set_aside(const Report& report) {
  std::vector<std::pair<std::string, std::string>> lines;  // reason, cases; in the order of the cases
  for (const CaseResult& entry : report.cases) {
    if (entry.outcome == Outcome::kPassed || is_failure(entry.outcome)) continue;
    const std::string reason = fmt::format("{}: {}", outcome_name(entry.outcome), entry.got);
    const auto line = std::ranges::find(lines, reason, &std::pair<std::string, std::string>::first);
    if (line == lines.end()) {
      lines.emplace_back(reason, entry.name);
    } else {
      line->second += ", " + entry.name;
    }
  }
  std::string text;
  for (const auto& [reason, cases] : lines) text += fmt::format("{}{}: {}\n", text.empty() ? "\n" : "", reason, cases);
  return text;
}

}  // namespace

std::string_view outcome_name(Outcome outcome) { return kOutcomeNames[static_cast<std::size_t>(outcome)]; }

std::uint32_t Report::count(Tier tier, Outcome outcome) const {
  std::uint32_t number = 0;
  for (const CaseResult& entry : cases) number += entry.tier == tier && entry.outcome == outcome;
  return number;
}

std::uint32_t Report::count(Outcome outcome) const {
  std::uint32_t number = 0;
  for (int tier = 0; tier < kTierCount; ++tier) number += count(static_cast<Tier>(tier), outcome);
  return number;
}

bool Report::passed() const { return count(Outcome::kFailed) + count(Outcome::kUnexpectedPass) == 0; }

nlohmann::ordered_json to_json(const Report& report) {
  const Identity& who = report.identity;
  nlohmann::ordered_json document;
  document["plugin"] = {{"path", report.plugin},    {"name", who.name},
                        {"vendor", who.vendor},     {"version", who.version},
                        {"build_id", who.build_id}, {"abi", fmt::format("{}.{}", who.abi_major, who.abi_minor)},
                        {"sha256", who.sha256}};
  document["device"] = {{"id", who.device_id},
                        {"name", who.device_name},
                        {"kind", who.device_kind},
                        {"driver", who.driver},
                        {"emulated", who.emulated}};
  document["quick"] = report.quick;
  document["options"] = nlohmann::ordered_json::array();
  for (const GivenOption& option : report.options)
    document["options"].push_back({{"name", option.name}, {"value", option.value}, {"from", option.from}});
  document["ok"] = report.passed();
  for (int i = 0; i < kOutcomeCount; ++i) {
    std::string key(kOutcomeNames[i]);
    for (char& c : key) c = c == ' ' ? '_' : c;
    document[key] = report.count(static_cast<Outcome>(i));
  }
  document["time_ns"] = report.time_ns;
  document["tiers"] = nlohmann::ordered_json::array();
  for (int tier = 0; tier < kTierCount; ++tier) {
    nlohmann::ordered_json row = {{"tier", tier_name(static_cast<Tier>(tier))}};
    for (int i = 0; i < kOutcomeCount; ++i) {
      std::string key(kOutcomeNames[i]);
      for (char& c : key) c = c == ' ' ? '_' : c;
      row[key] = report.count(static_cast<Tier>(tier), static_cast<Outcome>(i));
    }
    document["tiers"].push_back(row);
  }
  document["cases"] = nlohmann::ordered_json::array();
  for (const CaseResult& entry : report.cases) {
    nlohmann::ordered_json row = {{"name", entry.name},
                                  {"tier", tier_name(entry.tier)},
                                  {"outcome", outcome_name(entry.outcome)},
                                  {"time_ns", entry.time_ns}};
    if (!entry.expected.empty()) row["expected"] = entry.expected;
    if (!entry.got.empty()) row["got"] = entry.got;
    if (is_failure(entry.outcome) && !entry.output.empty()) row["output"] = entry.output;
    document["cases"].push_back(row);
  }
  return document;
}

std::string to_junit(const Report& report) {
  std::string text = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n";
  text += fmt::format("<testsuites name=\"crucible plugin check {}\" tests=\"{}\" failures=\"{}\" time=\"{}\">\n",
                      escape_markup(report.identity.name), report.cases.size(),
                      report.count(Outcome::kFailed) + report.count(Outcome::kUnexpectedPass), seconds(report.time_ns));
  for (int i = 0; i < kTierCount; ++i) {
    const auto tier = static_cast<Tier>(i);
    std::string cases;
    std::size_t count = 0, failures = 0, skipped = 0;
    for (const CaseResult& entry : report.cases) {
      if (entry.tier != tier) continue;
      ++count;
      cases += fmt::format("    <testcase classname=\"{}\" name=\"{}\" time=\"{}\">", tier_name(tier),
                           escape_markup(entry.name), seconds(entry.time_ns));
      if (is_failure(entry.outcome)) {
        ++failures;
        cases += fmt::format("<failure message=\"{}\">expected: {}\ngot: {}\n{}</failure>", escape_markup(entry.got),
                             escape_markup(entry.expected), escape_markup(entry.got), escape_markup(entry.output));
      } else if (entry.outcome != Outcome::kPassed) {
        ++skipped;
        cases += fmt::format("<skipped message=\"{}: {}\"/>", outcome_name(entry.outcome), escape_markup(entry.got));
      }
      cases += "</testcase>\n";
    }
    if (count == 0) continue;
    text += fmt::format("  <testsuite name=\"{}\" tests=\"{}\" failures=\"{}\" skipped=\"{}\">\n{}  </testsuite>\n",
                        tier_name(tier), count, failures, skipped, cases);
  }
  return text + "</testsuites>\n";
}

std::string to_text(const Report& report, std::string_view command) {
  const Identity& who = report.identity;
  std::string text = fmt::format("{} {} (ABI {}.{}) on {}: {}{}\n\n", who.name, who.version, who.abi_major,
                                 who.abi_minor, who.device_id, who.device_name, who.emulated ? " (emulated)" : "");
  std::string options;
  for (const GivenOption& option : report.options) {
    text.insert(text.size() - 1, fmt::format("with {} = {} ({})\n", option.name, option.value, option.from));
    options += fmt::format(" --set {}", quoted(fmt::format("{}={}", option.name, option.value)));
  }
  text += fmt::format("{:<12}{:>8}{:>8}{:>13}{:>19}{:>19}{:>9}\n", "tier", "passed", "failed", "unsupported",
                      "expected failures", "unexpected passes", "skipped");
  for (int i = 0; i < kTierCount; ++i) {
    const auto tier = static_cast<Tier>(i);
    const auto n = [&](Outcome outcome) { return report.count(tier, outcome); };
    std::uint32_t all = 0;
    for (int outcome = 0; outcome < kOutcomeCount; ++outcome) all += n(static_cast<Outcome>(outcome));
    if (all == 0) continue;
    text += fmt::format("{:<12}{:>8}{:>8}{:>13}{:>19}{:>19}{:>9}\n", tier_name(tier), n(Outcome::kPassed),
                        n(Outcome::kFailed), n(Outcome::kUnsupported), n(Outcome::kExpectedFailure),
                        n(Outcome::kUnexpectedPass), n(Outcome::kSkipped));
  }
  for (const CaseResult& entry : report.cases) {
    if (!is_failure(entry.outcome)) continue;
    text +=
        fmt::format("\n{}: {}\n  rule:     {}\n  expected: {}\n  got:      {}\n  alone:    {} {}{} --filter '^{}$'\n",
                    outcome_name(entry.outcome), entry.name, entry.rule, entry.expected, entry.got, command,
                    report.plugin, options, entry.name);
    if (!entry.output.empty()) text += "  its output:\n" + indented(entry.output);
  }
  text += set_aside(report);
  text += fmt::format("\n{}: {} cases, {} passed, {} failed, {} unsupported, in {:.1f} s\n",
                      report.passed() ? "PASSED" : "FAILED", report.cases.size(), report.count(Outcome::kPassed),
                      report.count(Outcome::kFailed) + report.count(Outcome::kUnexpectedPass),
                      report.count(Outcome::kUnsupported), static_cast<double>(report.time_ns) / 1e9);
  return text;
}

}  // namespace crucible::conformance
