// Queues and timelines on the host, for a device that has none of its own: one thread per queue does work in the order
// of its submission, a timeline is a number under a mutex. A plugin's queue table is a thin layer over this.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "plugins/abi/crucible_plugin.h"

namespace crucible::sdk {

/// A number that only grows, or a failure that stays. Threads: any.
class HostTimeline {
 public:
  explicit HostTimeline(std::uint64_t initial) : value_(initial) {}
  /// Errors: the failure.
  std::uint64_t value() const;
  /// Errors: the failure; INVALID_ARGUMENT when the value does not grow.
  void signal(std::uint64_t value);
  /// From now on everything answers this failure; the first one stays.
  void poison(crucible_code code, const std::string& reason);
  /// Errors: the failure; CANCELLED when the time is over.
  void wait(std::uint64_t value, std::uint64_t timeout_ns) const;

 private:
  void check() const;  // the caller holds the mutex
  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  std::uint64_t value_;
  crucible_code failed_ = CRUCIBLE_OK;
  std::string reason_;
};

class HostQueue {
 public:
  /// A timeline and a value of it; shared, so that destroying a timeline under submitted work is no crash.
  struct Point {
    std::shared_ptr<HostTimeline> timeline;
    std::uint64_t value = 0;
  };

  HostQueue();
  /// Waits for what was submitted.
  ~HostQueue();
  HostQueue(const HostQueue&) = delete;
  HostQueue& operator=(const HostQueue&) = delete;

  /// When all waits are reached, `work` runs on the queue's thread, then the signals are given; what fails poisons
  /// them. Never waits. Threads: one caller at a time.
  void submit(std::function<void()> work, std::vector<Point> waits, std::vector<Point> signals);
  /// False when there is still work after that time. Threads: any.
  bool wait_idle(std::uint64_t timeout_ns) const;

 private:
  struct Job {
    std::function<void()> work;
    std::vector<Point> waits, signals;
  };
  static void run(Job& job);
  void serve();
  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  std::deque<Job> jobs_;
  bool busy_ = false, stopping_ = false;
  std::thread thread_;  // last: it uses all of the above
};

}  // namespace crucible::sdk
