// A run that outlives its device: when one is lost, a session on another takes its states and goes on from the last
// iteration of which there are any. Where the next device comes from is the caller's affair; one session on one device
// is session.hpp.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "runtime/run/session.hpp"

namespace crucible::runtime {

/// A device that was lost, and where the run went on.
struct DeviceLoss {
  std::string device, name;                // its id, and what it calls itself
  std::uint32_t iteration = graph::kNone;  // in which it was noticed; kNone: before the first or after the last
  std::string when = {};                   // the same in words: "in iteration 3 (of 0 to 7)"
  std::string reason = {};                 // with the steps, as far as they are known, and the plugin's words
  std::string went_on = {};                // the id of the device that took over; "" where none did
  std::uint32_t from_iteration = 0;        // the first that it ran: all before it are as the lost one left them
  std::uint32_t repeated = 0;              // iterations that ran again because their states were not kept
};

struct RerouteOptions {
  /// Makes a session of the same program on the next device; the lost one's is gone by then. Null: a loss is an error.
  std::function<Result<std::unique_ptr<Session>>(const DeviceLoss&)> next = nullptr;
  /// States are read back after every so many iterations; 0: never, so that a run begins anew elsewhere. Without `next`
  /// nothing is.
  std::uint32_t keep_every = 1;
  bool compare_outputs = false;                         // of each iteration, with the recorded ones
  std::function<void(std::uint32_t)> progress = nullptr;  // hears of each iteration before it runs
};

/// What keeping states cost.
struct KeptStates {
  std::uint32_t times = 0;
  std::uint64_t bytes = 0;  // of one time
  std::uint64_t ns = 0;     // of all, by the host's clock; no part of IterationResult::time_ns
};

/// Threads: one caller at a time.
class ReroutedRun {
 public:
  ReroutedRun(std::unique_ptr<Session> session, RerouteOptions options);
  /// Runs the iterations that are missing until `iterations` have run. Errors: those of Session; kUnavailable when the
  /// device was lost and none takes over, naming device, iteration, steps, and what to do.
  Result<void> run(std::uint32_t iterations);
  /// Asks something of the present session; when its device is lost meanwhile, the same of the next one, which has come
  /// as far.
  template <class Ask>
  auto ask(Ask&& what) -> decltype(what(std::declval<Session&>())) {
    for (;;) {
      auto answer = what(*session_);
      if (answer || session_->lost() == nullptr) return answer;
      if (Result<void> moved = move_on(graph::kNone, answer.error()); !moved) return moved.error();
    }
  }
  /// The one that ran last. After an error of run() or ask() there may be none.
  Session& session() { return *session_; }
  const std::vector<IterationResult>& results() const { return results_; }
  const std::vector<DeviceLoss>& losses() const { return losses_; }
  /// The first iteration of results() that ran on the present device.
  std::uint32_t first_here() const { return losses_.empty() ? 0 : losses_.back().from_iteration; }
  const KeptStates& kept() const { return kept_; }

 private:
  Result<void> run_one(std::uint32_t index);
  Result<void> keep();
  Result<void> move_on(std::uint32_t iteration, const Error& error);
  Result<void> catch_up(std::uint32_t iterations);

  std::unique_ptr<Session> session_;
  RerouteOptions options_;
  std::vector<IterationResult> results_;
  std::vector<DeviceLoss> losses_;
  Checkpoint last_, next_;  // two, so that a device that is lost while it is read spoils none
  KeptStates kept_;
};

/// "device acme:0 (its name) was lost in iteration 3 (of 0 to 7): ...".
std::string loss_text(const DeviceLoss& loss);
/// What to do about a loss where nothing may run elsewhere.
inline constexpr const char* kLossAdvice =
    "nothing may go on elsewhere (fallback = forbid): with --fallback warn or allow another device takes over; or see "
    "what became of this one, "
    "and run it again";

}  // namespace crucible::runtime
