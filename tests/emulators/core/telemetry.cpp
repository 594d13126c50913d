// The model of an idle device: see telemetry.hpp.
#include "tests/emulators/core/telemetry.hpp"

#include <time.h>

#include <vector>

#include "tests/emulators/core/settings.hpp"

namespace crucible::emulator {
namespace {

constexpr std::uint64_t kHotMegahertz = 600;

std::uint64_t uptime_us() {
  timespec now = {};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<std::uint64_t>(now.tv_sec) * 1'000'000 + static_cast<std::uint64_t>(now.tv_nsec) / 1000;
}

void wait_ms(double milliseconds) {
  const auto ns = static_cast<std::int64_t>(milliseconds * 1e6);
  const timespec wait = {.tv_sec = ns / 1'000'000'000, .tv_nsec = ns % 1'000'000'000};
  nanosleep(&wait, nullptr);
}

Telemetry idle() {
  Telemetry telemetry;
  telemetry.celsius = settings().celsius;
  telemetry.milliwatt = settings().watt * 1000;
  telemetry.energy_microjoule = uptime_us() * settings().watt;
  return telemetry;
}

}  // namespace

Query ask(std::string_view function, Concern concern) {
  std::vector<Action> possible = {Action::kFail, Action::kLost, Action::kDeny, Action::kMissing, Action::kSlow};
  if (concern == Concern::kTemperature) possible.push_back(Action::kHot);
  if (concern == Concern::kErrors) possible.push_back(Action::kEcc);
  if (concern == Concern::kEvents) possible.push_back(Action::kXid);
  Query query{.failure = {}, .telemetry = idle()};
  const std::optional<Rule> rule = faults().hit(Site::kQuery, function, possible);
  if (!rule) return query;
  Telemetry& telemetry = query.telemetry;
  switch (rule->action) {
    case Action::kHot:
      telemetry.is_hot = true;
      telemetry.celsius = rule->celsius;
      telemetry.megahertz = kHotMegahertz;
      break;
    case Action::kEcc:
      telemetry.uncorrected = rule->count;
      telemetry.corrected = rule->corrected;
      break;
    case Action::kXid:
      telemetry.event = rule->number;
      break;
    case Action::kSlow:
      if (rule->wait_ms) wait_ms(*rule->wait_ms);
      break;
    case Action::kOom:
    case Action::kHang:
    case Action::kTrap:
    case Action::kFlip:
    case Action::kFail:
    case Action::kLost:
    case Action::kDeny:
    case Action::kMissing:
      query.failure = rule;
      break;
  }
  return query;
}

}  // namespace crucible::emulator
