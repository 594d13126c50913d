// Which device a program runs on: candidates, their scores, and why each was or was not chosen.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "core/base/result.hpp"
#include "frontends/config/settings.hpp"
#include "frontends/replay/observer.hpp"
#include "plugins/loader/backend.hpp"

namespace crucible::replay {

/// What is to be run, for devices that are asked how fast they would be. Zeros: unknown.
struct Workload {
  std::uint64_t ops = 0, flops = 0, bytes = 0, peak_bytes = 0;
};
/// Works it out when it is needed: it takes a schedule and a memory plan.
using WorkloadSource = std::function<Result<Workload>()>;

/// One device of one plugin, or a plugin that could not be used at all (then `device` is empty).
struct Candidate {
  std::string plugin, device, name;
  bool eligible = false, scored = false, chosen = false;
  std::uint64_t score = 0, threads = 0, memory_bytes = 0;
  std::string reason;                         // why it is refused, or how its score came about
  std::shared_ptr<backend::Backend> backend;  // shared: kept until the choice is made
};

/// What `device` in the configuration means.
struct DeviceAddress {
  enum class Kind : std::uint8_t { kFirst, kId, kIndex, kUuid, kPci } kind = Kind::kFirst;
  std::string text;    // as written; for kUuid and kPci without the prefix
  std::string plugin;  // kIndex: before the colon
  std::uint64_t index = 0;
};
DeviceAddress parse_device(const std::string& text);
/// True when `info`, the device number `index` of `plugin`, is the addressed one; case does not count in marks.
bool matches(const DeviceAddress& address, const std::string& plugin, const backend::DeviceInfo& info,
             std::size_t index);

/// Every device of every plugin that fits the address, judged for the workload: an emulated one and one with less
/// memory than the plan needs are refused, and a plugin whose threads cannot be set when `threads` (of --threads) is
/// not 0. In the order of plugins' names and their devices.
std::vector<Candidate> judge_candidates(config::Settings& settings, const DeviceAddress& address,
                                        const Workload& workload, std::int64_t threads, const Observer& observer);

/// The best one that is eligible: scored ones before others, by score; the others by threads, then memory; of equals
/// the first. candidates.size() when there is none.
std::size_t best_candidate(const std::vector<Candidate>& candidates);

/// A table of all candidates: plugin, device, score, verdict.
std::string explain(const std::vector<Candidate>& candidates);

}  // namespace crucible::replay
