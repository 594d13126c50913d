// The threads of a device, and how they wait: for a moment awake, longer only for one that is seen to run, else asleep.
#pragma once

#include <sched.h>
#include <signal.h>
#include <sys/types.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <thread>
#include <vector>

#include "backends/cpu/crew.hpp"
#include "backends/cpu/fork.hpp"

namespace crucible_cpu {

/// What a crew asks of the machine (crew.hpp).
class LinuxThreads {
 public:
  template <class T>
  using Atomic = std::atomic<T>;

  explicit LinuxThreads(unsigned size) : size_(size), threads_(std::make_unique<Thread[]>(size)) {}

  bool is_worth_waking(double rest_ns) const;
  bool may_return() const;
  bool gives_up() const { return has_lost_.load(std::memory_order_relaxed); }
  void wake(std::atomic<std::uint64_t>& state, std::uint32_t mask);

  /// Whether the thread has ended.
  bool is_gone(unsigned index) const;
  /// Thread `index` is the calling one, from now on.
  void enter(unsigned index);

  class Patience {
   public:
    Patience(LinuxThreads& system, Crew<LinuxThreads>& crew, unsigned self)
        : system_(system), crew_(crew), self_(self) {}
    Patience(const Patience&) = delete;
    Patience& operator=(const Patience&) = delete;
    ~Patience();
    bool goes_on_spinning();
    void sleep(std::atomic<std::uint64_t>& state, std::uint32_t epoch, std::uint32_t mask);

   private:
    enum class Partners { kRun, kWait, kNone };
    Partners look_at_partners();
    LinuxThreads& system_;
    Crew<LinuxThreads>& crew_;
    const unsigned self_;
    std::uint32_t turns_ = 0;
    std::int64_t start_ = 0, deadline_ = 0;  // of the clock, ns; 0: not looked at yet
    bool has_slept_ = false, has_stalled_ = false;
  };

  /// Waits for threads that did not run, since they were last forgotten: how often, and how long thread 0 did.
  std::uint32_t stalls() const { return stalls_.load(std::memory_order_relaxed); }
  std::int64_t stalled_ns() const { return stalled_ns_.load(std::memory_order_relaxed); }
  void forget_stalls();

 private:
  enum class Mask : std::uint8_t { kOwn, kChanging, kLess };
  struct alignas(64) Thread {
    std::atomic<pid_t> id{0};
    std::atomic<clockid_t> clock{0};      // of the processor's time that it had
    std::atomic<std::int64_t> had_ns{0};  // of that, when somebody looked last
    std::atomic<int> slept_on{-1};        // the processor on which it went to sleep; -1: it is awake
    std::atomic<Mask> mask{Mask::kOwn};
    cpu_set_t own_mask{};  // while it is kept from a processor
  };

  void move_away(Thread& thread, int processor);
  void come_back(Thread& thread);

  const unsigned size_;
  std::unique_ptr<Thread[]> threads_;
  std::atomic<std::int64_t> woken_at_{0};    // when sleepers were last woken, of the clock
  std::atomic<std::int64_t> wake_ns_{50000};  // from there until one of them ran, where nothing was in the way
  std::atomic<std::int64_t> return_at_{0};    // when dismissed threads may begin pieces again, of the clock
  std::atomic<std::uint32_t> stalls_{0};
  std::atomic<std::int64_t> stalled_ns_{0};
  std::atomic<bool> has_lost_{false};  // a thread ended with a piece in its hands
};

/// What a run met.
struct RunFacts {
  std::uint32_t stalls = 0;  // waits for a thread of the team that had begun something and did not run
  std::int64_t stalled_ns = 0;  // of the caller's own
};

/// While it lives, the calling thread gets no signals but those that tell what a kernel does wrong. Products of oneDNN
/// put the stack pointer into a buffer of theirs: a handler that ran on top of it would write over the program's
/// memory.
class NoSignals {
 public:
  NoSignals();
  NoSignals(const NoSignals&) = delete;
  NoSignals& operator=(const NoSignals&) = delete;
  ~NoSignals();

 private:
  sigset_t before_ = {};
};

class Team {
 public:
  /// Starts the threads but for the caller's own. Errors: UNAVAILABLE.
  explicit Team(int size);
  Team(const Team&) = delete;
  Team& operator=(const Team&) = delete;
  ~Team();

  int size() const { return static_cast<int>(crew_.size()); }
  /// All jobs of `next` on the first `width` threads, of which the caller is one. Threads: one caller at a time, in the
  /// process that made it. Errors: EXEC_FAULT where a thread ended in the middle of a piece; the team is of no use
  /// then.
  RunFacts run(Crew<LinuxThreads>::Next next, void* context, int width);

 private:
  void stop();

  OwnerProcess process_;
  LinuxThreads system_;
  Crew<LinuxThreads> crew_;
  std::vector<std::thread> workers_;
};

/// While it lives, OpenMP regions that the calling thread starts (oneDNN's) have one thread: it. OpenMP's own threads
/// wait spinning, which would take the processors from the team.
class NoOpenMpThreads {
 public:
  NoOpenMpThreads();
  NoOpenMpThreads(const NoOpenMpThreads&) = delete;
  NoOpenMpThreads& operator=(const NoOpenMpThreads&) = delete;
  ~NoOpenMpThreads();

 private:
  int before_ = 0;
};

/// While it lives, the calling thread rounds to nearest and keeps subnormals, whatever the program around it has set.
class FloatMode {
 public:
  FloatMode();
  FloatMode(const FloatMode&) = delete;
  FloatMode& operator=(const FloatMode&) = delete;
  ~FloatMode();

 private:
  std::uint32_t before_ = 0;
};

}  // namespace crucible_cpu
