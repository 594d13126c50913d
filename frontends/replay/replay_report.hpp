// What a replay did, as data and as JSON (the keys are described in docs/replay.md). The words for a person are the
// command's.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "core/hardware/roofline.hpp"
#include "runtime/run/reroute.hpp"
#include "core/trace/trace.hpp"
#include "core/trace/unrecorded.hpp"
#include "frontends/replay/arranged.hpp"
#include "frontends/replay/next_device.hpp"
#include "frontends/replay/replay_counters.hpp"

namespace crucible::replay {

/// What went before the first iteration. Units: nanoseconds.
struct StartTimes {
  std::uint64_t read = 0;     // the recording read and lowered
  std::uint64_t open = 0;     // the plugin loaded, the device opened
  std::uint64_t prepare = 0;  // scheduled, planned, compiled or found, tried; the states are on the device
  std::uint64_t states = 0;   // the part of `prepare` that reading and writing the states took
};

/// Borrows everything that the replay used; filled while it runs.
struct ReplayReport {
  std::string file;
  const trace::Trace& trace;
  const graph::Variants& variants;
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
  std::string times_from = {};  // what `profile` was measured by, in the plugin's words; "" where it does not say
  std::optional<hardware::DeviceProfile> device_profile = {};  // that the predictions go by
  std::vector<hardware::Prediction> predictions = {};          // per step; empty without a device profile
  ReplayCounters counters = {};
  std::optional<std::uint64_t> peak_bytes =
      {};  // of the device when the iterations were done: runs that explain differences take more
  std::optional<std::string> result_sha256 = {};  // runtime/judge/result_hash.hpp; with --verify or --hash
  std::vector<runtime::DeviceLoss> losses = {};  // in their order; mostly none
  std::vector<PassedOver> passed_over = {};      // devices that did not take over
  runtime::KeptStates kept = {};
  std::uint32_t keep_every = 0;                  // 0: states were not kept
  StartTimes start = {};

  /// The median of times_ns; 0 when there are none.
  double time_ns() const;
  /// Of the variant that the session's program(), schedule() and placement() are of: the one that ran last, or the
  /// first one after runs that explain a verdict.
  const graph::Program& program() const;
  /// What arranging the session's schedule in memory decided.
  ArrangedMemory arranged() const;
  nlohmann::ordered_json to_json() const;
};

}  // namespace crucible::replay
