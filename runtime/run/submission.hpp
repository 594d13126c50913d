// Plans in flight on one device: the one place in which a session submits work. Each plan runs when all that was
// submitted here before it is done, on a timeline whose points say which of them are.
//
// Who waits: wait() alone, and the destructor. What fails ends everything that was submitted behind it, with the same
// error; so does a device that is lost, for all that is in flight on it. Nothing hangs: each point is reached or
// answers an error. What is submitted after a failure begins anew.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "core/base/result.hpp"
#include "plugins/loader/backend.hpp"

namespace crucible::runtime {

/// What the device or the host was busy with, for a picture of who did what at the same time. Units: nanoseconds of the
/// host's steady clock.
struct Busy {
  enum class With : std::uint8_t { kPlan, kInputs, kCopies, kResults };
  std::string device;                     // its id
  With with = With::kPlan;                // kPlan: the device; else the host
  std::uint32_t iteration = 0, part = 0;  // part: of an iteration that runs in several plans
  std::uint64_t begin_ns = 0, end_ns = 0;
  bool by_device = false;  // by events of the device; else by the host's clock
};

/// Collects what sessions were busy with. Threads: one at a time.
class BusyTimes {
 public:
  void add(Busy busy) { all_.push_back(std::move(busy)); }
  const std::vector<Busy>& all() const { return all_; }

 private:
  std::vector<Busy> all_;
};

/// Now, by the clock of Busy.
std::uint64_t steady_ns();

/// Threads: one caller at a time.
class Submissions {
 public:
  explicit Submissions(std::shared_ptr<backend::Device> device) : device_(std::move(device)) {}
  /// The point that is reached when the plan has run. It begins at the latest when somebody waits. Plan and device
  /// memory live until then. Errors: those of the device.
  Result<std::uint64_t> submit(const backend::Plan& plan);
  /// What was submitted begins now, whoever waits for it: the caller has other things to do meanwhile.
  Result<void> start();
  /// Errors: what the plan of this point, or one before it, ended with.
  Result<void> wait(std::uint64_t point);
  /// Of what was submitted last; 0 before anything was.
  std::uint64_t last() const { return last_; }
  /// Waits until nothing is in flight, whatever it ends with.
  void settle();
  /// Nothing where the plugin does not say.
  std::optional<backend::Timeline::Times> times(std::uint64_t point) const;

 private:
  struct Lane {
    backend::Timeline done;
    backend::Queue queue;  // destroyed first: until then work may name the timeline
  };
  std::shared_ptr<backend::Device> device_;
  std::optional<Lane> lane_;  // none before the first plan, and after a failure
  std::uint64_t last_ = 0;
};

}  // namespace crucible::runtime
