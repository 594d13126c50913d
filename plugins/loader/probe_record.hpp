// What a probe answers: the steps that the child took and what it learned. As lines of JSON on the pipe between the
// child and the host, and in the cache.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/result.hpp"
#include "plugins/loader/backend.hpp"
#include "plugins/loader/decision.hpp"
#include "plugins/loader/facts.hpp"

namespace crucible::backend {

/// One of the steps kInspect, kDependency, kProbe, kInit, as the child took it.
struct ProbeStep {
  Step step = Step::kInspect;
  Outcome outcome = Outcome::kPassed;
  std::string reason;                        // one sentence
  ErrorCode code = ErrorCode::kUnavailable;  // of a refusal
  bool only_of_the_file = false;             // the refusal would be the same on every day on every machine
  std::uint64_t time_ns = 0;
};

struct ProbeAnswer {
  std::vector<ProbeStep> steps;
  std::string doing;                 // what the child was about to do last ("asking its query")
  std::optional<PluginFacts> facts;  // when the query was answered
  std::vector<DeviceInfo> devices;   // when they were asked for
  bool finished = false;             // the child has said all that it had to say
};

// Lines of JSON without a newline.
std::string step_line(const ProbeStep& step);
std::string doing_line(std::string_view what);
std::string facts_line(const PluginFacts& facts);
std::string device_line(const DeviceInfo& device);
std::string finished_line();

/// Adds what a line says to `answer`. False: it is none of the lines above.
bool take_line(std::string_view line, ProbeAnswer& answer);

}  // namespace crucible::backend
