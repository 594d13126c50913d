#include "frontends/replay/run_timeline.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

namespace crucible::replay {
namespace {

using Json = nlohmann::ordered_json;
using runtime::Busy;

constexpr int kDeviceTrack = 1, kHostTrack = 2;

std::string name_of(const Busy& busy) {
  switch (busy.with) {
    case Busy::With::kPlan:
      return fmt::format("iteration {}", busy.iteration);
    case Busy::With::kInputs:
      return fmt::format("inputs of iteration {}", busy.iteration);
    case Busy::With::kCopies:
      return fmt::format("copies of iteration {}", busy.iteration);
    case Busy::With::kResults:
      return fmt::format("results of iteration {}", busy.iteration);
  }
  return "";
}

const char* category_of(Busy::With with) {
  switch (with) {
    case Busy::With::kPlan:
      return "run";
    case Busy::With::kInputs:
      return "inputs";
    case Busy::With::kCopies:
      return "copies";
    case Busy::With::kResults:
      return "results";
  }
  return "";
}

double to_us(std::uint64_t ns) { return static_cast<double>(ns) / 1e3; }

}  // namespace

Json timeline_trace(std::span<const Busy> all, const std::string& title) {
  Json events = Json::array();
  std::vector<std::string> devices;
  std::uint64_t first_ns = UINT64_MAX;
  for (const Busy& busy : all) {
    if (std::ranges::find(devices, busy.device) == devices.end()) devices.push_back(busy.device);
    first_ns = std::min(first_ns, busy.begin_ns);
  }
  const auto named = [&](const char* what, std::size_t process, int thread, const std::string& name) {
    events.push_back({{"ph", "M"}, {"name", what}, {"pid", process}, {"tid", thread}, {"args", {{"name", name}}}});
  };
  for (std::size_t i = 0; i < devices.size(); ++i) {
    named("process_name", i + 1, kDeviceTrack, fmt::format("{} ({})", devices[i], title));
    named("thread_name", i + 1, kDeviceTrack, devices[i]);
    named("thread_name", i + 1, kHostTrack, "host, for " + devices[i]);
  }
  for (const Busy& busy : all) {
    const auto device = static_cast<std::size_t>(std::ranges::find(devices, busy.device) - devices.begin());
    Json arguments = {{"device", busy.device},
                      {"iteration", busy.iteration},
                      {"measured_by", busy.by_device ? "events of the device" : "the host's clock"}};
    if (busy.with == Busy::With::kPlan) arguments["part"] = busy.part;
    events.push_back({{"ph", "X"},
                      {"name", name_of(busy)},
                      {"cat", category_of(busy.with)},
                      {"pid", device + 1},
                      {"tid", busy.with == Busy::With::kPlan ? kDeviceTrack : kHostTrack},
                      {"ts", to_us(busy.begin_ns - first_ns)},
                      {"dur", to_us(busy.end_ns - busy.begin_ns)},
                      {"args", std::move(arguments)}});
  }
  return {{"traceEvents", std::move(events)}, {"displayTimeUnit", "ns"}};
}

}  // namespace crucible::replay
