// Sizes with units, and the words for the objectives.
#include "frontends/cli/memory_switches.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

#include "runtime/plan/arrange.hpp"
#include "frontends/cli/terminal_observer.hpp"
#include "frontends/replay/device_profiles.hpp"

namespace crucible::cli {
namespace {

/// 0 when there is no such unit.
double unit(std::string text) {
  std::ranges::transform(text, text.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  if (text.empty() || text == "b") return 1;
  constexpr std::string_view kPrefixes = "kmgtp";
  const std::size_t power = kPrefixes.find(text[0]);
  if (power == std::string_view::npos) return 0;
  const std::string_view rest = std::string_view(text).substr(1);
  if (rest == "ib") return std::pow(1024.0, static_cast<double>(power + 1));
  return rest == "b" ? std::pow(1000.0, static_cast<double>(power + 1)) : 0;
}

}  // namespace

Result<std::uint64_t> parse_size(std::string_view text, std::string_view what) {
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  std::string_view rest = text.substr(static_cast<std::size_t>(end - text.data()));
  while (!rest.empty() && rest.front() == ' ') rest.remove_prefix(1);
  const double factor = unit(std::string(rest));
  const double bytes = number * factor;
  constexpr double kLargest = 9e18;
  if (error != std::errc() || factor == 0 || !std::isfinite(bytes) || bytes < 1 || bytes > kLargest) {
    return Error{
        ErrorCode::kUsage,
        fmt::format("{} '{}' is not a size: give bytes, or a number with KiB, MiB, GiB, KB, MB or GB", what, text)};
  }
  return static_cast<std::uint64_t>(bytes);
}

Result<runtime::MemoryOptions> memory_options(const MemorySwitches& switches, const DeviceChoice& device) {
  runtime::MemoryOptions options;
  if (!switches.profile.empty()) {
    CRUCIBLE_TRY(const config::Settings settings, load_settings(device, terminal()));
    CRUCIBLE_TRY(const std::vector<hardware::DeviceProfile> profiles, device_profiles(settings));
    CRUCIBLE_TRY(const hardware::DeviceProfile profile, choose_profile(profiles, switches.profile));
    options.costs = runtime::costs_of(profile);
  }
  options.objective = switches.objective == "fastest"        ? runtime::Objective::kFastest
                      : switches.objective == "least-memory" ? runtime::Objective::kLeastMemory
                                                             : runtime::Objective::kBalanced;
  if (switches.budget.empty()) return options;
  CRUCIBLE_TRY(options.budget_bytes, parse_size(switches.budget, "--memory-budget"));
  return options;
}

}  // namespace crucible::cli
