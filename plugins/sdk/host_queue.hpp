// Queues and timelines on the host, for a device that has none of its own: work is done in the order of its submission,
// by a thread of the queue or by whoever waits for it, and a timeline is a number under a mutex. A plugin's queue table
// is a thin layer over this.
#pragma once

#include <array>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "plugins/abi/crucible_plugin.h"
#include "plugins/sdk/error.hpp"

namespace crucible::sdk {

/// A timeout from which on nobody looks at the clock. Units: nanoseconds; 146 years.
inline constexpr std::uint64_t kForEver = std::uint64_t{1} << 62;

/// When work began and ended. Units: nanoseconds of the host's steady clock (CLOCK_MONOTONIC).
struct WorkTimes {
  std::uint64_t value = 0, begin_ns = 0, end_ns = 0;  // value: of the timeline, that the work signalled
};

/// A number that only grows, or a failure that stays. Threads: any.
class HostTimeline {
 public:
  explicit HostTimeline(std::uint64_t initial) : value_(initial) {}
  /// Errors: the failure.
  std::uint64_t value() const;
  /// Errors: the failure; INVALID_ARGUMENT when the value does not grow.
  void signal(std::uint64_t value);
  /// The same for work that ran, whose times are kept for a while.
  void signal(const WorkTimes& work);
  /// From now on everything answers this failure; the first one stays.
  void poison(const Failure& failure);
  /// True too where it has failed: nobody needs to wait any more.
  bool is_reached(std::uint64_t value) const;
  /// What was reached before a failure stays reached. Errors: the failure; CANCELLED when the time is over.
  void wait(std::uint64_t value, std::uint64_t timeout_ns) const;
  /// Of the work that signalled this value. Errors: the failure; UNAVAILABLE where none did, or more than kKept values
  /// ago.
  WorkTimes times(std::uint64_t value) const;

  static constexpr std::size_t kKept = 16;

 private:
  void check() const;              // the caller holds the mutex
  void grow(std::uint64_t value);  // likewise
  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  std::uint64_t value_;
  std::optional<Failure> failed_;
  std::array<WorkTimes, kKept> times_{};
  std::size_t next_ = 0;  // of times_, which is written in turn
};

/// The timelines of one device. One that is lost ends everything that is in flight on it: each of its timelines, and
/// each that is made later, answers the same one error. Threads: any.
class DeviceTimelines {
 public:
  std::shared_ptr<HostTimeline> make(std::uint64_t initial);
  void forget(const std::shared_ptr<HostTimeline>& timeline);
  /// The first failure stays.
  void lose(const Failure& failure);
  /// Nothing while the device lives.
  std::optional<Failure> lost() const;

 private:
  mutable std::mutex mutex_;
  std::vector<std::shared_ptr<HostTimeline>> alive_;
  std::optional<Failure> lost_;
};

class HostQueue {
 public:
  /// A timeline and a value of it; shared, so that destroying a timeline under submitted work is no crash.
  struct Point {
    std::shared_ptr<HostTimeline> timeline;
    std::uint64_t value = 0;
  };

  /// `timelines` outlives the queue: those of its device.
  explicit HostQueue(DeviceTimelines& timelines) : timelines_(timelines) {}
  /// Waits for what was submitted.
  ~HostQueue();
  HostQueue(const HostQueue&) = delete;
  HostQueue& operator=(const HostQueue&) = delete;

  /// When all waits are reached, `work` is done, then the signals are given; what fails poisons them. Never waits. It
  /// may begin as late as flush() or run_here(). Threads: one caller at a time.
  void submit(std::function<void()> work, std::vector<Point> waits, std::vector<Point> signals);
  /// The queue's thread does what was submitted. Threads: any.
  void flush();
  /// The calling thread does what was submitted and need not wait for anything, in order, until `timeline` is at
  /// `value`; the rest is the queue's thread's. Threads: any.
  void run_here(const HostTimeline& timeline, std::uint64_t value);
  /// Whether nothing is submitted that has not ended.
  bool is_idle() const;
  /// After flush(). False when there is still work after that time. Threads: any.
  bool wait_idle(std::uint64_t timeout_ns) const;

 private:
  struct Job {
    std::function<void()> work;
    std::vector<Point> waits, signals;
    bool is_ready() const;
  };
  void run(Job& job);
  void serve();
  void run_first(std::unique_lock<std::mutex>& lock);  // the caller holds the mutex, and nobody is busy
  void release(std::unique_lock<std::mutex>& lock);
  DeviceTimelines& timelines_;
  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  std::deque<Job> jobs_;
  bool busy_ = false;      // somebody does a job: one at a time, whichever thread that is
  bool released_ = false;  // the thread may take jobs; where nobody has said so they wait for run_here()
  bool stopping_ = false;
  std::optional<std::thread> thread_;  // from the first flush() on that had something to do
};

}  // namespace crucible::sdk
