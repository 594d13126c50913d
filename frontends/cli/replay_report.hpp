// What a replay did, as text and as JSON (the keys are described in docs/replay.md).
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "core/hardware/roofline.hpp"
#include "runtime/run/reroute.hpp"
#include "core/trace/trace.hpp"
#include "core/trace/unrecorded.hpp"
#include "frontends/cli/next_device.hpp"
#include "frontends/cli/replay_counters.hpp"

namespace crucible::cli {

/// What a person reads of a replay, in the order of the members; the verdict apart, for it has a colour.
struct ReplayText {
  std::string before, verdict, after;
};

/// Borrows everything that the replay used; filled while it runs.
struct ReplayReport {
  std::string file;
  const trace::Trace& trace;
  const graph::Program& program;
  const backend::Device* device;  // null: the reference interpreter
  const runtime::Session& session;
  const OpenedDevice& opened;
  runtime::Options options;
  std::size_t measured_now = 0;  // choices between library and generated kernel
  std::vector<runtime::IterationResult> results = {};
  std::optional<runtime::Verification> verification = {};
  std::vector<trace::UnrecordedWrite> unrecorded = {};  // with --verify
  std::vector<std::uint64_t> times_ns = {};  // the device's time of every timed iteration
  std::vector<std::uint64_t> profile = {};   // nanoseconds per step; empty when it was not asked for
  std::uint32_t profile_runs = 0;            // that `profile` has the medians of
  std::string times_from = {};               // what `profile` was measured by, in the plugin's words; "" where it does not say
  std::optional<hardware::DeviceProfile> device_profile = {};  // that the predictions go by
  std::vector<hardware::Prediction> predictions = {};          // per step; empty without a device profile
  ReplayCounters counters = {};
  std::optional<std::uint64_t> peak_bytes = {};   // of the device when the iterations were done: runs that explain differences take more
  std::optional<std::string> result_sha256 = {};  // runtime/judge/result_hash.hpp; with --verify
  std::vector<runtime::DeviceLoss> losses = {};  // in their order; mostly none
  std::vector<PassedOver> passed_over = {};      // devices that did not take over
  runtime::KeptStates kept = {};
  std::uint32_t keep_every = 0;                  // 0: states were not kept

  nlohmann::ordered_json to_json() const;
  ReplayText to_text() const;
};

}  // namespace crucible::cli
