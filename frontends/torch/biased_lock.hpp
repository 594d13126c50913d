// A lock that one thread takes almost always, at the cost of two plain stores: it is biased towards its owner until
// another thread asks for it; from then on it is an ordinary spin lock. The asymmetry is Linux's membarrier: the
// newcomer makes every running thread of the process order its stores, so that the owner need not.
#pragma once

#include <linux/membarrier.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <thread>

namespace crucible::recorder {

/// Threads: any; a thread gives the same non-zero `me` each time, unique while it lives. Held for the few hundred
/// nanoseconds in which an op looks up its storages; not recursive.
class BiasedLock {
 public:
  void lock(std::uint64_t me) {
    if (owner_.load(std::memory_order_relaxed) == me) [[likely]] {
      owner_inside_.store(true, std::memory_order_relaxed);
      std::atomic_signal_fence(
          std::memory_order_seq_cst);  // the compiler keeps the order; the newcomer sees to the CPU's
      if (owner_.load(std::memory_order_relaxed) == me) [[likely]] return;
      owner_inside_.store(false, std::memory_order_release);
    }
    lock_shared(me);
  }
  void unlock() {
    if (held_shared_.load(std::memory_order_relaxed)) {
      held_shared_.store(false, std::memory_order_relaxed);
      spin_.store(false, std::memory_order_release);
    } else {
      owner_inside_.store(false, std::memory_order_release);
    }
  }
  /// Biases the lock towards the calling thread, which does not hold it. Others may hold it or wait for it.
  void bias(std::uint64_t me) {
#if defined(__SANITIZE_THREAD__)
    (void)me;  // ThreadSanitizer knows nothing of membarrier
#else
    static const bool can = syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0, 0) == 0;
    lock_shared(me);  // nobody is inside, as the former owner or otherwise
    owner_.store(can ? me : kNobody, std::memory_order_relaxed);
    unlock();
#endif
  }
  /// In a forked child: whoever held it is not here.
  void forget() {
    owner_ = kNobody;
    owner_inside_ = spin_ = held_shared_ = false;
  }
  bool is_biased() const { return owner_.load(std::memory_order_relaxed) != kNobody; }

 private:
  static constexpr std::uint64_t kNobody = 0;

  [[gnu::noinline, gnu::cold]] void lock_shared(std::uint64_t me) {
    while (spin_.exchange(true, std::memory_order_acquire)) wait();
    if (const std::uint64_t owner = owner_.load(std::memory_order_relaxed); owner != kNobody && owner != me) {
      owner_.store(kNobody, std::memory_order_relaxed);
      syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0);
      // The owner has either seen that the bias is gone, or we see here that it is inside.
      while (owner_inside_.load(std::memory_order_acquire)) std::this_thread::yield();
    }
    held_shared_.store(true, std::memory_order_relaxed);
  }
  void wait() const {
    for (int spins = 0; spin_.load(std::memory_order_relaxed); ++spins) {
      if (spins > 100) std::this_thread::yield();
    }
  }

  std::atomic<std::uint64_t> owner_{kNobody};
  std::atomic<bool> owner_inside_{false};
  std::atomic<bool> spin_{false};
  std::atomic<bool> held_shared_{false};  // written only while `spin_` is held
};

}  // namespace crucible::recorder
