// `crucible plugin check`: the conformance kit on one plugin. `check-case` is what it starts for each case.
#include <fmt/format.h>
#include <unistd.h>

#include <chrono>
#include <ctime>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <regex>
#include <thread>

#include "core/base/output.hpp"
#include "core/base/terminal.hpp"
#include "frontends/cli/plugin_command.hpp"
#include "plugins/conformance/certificate.hpp"
#include "plugins/conformance/check.hpp"

namespace crucible::cli {
namespace {

namespace kit = crucible::conformance;

std::vector<std::string> split(const std::string& text) {
  std::vector<std::string> parts;
  for (std::size_t start = 0; start < text.size();) {
    const std::size_t end = std::min(text.find(',', start), text.size());
    if (end > start) parts.push_back(text.substr(start, end - start));
    start = end + 1;
  }
  return parts;
}

Result<std::string> own_path() {
  std::error_code error;
  const std::filesystem::path path = std::filesystem::read_symlink("/proc/self/exe", error);
  if (error) return Error{ErrorCode::kUnavailable, "cannot find this program's own file: is /proc mounted?"};
  return path.string();
}

Result<kit::CheckOptions> to_options(const PluginCheckSwitches& switches) {
  kit::CheckOptions options;
  CRUCIBLE_TRY(const std::string self, own_path());
  options.command = {self, "plugin", "check-case"};
  options.settings.plugin = switches.path;
  options.settings.device = switches.device;
  options.settings.quick = switches.quick;
  for (const std::string& option : switches.options) {
    const std::size_t equal = option.find('=');
    if (equal == std::string::npos || equal == 0) {
      return Error{ErrorCode::kUsage, fmt::format("--set '{}': give option=value", option)};
    }
    options.settings.options[option.substr(0, equal)] = option.substr(equal + 1);
  }
  options.tiers = split(switches.tiers);
  options.filter = switches.filter;
  if (!switches.exclude.empty()) {
    CRUCIBLE_TRY(options.exclusions, kit::read_exclusions(switches.exclude));
  }
  options.limits.time_factor = switches.time_factor;
  options.jobs = switches.jobs != 0 ? switches.jobs : std::max(1u, std::thread::hardware_concurrency());
  return options;
}

/// One line that is written over on a terminal; a line per failure elsewhere.
void show_progress(const kit::CaseResult& result, std::size_t done, std::size_t total) {
  const bool failed = result.outcome == kit::Outcome::kFailed || result.outcome == kit::Outcome::kUnexpectedPass;
  const bool live = isatty(2) == 1;
  if (live) rewrite_line(fmt::format("[{}/{}] {}", done, total, result.name));
  if (failed && live) rewrite_line("");
  if (failed) tell("{}: {}\n", kit::outcome_name(result.outcome), result.name);
  if (live && done == total) rewrite_line("");
}

Result<int> list_cases(const kit::CheckOptions& options, bool json) {
  CRUCIBLE_TRY(const std::vector<kit::Case> cases, kit::choose_cases(options));
  if (json) {
    nlohmann::ordered_json document = {{"cases", nlohmann::ordered_json::array()}};
    for (const kit::Case& entry : cases)
      document["cases"].push_back(
          {{"name", entry.name}, {"tier", kit::tier_name(entry.tier)}, {"quick", entry.quick}, {"rule", entry.rule}});
    print_json(document);
  } else {
    std::vector<std::vector<std::string>> rows = {{"case", "quick", "rule"}};
    for (const kit::Case& entry : cases) rows.push_back({entry.name, entry.quick ? "quick" : "", entry.rule});
    print_out("{}", format_table(rows));
  }
  return 0;
}

}  // namespace

Result<int> run_plugin_check(const PluginCheckSwitches& switches) {
  if (!switches.make_key.empty()) {
    CRUCIBLE_TRY_VOID(kit::make_key(switches.make_key));
    if (switches.path.empty()) return 0;
  }
  CRUCIBLE_TRY(const kit::CheckOptions given, to_options(switches));
  if (switches.list) return list_cases(given, switches.json);
  if (switches.path.empty()) return Error{ErrorCode::kUsage, "which plugin? give the path of its shared object"};
  if (switches.certificate.empty() != switches.key.empty()) {
    return Error{ErrorCode::kUsage, "--certificate needs --key, and --key needs --certificate"};
  }
  if (!switches.certificate.empty() && !switches.filter.empty()) {
    return Error{ErrorCode::kUsage, "a certificate is about whole tiers: leave out --filter"};
  }
  kit::CheckOptions options = given;
  options.progress = show_progress;
  CRUCIBLE_TRY(const kit::Report report, kit::check_plugin(options));
  if (report.cases.empty()) return Error{ErrorCode::kUsage, "no case is left: --tier and --filter exclude all of them"};
  if (!switches.junit.empty()) CRUCIBLE_TRY_VOID(write_output(switches.junit, kit::to_junit(report)));
  if (!switches.certificate.empty()) {
    CRUCIBLE_TRY(const std::string text, kit::make_certificate(report, switches.key));
    CRUCIBLE_TRY_VOID(write_output(switches.certificate, text));
  }
  if (switches.json) {
    print_json(kit::to_json(report));
  } else {
    print_out("{}", kit::to_text(report, "crucible plugin check"));
  }
  return report.passed() ? 0 : exit_code(ErrorCode::kCheckFailed);
}

Result<int> run_plugin_check_case(const std::string& task) { return kit::run_child(task); }

}  // namespace crucible::cli
