// OpenMP threads are reached through libgomp's functions by name: the plugin is not compiled with -fopenmp, so that it
// needs no OpenMP library where oneDNN is absent.
#include "backends/cpu/team.hpp"

#include <dlfcn.h>
#include <sched.h>

#include <algorithm>
#include <atomic>
#include <thread>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace crucible_cpu {
namespace {

/// libgomp's entry points; all null when the library is not in the process.
struct OpenMp {
  void (*parallel)(void (*)(void*), void*, unsigned, unsigned) = nullptr;
  void (*set_threads)(int) = nullptr;
  int (*max_threads)() = nullptr;
  int (*thread_index)() = nullptr;
  int (*thread_count)() = nullptr;
  int (*pause_all)(int) = nullptr;
  bool complete() const { return parallel && set_threads && max_threads && thread_index && thread_count; }
};

template <class Function>
void lookup(void* handle, const char* name, Function& out) {
  out = reinterpret_cast<Function>(dlsym(handle, name));
}

/// RTLD_NOLOAD: only what oneDNN brought along; the handle is kept for the life of the process.
OpenMp find_openmp() {
  OpenMp openmp;
  if (void* handle = dlopen("libgomp.so.1", RTLD_NOW | RTLD_NOLOAD)) {
    lookup(handle, "GOMP_parallel", openmp.parallel);
    lookup(handle, "omp_set_num_threads", openmp.set_threads);
    lookup(handle, "omp_get_max_threads", openmp.max_threads);
    lookup(handle, "omp_get_thread_num", openmp.thread_index);
    lookup(handle, "omp_get_num_threads", openmp.thread_count);
    lookup(handle, "omp_pause_resource_all", openmp.pause_all);
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

struct Region {
  TeamBody body;
  void* context;
  const OpenMp* openmp;
#if defined(__SANITIZE_THREAD__)
  std::atomic<int> started{0}, finished{0};  // libgomp is not instrumented: shows its fork and join to the sanitizer
#endif
};

void region_body(void* data) {
  auto* region = static_cast<Region*>(data);
#if defined(__SANITIZE_THREAD__)
  region->started.load(std::memory_order_acquire);
#endif
  region->body(region->context, region->openmp->thread_index(), region->openmp->thread_count());
#if defined(__SANITIZE_THREAD__)
  region->finished.fetch_add(1, std::memory_order_release);
#endif
}

class OpenMpTeam final : public Team {
 public:
  OpenMpTeam(int size, const OpenMp& openmp) : Team(size), openmp_(openmp) {}
  void run(TeamBody body, void* context) override {
    Region region{body, context, &openmp_};
#if defined(__SANITIZE_THREAD__)
    region.started.store(1, std::memory_order_release);
#endif
    openmp_.parallel(region_body, &region, static_cast<unsigned>(size()), 0);
#if defined(__SANITIZE_THREAD__)
    region.finished.load(std::memory_order_acquire);
#endif
  }
  const char* name() const override { return "OpenMP threads, shared with oneDNN"; }

 private:
  OpenMp openmp_;
};

}  // namespace

std::unique_ptr<Team> make_openmp_team(int size) {
  const OpenMp& found = openmp();
  if (!found.complete()) return nullptr;
  return std::make_unique<OpenMpTeam>(size, found);
}

void stop_openmp_threads() {
  constexpr int kPauseHard = 2;  // omp_pause_hard: the threads end
  if (openmp().pause_all != nullptr) openmp().pause_all(kPauseHard);
}

OpenMpThreads::OpenMpThreads(int count) {
  if (count == 0) return;
  const OpenMp& found = openmp();
  if (!found.complete()) return;
  before_ = found.max_threads();
  if (before_ == count) before_ = 0;
  if (before_ != 0) found.set_threads(count);
}

OpenMpThreads::~OpenMpThreads() {
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

int usable_cores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof(set), &set) == 0) return std::max(1, CPU_COUNT(&set));
  return std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
}

void Spin::wait() {
#if defined(__x86_64__)
  _mm_pause();
#else
  asm volatile("" ::: "memory");
#endif
  if (++turns_ % 512 == 0) sched_yield();  // some 20 us: cheap when nobody waits for the core
}

}  // namespace crucible_cpu
