// Preloaded into a recorded program: counts the calls that the recorder's library makes to allocate memory, on the
// thread that asked for it. A call counts when its return address lies in the library, wherever the allocation ends up.
#include <dlfcn.h>
#include <malloc.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <new>

namespace {

std::uintptr_t library_begin = 0, library_end = 0;
thread_local bool counts_here __attribute__((tls_model("initial-exec"))) = false;
std::atomic<std::uint64_t> calls{0};

void note(const void* caller) {
  const auto address = reinterpret_cast<std::uintptr_t>(caller);
  if (counts_here && address >= library_begin && address < library_end) calls.fetch_add(1, std::memory_order_relaxed);
}

}  // namespace

extern "C" {

void* __libc_malloc(std::size_t);
void* __libc_calloc(std::size_t, std::size_t);
void* __libc_realloc(void*, std::size_t);
void* __libc_memalign(std::size_t, std::size_t);

void* malloc(std::size_t size) {
  note(__builtin_return_address(0));
  return __libc_malloc(size);
}
void* calloc(std::size_t count, std::size_t size) {
  note(__builtin_return_address(0));
  return __libc_calloc(count, size);
}
void* realloc(void* memory, std::size_t size) {
  note(__builtin_return_address(0));
  return __libc_realloc(memory, size);
}
void* aligned_alloc(std::size_t alignment, std::size_t size) {
  note(__builtin_return_address(0));
  return __libc_memalign(alignment, size);
}

/// The library's code, and that the calling thread is the one to look at.
void crucible_count_allocations(std::uintptr_t begin, std::uintptr_t end) {
  library_begin = begin;
  library_end = end;
  calls = 0;
  counts_here = true;
}
std::uint64_t crucible_counted_allocations() { return calls; }

}  // extern "C"

void* operator new(std::size_t size) {
  note(__builtin_return_address(0));
  void* memory = __libc_malloc(size == 0 ? 1 : size);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}
void* operator new[](std::size_t size) {
  note(__builtin_return_address(0));
  void* memory = __libc_malloc(size == 0 ? 1 : size);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete[](void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete[](void* memory, std::size_t) noexcept { std::free(memory); }
