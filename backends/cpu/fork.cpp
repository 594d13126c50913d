// One handler for the life of the plugin; the C library takes it off again when the plugin is unloaded.
#include "backends/cpu/fork.hpp"

#include <pthread.h>

#include <atomic>
#include <string>

#include "backends/cpu/sdk.hpp"

namespace crucible_cpu {
namespace {

std::atomic<std::uint32_t> forks{0};

void count_one() { forks.fetch_add(1, std::memory_order_relaxed); }

}  // namespace

std::uint32_t fork_count() {
  [[maybe_unused]] static const int registered = pthread_atfork(nullptr, nullptr, count_one);
  return forks.load(std::memory_order_relaxed);
}

void OwnerProcess::require_this_one(const char* what) const {
  if (is_this_one()) return;
  throw Failure(
      CRUCIBLE_E_UNAVAILABLE,
      std::string(what) +
          ": this process was forked from the one that opened the device, and its threads did not come along; "
          "open the device again in this process, or fork before it is opened");
}

}  // namespace crucible_cpu
