// A replay from its device to the last iteration: admitting the device, tuning, planning and compiling for it, and
// going on elsewhere when it is lost and the fallback policy allows that. What it did is told by replay_report.hpp.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "frontends/replay/next_device.hpp"
#include "runtime/run/reroute.hpp"
#include "runtime/run/submission.hpp"

namespace crucible::replay {

/// What is run, whatever the device.
struct ReplayWork {
  std::shared_ptr<const graph::Variants> variants;      // shared with the sessions
  std::shared_ptr<const trace::BlobStore> blobs;        // shared with the sessions
  bool fuse = true, compare_outputs = false;
  runtime::MemoryOptions memory = {};
  std::string tune = {};
  std::shared_ptr<runtime::BusyTimes> busy = nullptr;  // runtime::Options::busy
};

runtime::Fallback fallback_of(const config::Settings& settings);

/// Not thread-safe. Borrows what it is made from.
class ReplayRun {
 public:
  ReplayRun(ReplayWork work, OpenedDevice& opened, const DeviceChoice& choice, const Observer& observer);
  /// A session on the device that is open, or on the next one where it is lost on the way and something else may run.
  /// Errors: those of the stages; kUnavailable for a lost device that nobody replaces.
  Result<void> start();
  /// After start(): the iterations, and what is asked of their end.
  runtime::ReroutedRun& run() { return *run_; }
  const runtime::ReroutedRun& run() const { return *run_; }
  /// Every loss, those before the first iteration too.
  std::vector<runtime::DeviceLoss> losses() const;
  const std::vector<PassedOver>& passed_over() const { return next_.passed_over(); }
  const runtime::Options& options() const { return options_; }  // of the present session
  std::size_t measured_now() const { return measured_now_; }    // choices between library and generated kernels
  std::uint32_t keep_every() const { return keep_every_; }      // 0: the states of no iteration are kept

 private:
  Result<std::unique_ptr<runtime::Session>> prepare();
  Result<std::unique_ptr<runtime::Session>> take_over(const runtime::DeviceLoss& loss);
  void tell(const std::string& text) const;

  ReplayWork work_;
  OpenedDevice& opened_;
  NextDevice next_;
  const Observer& observer_;
  runtime::Options options_;
  std::size_t measured_now_ = 0;
  std::uint32_t keep_every_ = 0;
  std::vector<runtime::DeviceLoss> before_;  // losses before the first iteration
  std::optional<runtime::ReroutedRun> run_;
};

/// An error of measuring (--repeat, --profile, --counters, --sensitivity): where the device was lost, it says that
/// numbers of one device are not measured on another.
Error measuring_error(const runtime::Session& session, const Error& error);

}  // namespace crucible::replay
