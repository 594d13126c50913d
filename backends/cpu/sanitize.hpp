// Kernels that check themselves (option "sanitize"): clang instruments each access and each operation that C leaves
// undefined, and what it calls then is C text of ours in the same object. So no sanitizer's runtime has to be in the
// process. An access has to lie in one of the launch's buffers, whole and with the right to write, in the kernel's own
// stack or in its constants; whatever else it is, it does not happen: the launch ends there, and the replay with an
// error that names kernel, buffer and distance.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "backends/cpu/kernel.hpp"

namespace crucible_cpu {

/// The C text that stands before everything else in a file of such kernels.
extern const std::string_view kGuardText;

/// What clang is told beside the usual flags.
extern const std::vector<std::string> kSanitizeFlags;

/// The layouts of these two are the text's, too.
struct GuardRange {
  std::uint64_t begin = 0, bytes = 0, may_write = 0;
};
struct Guard {
  std::uint64_t count = 0;  // kAnyAddress: nobody said how large the buffers are
  const GuardRange* ranges = nullptr;
  std::uint64_t stack_end = 0;
  void (*report)(const Guard* guard, std::uint64_t address, std::uint64_t bytes, const char* what) = nullptr;
};
inline constexpr std::uint64_t kAnyAddress = ~std::uint64_t{0};

/// What was found first in the launches of a plan. Threads: any.
class Findings {
 public:
  bool is_empty() const { return !has_any_.load(std::memory_order_acquire); }
  void add(std::string words);
  /// Forgets it. Errors: EXEC_FAULT with the words, where there are some.
  void raise();

 private:
  std::mutex mutex_;
  std::string words_;
  std::atomic<bool> has_any_{false};
};

/// What a launch needs to be watched.
struct GuardedLaunch {
  std::string kernel;
  GuardEnter enter = nullptr;
  std::vector<GuardRange> ranges;  // its buffers, the array of their addresses, its scalars
  std::size_t buffer_count = 0;    // of the ranges
  bool is_sized =
      false;  // else the host did not say how large the buffers are, and only undefined operations are found
  Findings* findings = nullptr;
};

/// Items [begin, end) of a kernel under its guard; nothing when the plan has a finding already. Threads: any.
void run_guarded(const GuardedLaunch& launch, KernelFunction kernel, void* const* buffers, const double* scalars,
                 std::int64_t begin, std::int64_t end);

}  // namespace crucible_cpu
