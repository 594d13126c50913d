// The way of a check: is the file a plugin at all, who is it, then its cases.
#include "plugins/conformance/check.hpp"

#include <fmt/format.h>
#include <stdlib.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <map>
#include <optional>
#include <regex>
#include <span>

#include "core/base/hash.hpp"
#include "plugins/abi/crucible_plugin.h"
#include "plugins/conformance/elf_facts.hpp"

namespace crucible::conformance {
namespace {

/// A folder for the run, removed with all that plugins wrote there.
class RunFolder {
 public:
  RunFolder() {
    std::error_code error;
    std::filesystem::path parent = std::filesystem::temp_directory_path(error);
    if (error) parent = "/tmp";
    std::string name = (parent / "crucible-check-XXXXXX").string();
    if (mkdtemp(name.data()) != nullptr) path_ = name;
  }
  RunFolder(const RunFolder&) = delete;
  RunFolder& operator=(const RunFolder&) = delete;
  ~RunFolder() {
    std::error_code error;
    if (!path_.empty()) std::filesystem::remove_all(path_, error);
  }
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

Result<std::string> file_sha256(const std::filesystem::path& file) {
  std::ifstream stream(file, std::ios::binary);
  const std::string bytes{std::istreambuf_iterator<char>(stream), {}};
  if (!stream) return Error{ErrorCode::kBadInput, fmt::format("cannot read {}", file.string())};
  return sha256(std::as_bytes(std::span(bytes))).hex();
}

/// Errors: kBadInput when it is not a file, not an ELF object, or exports no query.
Result<void> look_at_file(const std::filesystem::path& file) {
  std::error_code error;
  if (!std::filesystem::is_regular_file(file, error)) {
    return Error{ErrorCode::kBadInput, fmt::format("{} is not a file", file.string())};
  }
  CRUCIBLE_TRY(const ElfFacts facts, read_elf(file));
  if (std::ranges::find(facts.exported, CRUCIBLE_QUERY_SYMBOL) == facts.exported.end()) {
    return Error{ErrorCode::kBadInput,
                 fmt::format("{} is not a Crucible plugin: it exports no {}", file.string(), CRUCIBLE_QUERY_SYMBOL)};
  }
  return {};
}

/// Gives the plugin what the environment says of its options, as a host would, where --set does not say otherwise.
/// Errors: kUsage for an option that it does not have.
Result<void> settle_options(CheckOptions& options, Report& report) {
  std::map<std::string, std::string>& given = options.settings.options;
  for (const auto& [name, value] : given) report.options.push_back({name, value, "--set"});
  const std::vector<CaseResult> asked =
      run_cases(options.command, options.settings, {options_case()}, options.limits, 1, [](const CaseResult&) {});
  const std::optional<std::vector<OptionFact>> known = parse_options(asked[0].facts);
  if (!known) return {};  // whoever does not load or crashes is told by the cases
  for (const GivenOption& option : report.options) {
    if (std::ranges::find(*known, option.name, &OptionFact::name) != known->end()) continue;
    std::string names;
    for (const OptionFact& fact : *known) names += (names.empty() ? "it has " : ", ") + fact.name;
    return Error{ErrorCode::kUsage, fmt::format("--set {}: the plugin has no such option; {}", option.name,
                                                names.empty() ? "it has none" : names)};
  }
  for (const OptionFact& fact : *known) {
    const char* const value = fact.variable.empty() ? nullptr : std::getenv(fact.variable.c_str());
    if (value == nullptr || *value == 0 || !given.try_emplace(fact.name, value).second) continue;
    report.options.push_back({fact.name, value, fact.variable});
  }
  return {};
}

}  // namespace

std::string_view tier_name(Tier tier) {
  static constexpr std::string_view kNames[kTierCount] = {"static", "negotiation", "api", "behaviour", "claims",
                                                          "stress", "faults",      "old", "ops"};
  return kNames[static_cast<std::size_t>(tier)];
}

std::vector<Case> all_cases() {
  std::vector<Case> all;
  for (auto* list : {static_cases, negotiation_cases, api_cases, behaviour_cases, claims_cases, stress_cases,
                     faults_cases, old_cases, ops_cases}) {
    for (Case& entry : list()) all.push_back(std::move(entry));
  }
  return all;
}

Result<std::vector<Case>> choose_cases(const CheckOptions& options) {
  for (const std::string& wanted : options.tiers) {
    bool known = false;
    for (int i = 0; i < kTierCount; ++i) known = known || tier_name(static_cast<Tier>(i)) == wanted;
    if (!known) {
      return Error{ErrorCode::kUsage,
                   fmt::format("there is no tier '{}': use static, negotiation, api, behaviour, claims, "
                               "stress, faults, old or ops",
                               wanted)};
    }
  }
  std::regex filter;
  try {
    filter.assign(options.filter);
  } catch (const std::regex_error& error) {
    return Error{ErrorCode::kUsage,
                 fmt::format("--filter '{}' is no regular expression: {}", options.filter, error.what())};
  }
  std::vector<Case> chosen;
  for (Case& entry : all_cases()) {
    const bool in_tier =
        options.tiers.empty() || std::ranges::find(options.tiers, tier_name(entry.tier)) != options.tiers.end();
    const bool in_filter = options.filter.empty() || std::regex_search(entry.name, filter);
    if (in_tier && in_filter && (entry.quick || !options.settings.quick)) chosen.push_back(std::move(entry));
  }
  return chosen;
}

Result<Report> check_plugin(const CheckOptions& given) {
  const auto start = std::chrono::steady_clock::now();
  CheckOptions options = given;
  CRUCIBLE_TRY(std::vector<Case> chosen, choose_cases(options));
  std::error_code error;
  options.settings.plugin = std::filesystem::absolute(options.settings.plugin, error);
  CRUCIBLE_TRY_VOID(look_at_file(options.settings.plugin));
  const RunFolder folder;
  if (folder.path().empty()) {
    return Error{ErrorCode::kUnavailable, "cannot make a folder for the run: set TMPDIR to a folder with space"};
  }
  options.settings.folder = folder.path();

  Report report;
  CRUCIBLE_TRY_VOID(settle_options(options, report));
  report.plugin = options.settings.plugin.string();
  report.quick = options.settings.quick;
  const std::vector<CaseResult> identified =
      run_cases(options.command, options.settings, {identify_case()}, options.limits, 1, [](const CaseResult&) {});
  if (identified[0].outcome != Outcome::kPassed) {
    return Error{ErrorCode::kUnavailable,
                 fmt::format("{} cannot be used: expected that {}; {}{}", report.plugin, identified[0].expected,
                             identified[0].got, identified[0].output.empty() ? "" : "\n" + identified[0].output)};
  }
  CRUCIBLE_TRY(report.identity, parse_identity(identified[0].facts));
  CRUCIBLE_TRY(report.identity.sha256, file_sha256(options.settings.plugin));
  options.settings.device = report.identity.device_id;

  std::vector<Case> to_run;
  std::vector<CaseResult> skipped;
  for (Case& entry : chosen) {
    const Exclusion* exclusion = find_exclusion(options.exclusions, entry.name);
    if (exclusion == nullptr || exclusion->kind != ExclusionKind::kSkip) {
      to_run.push_back(std::move(entry));
      continue;
    }
    CaseResult result;
    result.name = entry.name, result.tier = entry.tier, result.rule = entry.rule;
    result.outcome = Outcome::kSkipped;
    result.got = exclusion->reason;
    skipped.push_back(std::move(result));
  }
  std::size_t done = 0;
  const auto judge = [&](CaseResult& result) {
    const Exclusion* exclusion = find_exclusion(options.exclusions, result.name);
    if (exclusion != nullptr) apply(*exclusion, result);
  };
  report.cases =
      run_cases(options.command, options.settings, to_run, options.limits, options.jobs, [&](const CaseResult& result) {
        CaseResult shown = result;
        judge(shown);
        ++done;
        if (options.progress) options.progress(shown, done, to_run.size());
      });
  std::ranges::for_each(report.cases, judge);
  report.cases.insert(report.cases.end(), skipped.begin(), skipped.end());
  std::ranges::stable_sort(report.cases, {}, &CaseResult::tier);
  report.time_ns =
      static_cast<std::uint64_t>(std::chrono::nanoseconds(std::chrono::steady_clock::now() - start).count());
  return report;
}

}  // namespace crucible::conformance
