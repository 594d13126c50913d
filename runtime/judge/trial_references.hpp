// What compiled kernels are compared with, made while they compile: that takes a kernel's IR and the plan, no device. A
// compiler leaves processors free now and then, and the thread here has a low priority, so that it takes little else.
// Whoever needs references when the compiler is done takes those that are there, and makes the others from the end
// while the thread goes on from the front.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "core/base/result.hpp"
#include "core/graph/program.hpp"
#include "core/kernel/schedule.hpp"
#include "plugins/loader/backend.hpp"
#include "runtime/judge/trial.hpp"
#include "runtime/plan/placement.hpp"

namespace crucible::runtime {

/// What is to be tried: kernels of a schedule on a device.
struct TrialPlace {
  std::shared_ptr<backend::Device> device;
  const graph::Program& program;
  const kernel::Schedule& schedule;
  const Placement& placement;

  /// A device of kind `null` computes nothing.
  bool computes() const { return device->info().kind != "null"; }
};

class TrialReferences {
 public:
  struct Made {
    std::unique_ptr<TrialSubject> subject;  // what the reference points to
    std::optional<Result<TrialReference>> reference;
  };

  /// What `place` refers to outlives this.
  explicit TrialReferences(const TrialPlace& place);
  ~TrialReferences();
  TrialReferences(const TrialReferences&) = delete;
  TrialReferences& operator=(const TrialReferences&) = delete;

  /// The step on which a kernel is tried; nothing where none launches it.
  std::optional<std::uint32_t> step_of(std::string_view kernel) const;
  /// What its trial takes of the device.
  std::uint64_t bytes_of(std::string_view kernel) const;
  Nearness nearness() const;

  /// Begins with those of `sources`, in this order, after `wait` in which the compiler may find all of them in its
  /// cache. Once.
  void start(const std::vector<backend::KernelSource>& sources, std::chrono::milliseconds wait);
  /// No further ones are begun.
  void stop();

  /// Those of all other kernels are not needed any more.
  void want(const std::set<std::string_view>& kernels);
  /// The next reference, of a kernel that was begun and is wanted, and its name; each once, in no order. Threads: one
  /// taker.
  struct Next {
    std::string kernel;
    Result<Made> made;
  };
  std::optional<Next> next();
  /// Frees what was made, on the thread where there is one.
  void give_back(Made made);
  /// Of one kernel, here and now. Errors: its IR cannot be read.
  Result<Made> make(const backend::KernelSource& source) const;
  /// Made anew, of all passes and with other numbers.
  static void make_whole(Made& made, Nearness nearness);

  std::uint64_t processor_ns() const { return processor_ns_; }  // of the thread

 private:
  enum class State : std::uint8_t { kWaits, kIsMade, kIsThere, kIsTaken };
  struct Entry {
    backend::KernelSource source;
    State state = State::kWaits;
    std::optional<Result<Made>> made;
    std::uint64_t bytes = 0;  // that it holds
  };

  TrialSubject subject_of(std::uint32_t step) const;  // without the kernel
  std::vector<std::uint32_t> memories_of(const kernel::Step& step) const;
  void work(std::chrono::milliseconds wait);
  std::optional<Result<Made>> take(Entry& entry);

  const TrialPlace place_;
  std::vector<graph::Number> slots_;  // in the first iteration
  std::map<std::string, std::uint32_t, std::less<>> steps_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Entry> entries_;
  std::deque<std::size_t> there_;  // entries, as they were made
  std::uint64_t ahead_bytes_ = 0;  // of those
  std::size_t back_ = 0;           // entries that are not yet taken from the end
  std::vector<Made> done_;         // given back
  bool is_stopped_ = false;
  std::atomic<std::uint64_t> processor_ns_ = 0;
  std::thread thread_;
};

}  // namespace crucible::runtime
