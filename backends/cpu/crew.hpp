// How a team of threads shares one job after another without waiting for a thread that does not come. A job is cut into
// pieces. Each thread has a share of them, takes from its front, and when it is empty from the ends of others' shares.
// Who finishes a job's last piece opens the next job. So only pieces that were begun are ever waited for.
//
// `System` is what differs between a real team (team.cpp) and the one whose interleavings a test tries out one by one
// (crew_test.cpp):
//   System::Atomic<T>                                      std::atomic<T>, or one that lets another thread go first
//   system.is_worth_waking(rest_ns)                        whether others than thread 0 are woken for this job; any
//   answer is correct system.may_return()                                    whether dismissed threads may begin pieces
//   again; any answer is correct system.gives_up()                                      a thread ended with a piece in
//   its hands: nothing is waited for any more system.wake(state, mask)                               wakes sleepers of
//   this word whose mask meets this one typename System::Patience(system, crew, self)          made by a thread that
//   waits until the epoch is another:
//     .goes_on_spinning()                                  looks once more, or goes to sleep
//     .sleep(state, epoch, mask)                           until it is woken; returns at once where the lower half of
//     the word is another;
//                                                          may return early
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>

namespace crucible_cpu {

/// `pieces` calls of run(context, piece), in any order and on any threads; at most 65,535.
struct Job {
  void (*run)(const void* context, std::uint32_t piece) = nullptr;
  const void* context = nullptr;
  std::uint32_t pieces = 0;
  double rest_ns = 0;  // what this job and those after it are thought to take, on one thread
};

template <class System>
class Crew {
 public:
  template <class T>
  using Atomic = typename System::template Atomic<T>;

  /// The next job with pieces, or false where there is none. Called by one thread at a time, not always the same; may
  /// do work itself, which then comes between the jobs. Must not throw.
  using Next = bool (*)(void* context, Job& job);

  Crew(System& system, unsigned size) : system_(system), size_(size), seats_(std::make_unique<Seat[]>(size)) {}

  unsigned size() const { return size_; }

  /// Does all jobs, with the threads below `width`, and returns when all are done. Thread 0 is who calls: one at a
  /// time.
  void run(Next next, void* context, unsigned width) {
    next_ = next;
    context_ = context;
    width_ = width;
    limit_.store(width, std::memory_order_relaxed);
    if (!next_(context_, job_)) return;
    publish();
    for (;;) {
      const std::uint64_t state = state_.load(std::memory_order_acquire);
      if (pieces_of(state) == 0 || system_.gives_up()) return;
      if (!work(0, state)) wait(0, epoch_of(state));
    }
  }

  /// What thread `self`, not 0, does until stop().
  void serve(unsigned self) {
    for (;;) {
      const std::uint64_t state = state_.load(std::memory_order_acquire);
      if (is_stopping_.load(std::memory_order_acquire)) return;
      if (self >= limit() || !work(self, state)) wait(self, epoch_of(state));
    }
  }

  /// No run may be going on.
  void stop() {
    is_stopping_.store(true, std::memory_order_release);
    set_state(0, 0);
    system_.wake(state_, ~std::uint32_t{0});
  }

  /// Threads that begin pieces now: those below.
  unsigned limit() const { return limit_.load(std::memory_order_relaxed); }
  /// The threads from `width` on begin nothing more, until the system lets them return or the run is over. Threads:
  /// any.
  void dismiss(unsigned width) {
    for (unsigned now = limit(); width < now && !limit_.compare_exchange_weak(now, width, std::memory_order_relaxed);) {
    }
  }
  /// No run is going on.
  bool is_over() const { return pieces_of(state_.load(std::memory_order_relaxed)) == 0; }
  /// Whether a thread has begun something that others may have to wait for.
  bool is_busy(unsigned index) const { return seats_[index].is_busy.load(std::memory_order_relaxed) != 0; }

 private:
  /// What is left of a thread's share: epoch << 32 | first << 16 | end. Of another epoch than the state's: nobody has
  /// begun any of it. So who opens a job does not write here, where the thread's own core has the line.
  struct alignas(64) Seat {
    Atomic<std::uint64_t> share{0};
    Atomic<std::uint32_t> is_busy{0};
  };

  // The state: width << 52 | pieces << 32 | epoch, which is one more whenever there is another job, or none any more:
  // no pieces then. That is one word, so that who sees the end of a run finds nobody who still writes here.
  static std::uint32_t epoch_of(std::uint64_t word) { return static_cast<std::uint32_t>(word); }
  static std::uint64_t pieces_of(std::uint64_t state) { return state >> 32 & 0xfffff; }
  static std::uint64_t width_of(std::uint64_t state) { return state >> 52; }

  /// Takes a piece of the job of this state out of the share of thread `index`. False where nothing is left there, or
  /// the job is over.
  bool take(std::uint64_t state, unsigned index, bool is_own, std::uint32_t& piece) {
    const std::uint64_t pieces = pieces_of(state), width = width_of(state);
    if (index >= width) return false;
    const std::uint64_t begin = pieces * index / width, count = pieces * (index + 1) / width - begin;
    Atomic<std::uint64_t>& share = seats_[index].share;
    std::uint64_t word = share.load(std::memory_order_acquire);
    for (;;) {
      const bool is_untouched = word >> 32 != epoch_of(state);
      const std::uint64_t first = is_untouched ? 0 : word >> 16 & 0xffff, end = is_untouched ? count : word & 0xffff;
      if (first == end) return false;
      // A share of another epoch may be of a later one. Where the job is still this one after the share was read, the
      // share cannot come to be touched, and the job over, without the word changing.
      if (is_untouched && state_.load(std::memory_order_acquire) != state) return false;
      const std::uint64_t rest = is_own ? (first + 1) << 16 | end : first << 16 | (end - 1);
      const std::uint64_t less = std::uint64_t{epoch_of(state)} << 32 | rest;
      if (share.compare_exchange_weak(word, less, std::memory_order_acq_rel, std::memory_order_acquire)) {
        piece = static_cast<std::uint32_t>(begin + (is_own ? first : end - 1));
        return true;
      }
    }
  }

  /// The job cannot end before what was taken of it is done, so that it can be looked at until then.
  void finish(std::uint32_t done) {
    if (done != 0 && pending_.fetch_sub(done, std::memory_order_acq_rel) == done) open();
  }

  /// Takes what is left of the job of this state: its own share first, of which it tells when all is done. False where
  /// nothing was left.
  bool work(unsigned self, std::uint64_t state) {
    Seat& seat = seats_[self];
    seat.is_busy.store(1, std::memory_order_relaxed);
    std::uint32_t done = 0, piece = 0;
    while (take(state, self, true, piece)) {
      job_.run(job_.context, piece);
      ++done;
      if (self >= limit()) break;  // dismissed: the rest is others'
    }
    finish(done);
    bool has_done = done != 0;
    for (unsigned i = 1; i < size_; ++i) {
      const unsigned index = self + i < size_ ? self + i : self + i - size_;
      while (self < limit() && take(state, index, false, piece)) {
        job_.run(job_.context, piece);
        finish(1);
        has_done = true;
      }
    }
    seat.is_busy.store(0, std::memory_order_relaxed);
    return has_done;
  }

  /// Called by who has done the last piece of a job.
  void open() {
    if (next_(context_, job_)) return publish();
    set_state(0, 0);
    if (sleepers_.load(std::memory_order_seq_cst) >= kFirst) system_.wake(state_, mask_of(0));
  }

  void publish() {
    if (limit() < width_ && system_.may_return()) limit_.store(width_, std::memory_order_relaxed);
    const double rest_ns = job_.rest_ns;  // the job may be over, and another one open, before this is looked at
    pending_.store(job_.pieces, std::memory_order_relaxed);
    set_state(job_.pieces, std::clamp<std::uint64_t>(limit(), 1, job_.pieces));
    // Thread 0 is woken in any case: all others may be dismissed at any time.
    const std::uint32_t sleepers = sleepers_.load(std::memory_order_seq_cst);
    if (sleepers == 0) return;
    if (sleepers % kFirst != 0 && system_.is_worth_waking(rest_ns)) {
      system_.wake(state_, mask_below(limit()) | mask_of(0));
    } else if (sleepers >= kFirst) {
      system_.wake(state_, mask_of(0));
    }
  }

  /// Only one thread may do this at a time. Sequentially consistent against the sleeper's own order: it announces
  /// itself, then looks at the epoch again (in the kernel), so that one of the two sees the other.
  void set_state(std::uint64_t pieces, std::uint64_t width) {
    const std::uint32_t epoch = epoch_of(state_.load(std::memory_order_relaxed)) + 1;
    state_.exchange(width << 52 | pieces << 32 | epoch, std::memory_order_seq_cst);
  }

  void wait(unsigned self, std::uint32_t epoch) {
    typename System::Patience patience(system_, *this, self);
    while (epoch_of(state_.load(std::memory_order_acquire)) == epoch) {
      if (patience.goes_on_spinning()) continue;
      const std::uint32_t one = self == 0 ? kFirst : 1;
      sleepers_.fetch_add(one, std::memory_order_seq_cst);
      patience.sleep(state_, epoch, mask_of(self));
      sleepers_.fetch_sub(one, std::memory_order_relaxed);
      if (system_.gives_up()) return;
    }
  }

  static std::uint32_t mask_of(unsigned index) { return std::uint32_t{1} << index % 32; }
  static std::uint32_t mask_below(unsigned width) {
    return width >= 32 ? ~std::uint32_t{0} : (std::uint32_t{1} << width) - 1;
  }

  static constexpr std::uint32_t kFirst = 1 << 16;  // thread 0 among the sleepers; the others count 1

  System& system_;
  const unsigned size_;
  std::unique_ptr<Seat[]> seats_;
  alignas(64) Atomic<std::uint64_t> state_{0};
  Job job_;  // beside the state, as who sees a new one reads it next; written by who opens a job, while no piece of it
             // can be taken
  Atomic<std::uint32_t> limit_{0};
  Atomic<bool> is_stopping_{false};
  alignas(64) Atomic<std::uint32_t> pending_{0};  // pieces of the open job that are not done
  alignas(64) Atomic<std::uint32_t> sleepers_{0};
  Next next_ = nullptr;  // as job_
  void* context_ = nullptr;
  unsigned width_ = 0;
};

}  // namespace crucible_cpu
