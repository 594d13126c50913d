// The text of the guard, and who runs a kernel under it. A finding leaves the kernel by a jump over its frames, which
// are C with nothing to clean up: going on would do what was found.
#include "backends/cpu/sanitize.hpp"

#include <csetjmp>
#include <cstdio>
#include <utility>

#include "backends/cpu/sdk.hpp"

namespace crucible_cpu {

// The names __asan_... and __ubsan_... are those that clang calls; hidden, so that a sanitizer's runtime in the process
// has no part in it.
const std::string_view kGuardText = R"(
typedef __UINT64_TYPE__ crucible_guard_u64;
struct crucible_guard_range { crucible_guard_u64 begin, bytes, may_write; };
struct crucible_guard {
  crucible_guard_u64 count;
  const struct crucible_guard_range* ranges;
  crucible_guard_u64 stack_end;
  void (*report)(const struct crucible_guard*, crucible_guard_u64, crucible_guard_u64, const char*);
};
static _Thread_local const struct crucible_guard* crucible_guard_now;
extern const char __ehdr_start[] __attribute__((visibility("hidden")));
extern const char _end[] __attribute__((visibility("hidden")));
#define CRUCIBLE_UNWATCHED __attribute__((no_sanitize("kernel-address", "undefined")))
#define CRUCIBLE_HOOK CRUCIBLE_UNWATCHED __attribute__((noinline, used, visibility("hidden")))
CRUCIBLE_UNWATCHED void crucible_guard_enter(const struct crucible_guard* guard) { crucible_guard_now = guard; }
CRUCIBLE_HOOK void crucible_guard_report(crucible_guard_u64 at, crucible_guard_u64 bytes, const char* what) {
  if (!crucible_guard_now) __builtin_trap();
  crucible_guard_now->report(crucible_guard_now, at, bytes, what);
}
CRUCIBLE_HOOK void crucible_guard_check(crucible_guard_u64 at, crucible_guard_u64 bytes, int is_write) {
  const struct crucible_guard* guard = crucible_guard_now;
  if (!guard || guard->count == ~(crucible_guard_u64)0 || bytes == 0) return;
  for (crucible_guard_u64 i = 0; i < guard->count; ++i) {
    const struct crucible_guard_range* range = &guard->ranges[i];
    const crucible_guard_u64 offset = at - range->begin;
    if (offset < range->bytes && bytes <= range->bytes - offset && (!is_write || range->may_write)) return;
  }
  if (at >= (crucible_guard_u64)__builtin_frame_address(0) && at < guard->stack_end && bytes <= guard->stack_end - at) return;
  if (!is_write && at >= (crucible_guard_u64)__ehdr_start && at < (crucible_guard_u64)_end && bytes <= (crucible_guard_u64)_end - at) return;
  crucible_guard_report(at, bytes, is_write ? "writes" : "reads");
}
#define CRUCIBLE_ACCESS(n) \
  CRUCIBLE_HOOK void __asan_load##n##_noabort(crucible_guard_u64 at) { crucible_guard_check(at, n, 0); } \
  CRUCIBLE_HOOK void __asan_store##n##_noabort(crucible_guard_u64 at) { crucible_guard_check(at, n, 1); }
CRUCIBLE_ACCESS(1)
CRUCIBLE_ACCESS(2)
CRUCIBLE_ACCESS(4)
CRUCIBLE_ACCESS(8)
CRUCIBLE_ACCESS(16)
CRUCIBLE_HOOK void __asan_loadN_noabort(crucible_guard_u64 at, crucible_guard_u64 bytes) { crucible_guard_check(at, bytes, 0); }
CRUCIBLE_HOOK void __asan_storeN_noabort(crucible_guard_u64 at, crucible_guard_u64 bytes) { crucible_guard_check(at, bytes, 1); }
CRUCIBLE_HOOK void __asan_handle_no_return(void) {}
CRUCIBLE_HOOK void* __asan_memset(void* to, int byte, crucible_guard_u64 bytes) {
  crucible_guard_check((crucible_guard_u64)to, bytes, 1);
  for (crucible_guard_u64 i = 0; i < bytes; ++i) ((volatile char*)to)[i] = (char)byte;
  return to;
}
CRUCIBLE_HOOK void* __asan_memmove(void* to, const void* from, crucible_guard_u64 bytes) {
  crucible_guard_check((crucible_guard_u64)from, bytes, 0);
  crucible_guard_check((crucible_guard_u64)to, bytes, 1);
  if (to <= from) {
    for (crucible_guard_u64 i = 0; i < bytes; ++i) ((volatile char*)to)[i] = ((const volatile char*)from)[i];
  } else {
    for (crucible_guard_u64 i = bytes; i-- > 0;) ((volatile char*)to)[i] = ((const volatile char*)from)[i];
  }
  return to;
}
CRUCIBLE_HOOK void* __asan_memcpy(void* to, const void* from, crucible_guard_u64 bytes) { return __asan_memmove(to, from, bytes); }
#define CRUCIBLE_UNDEFINED(name, what) \
  CRUCIBLE_HOOK void __ubsan_handle_##name##_minimal_abort(void) { crucible_guard_report(0, 0, what); __builtin_trap(); }
CRUCIBLE_UNDEFINED(add_overflow, "adds signed integers beyond their range")
CRUCIBLE_UNDEFINED(sub_overflow, "subtracts signed integers beyond their range")
CRUCIBLE_UNDEFINED(mul_overflow, "multiplies signed integers beyond their range")
CRUCIBLE_UNDEFINED(negate_overflow, "negates the least integer")
CRUCIBLE_UNDEFINED(divrem_overflow, "divides integers by zero or beyond their range")
CRUCIBLE_UNDEFINED(shift_out_of_bounds, "shifts by less than zero or by all bits")
CRUCIBLE_UNDEFINED(out_of_bounds, "indexes an array outside of it")
CRUCIBLE_UNDEFINED(local_out_of_bounds, "accesses an array outside of it")
CRUCIBLE_UNDEFINED(builtin_unreachable, "reaches what cannot be reached")
CRUCIBLE_UNDEFINED(missing_return, "ends a function without its result")
CRUCIBLE_UNDEFINED(vla_bound_not_positive, "has an array of no size")
CRUCIBLE_UNDEFINED(float_cast_overflow, "converts a float to an integer that cannot hold it")
CRUCIBLE_UNDEFINED(load_invalid_value, "loads what its type cannot hold")
CRUCIBLE_UNDEFINED(invalid_builtin, "counts the zeros of zero")
CRUCIBLE_UNDEFINED(nonnull_arg, "passes null where none may be")
CRUCIBLE_UNDEFINED(nonnull_return, "returns null where none may be")
)";

// Checks are calls of ours, not the shadow memory of a runtime; copies are checked too. Stack and constants are told by
// their addresses. What is left out of "undefined" asks about pointers, which each access does anyway, and makes large
// kernels compile a hundred times as long.
const std::vector<std::string> kSanitizeFlags = {"-fsanitize=kernel-address,undefined",
                                                 "-fno-sanitize=pointer-overflow,null,alignment,object-size",
                                                 "-fno-sanitize-recover=undefined",
                                                 "-Xclang",
                                                 "-fsanitize-minimal-runtime",
                                                 "-mllvm",
                                                 "-asan-instrumentation-with-call-threshold=0",
                                                 "-mllvm",
                                                 "-asan-stack=0",
                                                 "-mllvm",
                                                 "-asan-globals=0",
                                                 "-mllvm",
                                                 "-asan-kernel-mem-intrinsic-prefix=1"};

namespace {

constexpr std::size_t kMostWords = 512;

/// One chunk that runs. The guard is first: what the text hands back is a pointer to it.
struct Running {
  Guard guard;
  std::jmp_buf place;
  const GuardedLaunch* launch = nullptr;
  char words[kMostWords] = "";
};

/// The buffer that the address lies in or next to, and how far it is from it.
void describe(Running& running, std::uint64_t address, std::uint64_t bytes, const char* what) {
  const GuardedLaunch& launch = *running.launch;
  const auto unsigned_long = [](std::uint64_t number) { return static_cast<unsigned long long>(number); };
  if (bytes == 0) {
    std::snprintf(running.words, kMostWords, "kernel %s %s", launch.kernel.c_str(), what);
    return;
  }
  std::size_t nearest = 0;
  std::uint64_t distance = ~std::uint64_t{0};
  for (std::size_t i = 0; i < launch.buffer_count; ++i) {
    const GuardRange& range = launch.ranges[i];
    const std::uint64_t end = range.begin + range.bytes;
    const std::uint64_t away = address < range.begin ? range.begin - address : address >= end ? address - end : 0;
    if (away < distance) {
      distance = away;
      nearest = i;
    }
  }
  if (launch.buffer_count == 0) {
    std::snprintf(running.words, kMostWords, "kernel %s %s %llu bytes, and has no buffers", launch.kernel.c_str(), what,
                  unsigned_long(bytes));
    return;
  }
  const GuardRange& range = launch.ranges[nearest];
  const bool is_before = address < range.begin,
             is_inside = !is_before && bytes <= range.bytes && address - range.begin <= range.bytes - bytes;
  if (is_inside) {
    std::snprintf(running.words, kMostWords,
                  "kernel %s %s %llu bytes at byte %llu of its buffer %zu, which it may only read",
                  launch.kernel.c_str(), what, unsigned_long(bytes), unsigned_long(address - range.begin), nearest);
  } else {
    std::snprintf(running.words, kMostWords, "kernel %s %s %llu bytes, %llu bytes %s its buffer %zu of %llu bytes",
                  launch.kernel.c_str(), what, unsigned_long(bytes),
                  unsigned_long(is_before ? range.begin - address : address - range.begin),
                  is_before ? "before" : "behind the start of", nearest, unsigned_long(range.bytes));
  }
}

void report(const Guard* guard, std::uint64_t address, std::uint64_t bytes, const char* what) {
  auto& running = *const_cast<Running*>(reinterpret_cast<const Running*>(guard));
  describe(running, address, bytes, what);
  std::longjmp(running.place, 1);
}

}  // namespace

void Findings::add(std::string words) {
  const std::lock_guard lock(mutex_);
  if (words_.empty()) words_ = std::move(words);
  has_any_.store(true, std::memory_order_release);
}

void Findings::raise() {
  if (is_empty()) return;
  const std::lock_guard lock(mutex_);
  has_any_.store(false, std::memory_order_release);
  throw Failure(CRUCIBLE_E_EXEC_FAULT, "sanitize: " + std::exchange(words_, {}));
}

void run_guarded(const GuardedLaunch& launch, KernelFunction kernel, void* const* buffers, const double* scalars,
                 std::int64_t begin, std::int64_t end) {
  if (!launch.findings->is_empty()) return;
  Running running;
  running.launch = &launch;
  running.guard.count = launch.is_sized ? launch.ranges.size() : kAnyAddress;
  running.guard.ranges = launch.ranges.data();
  running.guard.stack_end = reinterpret_cast<std::uint64_t>(__builtin_frame_address(0));
  running.guard.report = report;
  if (setjmp(running.place) == 0) {
    launch.enter(&running.guard);
    kernel(buffers, scalars, begin, end);
    launch.enter(nullptr);
  } else {
    launch.enter(nullptr);
    launch.findings->add(running.words);
  }
}

}  // namespace crucible_cpu
