// Threads, futexes and clocks of Linux under a crew (crew.hpp). OpenMP is reached through libgomp's functions by name:
// the plugin is not compiled with -fopenmp, so that it needs no OpenMP library where oneDNN is absent.
#include "backends/cpu/team.hpp"

#include <dlfcn.h>
#include <linux/futex.h>
#include <pthread.h>
#include <signal.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <chrono>
#include <climits>
#include <string>
#include <system_error>
#include <utility>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include "backends/cpu/sdk.hpp"

namespace crucible_cpu {
namespace {

constexpr std::int64_t kShortestWake = 3'000,
                       kLongestWake = 100'000;  // ns: what waking a thread may take where it runs at once
constexpr std::int64_t kBetweenLooks =
    20'000;  // ns between two looks at a partner's clock, which moves in less where it runs
constexpr std::int64_t kLongestSpin =
    500'000;  // ns: for a partner that runs, too: sleeping and waking is a tenth of that
constexpr std::int64_t kBetweenRolls =
    100'000'000;  // ns between two looks whether threads that are slept for are still there
constexpr std::int64_t kDismissal = 2'000'000;   // ns without the others after a wait for a thread that did not run,
constexpr std::int64_t kDismissalPerLoss = 4;    // or so many times what was lost
constexpr std::uint32_t kTurnsBetweenClocks = 32;    // pauses, some microseconds

std::int64_t clock_ns(clockid_t clock) {
  timespec now = {};
  return clock_gettime(clock, &now) == 0 ? std::int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec : -1;
}

std::int64_t now_ns() { return clock_ns(CLOCK_MONOTONIC); }

void pause() {
#if defined(__x86_64__)
  _mm_pause();
#elif defined(__aarch64__)
  asm volatile("yield" ::: "memory");
#else
  asm volatile("" ::: "memory");
#endif
}

static_assert(sizeof(std::atomic<std::uint64_t>) == sizeof(std::uint64_t) && std::endian::native == std::endian::little,
              "the kernel waits on the lower half of this word, by its address");

}  // namespace

// ---- how threads wait

void LinuxThreads::enter(unsigned index) {
  Thread& thread = threads_[index];
  const auto id = static_cast<pid_t>(syscall(SYS_gettid));
  if (thread.id.load(std::memory_order_relaxed) == id) return;
  clockid_t clock = CLOCK_THREAD_CPUTIME_ID;
  pthread_getcpuclockid(pthread_self(), &clock);
  thread.clock.store(clock, std::memory_order_relaxed);
  thread.id.store(id, std::memory_order_release);
}

bool LinuxThreads::may_return() const { return now_ns() >= return_at_.load(std::memory_order_relaxed); }

bool LinuxThreads::is_worth_waking(double rest_ns) const {
  return rest_ns > 2.0 * static_cast<double>(wake_ns_.load(std::memory_order_relaxed));
}

void LinuxThreads::wake(std::atomic<std::uint64_t>& state, std::uint32_t mask) {
  woken_at_.store(now_ns(), std::memory_order_relaxed);
  const int here = sched_getcpu();
  for (unsigned i = 1; i < size_ && i < 32; ++i) {  // thread 0 is the program's own, and stays where that has it
    if ((mask >> i & 1) != 0 && threads_[i].slept_on.load(std::memory_order_acquire) == here)
      move_away(threads_[i], here);
  }
  syscall(SYS_futex, &state, FUTEX_WAKE_BITSET_PRIVATE, INT_MAX, nullptr, nullptr, mask);
}

/// A thread wakes where it slept, and a scheduler that takes the processors for far from each other leaves it there,
/// behind whoever woke it and works on while another processor has nothing to do.
void LinuxThreads::move_away(Thread& thread, int processor) {
  const pid_t id = thread.id.load(std::memory_order_acquire);
  Mask own = Mask::kOwn;  // whoever opened the step before this one may be here, too
  if (id == 0 || !thread.mask.compare_exchange_strong(own, Mask::kChanging, std::memory_order_acquire)) return;
  // Read only now: before, it may have been the lesser one of the last time.
  cpu_set_t less;
  bool is_less = sched_getaffinity(id, sizeof(less), &less) == 0 && CPU_COUNT(&less) > 1 && CPU_ISSET(processor, &less);
  if (is_less) {
    thread.own_mask = less;
    CPU_CLR(processor, &less);
    is_less = sched_setaffinity(id, sizeof(less), &less) == 0;
  }
  thread.mask.store(is_less ? Mask::kLess : Mask::kOwn, std::memory_order_release);
}

void LinuxThreads::come_back(Thread& thread) {
  thread.slept_on.store(-1, std::memory_order_release);
  if (thread.mask.load(std::memory_order_acquire) != Mask::kLess) return;
  sched_setaffinity(0, sizeof(thread.own_mask), &thread.own_mask);
  thread.mask.store(Mask::kOwn, std::memory_order_release);
}

void LinuxThreads::forget_stalls() {
  if (stalls() == 0 && stalled_ns() == 0) return;
  stalls_.store(0, std::memory_order_relaxed);
  stalled_ns_.store(0, std::memory_order_relaxed);
}

bool LinuxThreads::is_gone(unsigned index) const {
  const pid_t id = threads_[index].id.load(std::memory_order_acquire);
  return id != 0 && syscall(SYS_tgkill, getpid(), id, 0) != 0 && errno == ESRCH;
}

bool LinuxThreads::Patience::goes_on_spinning() {
  pause();
  if (++turns_ % kTurnsBetweenClocks != 0) return true;
  if (self_ != 0 && self_ >= crew_.limit()) return false;  // nobody has anything for it
  const std::int64_t now = now_ns();
  if (start_ == 0) {
    start_ = now;
    deadline_ = now + system_.wake_ns_.load(std::memory_order_relaxed);
  }
  if (now < deadline_) return true;
  if (has_slept_ || crew_.is_over() || now - start_ > kLongestSpin) return false;
  // Somebody has a piece in his hands: spinning goes on while all of those are seen to run.
  const Partners partners = look_at_partners();
  if (partners == Partners::kRun) {
    deadline_ = now + kBetweenLooks;
    return true;
  }
  if (partners == Partners::kWait && !has_stalled_) {
    has_stalled_ = true;
    system_.stalls_.fetch_add(1, std::memory_order_relaxed);
    system_.return_at_.store(now + kDismissal, std::memory_order_relaxed);
    crew_.dismiss(std::max(1u, crew_.limit() / 2));
  }
  return false;
}

/// Whether all threads that are busy had a processor since the last look; a first look is taken for yes.
LinuxThreads::Patience::Partners LinuxThreads::Patience::look_at_partners() {
  Partners result = Partners::kNone;
  for (unsigned i = 0; i < crew_.size(); ++i) {
    if (i == self_ || !crew_.is_busy(i)) continue;
    Thread& thread = system_.threads_[i];
    if (thread.id.load(std::memory_order_acquire) == 0) continue;
    const std::int64_t had = clock_ns(thread.clock.load(std::memory_order_relaxed));
    if (had >= 0 && thread.had_ns.exchange(had, std::memory_order_relaxed) == had) return Partners::kWait;
    result = Partners::kRun;
  }
  return result;
}

void LinuxThreads::Patience::sleep(std::atomic<std::uint64_t>& state, std::uint32_t epoch, std::uint32_t mask) {
  has_slept_ = true;
  if (self_ != 0) {
    Thread& thread = system_.threads_[self_];
    thread.slept_on.store(sched_getcpu(), std::memory_order_release);
    syscall(SYS_futex, &state, FUTEX_WAIT_BITSET_PRIVATE, epoch, nullptr, nullptr, mask);
    system_.come_back(thread);
    return;
  }
  const std::int64_t until = now_ns() + kBetweenRolls;
  const timespec end = {.tv_sec = until / 1'000'000'000, .tv_nsec = until % 1'000'000'000};
  syscall(SYS_futex, &state, FUTEX_WAIT_BITSET_PRIVATE, epoch, &end, nullptr, mask);
  if (static_cast<std::uint32_t>(state.load(std::memory_order_relaxed)) != epoch) return;
  for (unsigned i = 1; i < crew_.size(); ++i) {
    if (crew_.is_busy(i) && system_.is_gone(i)) system_.has_lost_.store(true, std::memory_order_relaxed);
  }
}

LinuxThreads::Patience::~Patience() {
  if (!has_slept_ && !has_stalled_) return;
  const std::int64_t now = now_ns();
  // What the caller of a run waits is lost; others that wait for a thread without a processor go to sleep, and may be
  // told of nothing until the next run.
  if (has_stalled_ && self_ == 0) {
    system_.stalled_ns_.fetch_add(now - start_, std::memory_order_relaxed);
    system_.return_at_.store(now + kDismissalPerLoss * (now - start_), std::memory_order_relaxed);
  }
  const std::int64_t sample = now - system_.woken_at_.load(std::memory_order_relaxed);
  const std::int64_t known = system_.wake_ns_.load(std::memory_order_relaxed);
  if (!has_slept_ || sample < 0 || sample > 50 * known) return;  // woken by nobody, or kept waiting for a processor
  // Down at once, up slowly: what it takes where nothing is in the way.
  system_.wake_ns_.store(
      std::clamp(sample < known ? sample : known + (sample - known) / 64, kShortestWake, kLongestWake),
      std::memory_order_relaxed);
}

// ---- the team

NoSignals::NoSignals() {
  sigset_t others;
  sigfillset(&others);
  for (const int own : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGABRT, SIGSYS}) sigdelset(&others, own);
  pthread_sigmask(SIG_SETMASK, &others, &before_);
}

NoSignals::~NoSignals() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

Team::Team(int size) : system_(static_cast<unsigned>(size)), crew_(system_, static_cast<unsigned>(size)) {
  const NoSignals signals;  // signals of the program are for its own threads
  try {
    for (unsigned index = 1; index < crew_.size(); ++index) {
      workers_.emplace_back([this, index] {
        pthread_setname_np(pthread_self(), "crucible");
        const FloatMode mode;
        system_.enter(index);
        crew_.serve(index);
      });
    }
  } catch (const std::system_error& error) {
    stop();
    throw Failure(CRUCIBLE_E_UNAVAILABLE, "cannot start thread " + std::to_string(workers_.size() + 1) + " of " +
                                              std::to_string(size) + ": " + error.what());
  }
}

Team::~Team() {
  if (process_.is_this_one()) {
    stop();
  } else {
    // In a forked child there are no such threads: joining one would wait for ever, and so they stay what they are.
    [[maybe_unused]] const auto* gone = new std::vector<std::thread>(std::move(workers_));
  }
}

void Team::stop() {
  crew_.stop();
  for (std::thread& worker : workers_) worker.join();
  workers_.clear();
}

RunFacts Team::run(Crew<LinuxThreads>::Next next, void* context, int width) {
  system_.enter(0);
  system_.forget_stalls();
  if (!system_.gives_up()) crew_.run(next, context, static_cast<unsigned>(std::clamp(width, 1, size())));
  if (system_.gives_up()) {
    // The others end what they have begun, for the host may take its memory away when it hears of this.
    for (unsigned i = 1; i < crew_.size(); ++i) {
      while (crew_.is_busy(i) && !system_.is_gone(i)) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    throw Failure(CRUCIBLE_E_EXEC_FAULT,
                  "a thread of this device ended in the middle of its work, which is therefore not complete; open the "
                  "device again");
  }
  return {system_.stalls(), system_.stalled_ns()};
}

// ---- OpenMP

namespace {

/// libgomp's entry points; all null when the library is not in the process.
struct OpenMp {
  void (*set_threads)(int) = nullptr;
  int (*max_threads)() = nullptr;
  bool complete() const { return set_threads && max_threads; }
};

template <class Function>
void lookup(void* handle, const char* name, Function& out) {
  out = reinterpret_cast<Function>(dlsym(handle, name));
}

/// RTLD_NOLOAD: only what oneDNN brought along; the handle is kept for the life of the process.
OpenMp find_openmp() {
  OpenMp openmp;
  if (void* handle = dlopen("libgomp.so.1", RTLD_NOW | RTLD_NOLOAD)) {
    lookup(handle, "omp_set_num_threads", openmp.set_threads);
    lookup(handle, "omp_get_max_threads", openmp.max_threads);
  }
  return openmp;
}

/// Looked up again while absent, because oneDNN may be loaded later. Threads: any; what is found is kept for ever.
const OpenMp& openmp() {
  static std::atomic<const OpenMp*> found{nullptr};
  static const OpenMp kAbsent;
  if (const OpenMp* known = found.load(std::memory_order_acquire)) return *known;
  const OpenMp now = find_openmp();
  if (!now.complete()) return kAbsent;
  const OpenMp* expected = nullptr;
  auto* const mine = new OpenMp(now);
  if (found.compare_exchange_strong(expected, mine)) return *mine;
  delete mine;
  return *expected;
}

}  // namespace

NoOpenMpThreads::NoOpenMpThreads() {
  const OpenMp& found = openmp();
  if (!found.complete()) return;
  before_ = found.max_threads();
  if (before_ == 1) before_ = 0;
  if (before_ != 0) found.set_threads(1);
}

NoOpenMpThreads::~NoOpenMpThreads() {
  if (before_ != 0) openmp().set_threads(before_);
}

#if defined(__x86_64__)
FloatMode::FloatMode() {
  constexpr std::uint32_t kDefault = 0x1f80;  // all exceptions masked, round to nearest, no flushing
  before_ = _mm_getcsr();
  if ((before_ & ~0x3fu) != kDefault) _mm_setcsr(kDefault);
}
FloatMode::~FloatMode() { _mm_setcsr(before_); }
#else
FloatMode::FloatMode() = default;
FloatMode::~FloatMode() = default;
#endif

}  // namespace crucible_cpu
