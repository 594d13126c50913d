// Switching stacks: by twelve instructions on x86-64, by ucontext elsewhere. See fiber.hpp.
#include "tests/emulators/core/fiber.hpp"

#include <sys/mman.h>

#include <cstring>
#include <string>

#include "tests/emulators/core/settings.hpp"

#if !defined(__x86_64__)
#include <ucontext.h>
#endif

#if defined(__x86_64__)
extern "C" void crucible_emulator_switch(void** save, void* to);
asm(R"(
  .text
  .p2align 4
  .hidden crucible_emulator_switch
  .globl crucible_emulator_switch
  .type crucible_emulator_switch, @function
crucible_emulator_switch:
  push %rbp
  push %rbx
  push %r12
  push %r13
  push %r14
  push %r15
  mov %rsp, (%rdi)
  mov %rsi, %rsp
  pop %r15
  pop %r14
  pop %r13
  pop %r12
  pop %rbx
  pop %rbp
  ret
  .size crucible_emulator_switch, .-crucible_emulator_switch
)");
#endif

namespace crucible::emulator {
namespace {

constexpr std::size_t kGuardBytes = 4096;

}  // namespace

struct Fibers::Impl {
  std::uint32_t most = 0;
  char* stacks = nullptr;
  std::vector<char> started, guarded;
#if defined(__x86_64__)
  std::vector<void*> at;
  void* home = nullptr;
#else
  std::vector<ucontext_t> at;
  ucontext_t home;
#endif

  /// The lowest page of each stack is nobody's, so that a stack that is too small does not run into its neighbour.
  char* stack(std::uint32_t fiber) {
    char* const low = stacks + fiber * kStackBytes;
    if (!guarded[fiber]) mprotect(low, kGuardBytes, PROT_NONE);
    guarded[fiber] = 1;
    return low;
  }
};

namespace {

thread_local void* entering_context = nullptr;
thread_local Fibers::Body entering_body = nullptr;
thread_local std::uint32_t entering_fiber = 0;

void fiber_main() {
  // Kept on this stack: the thread-local ones change with the next fiber that is started.
  void* const context = entering_context;
  const Fibers::Body body = entering_body;
  const std::uint32_t fiber = entering_fiber;
  while (true) body(context, fiber);
}

}  // namespace

Fibers::Fibers(std::uint32_t most) : impl_(new Impl) {
  impl_->most = most;
  void* const mapped = mmap(nullptr, most * kStackBytes, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (mapped == MAP_FAILED) give_up("there is no memory for the stacks of " + std::to_string(most) + " threads");
  impl_->stacks = static_cast<char*>(mapped);
  impl_->started.resize(most);
  impl_->guarded.resize(most);
  impl_->at.resize(most);
}

Fibers::~Fibers() {
  munmap(impl_->stacks, impl_->most * kStackBytes);
  delete impl_;
}

void Fibers::abandon() { std::memset(impl_->started.data(), 0, impl_->started.size()); }

#if defined(__x86_64__)

void Fibers::enter(std::uint32_t fiber, Body body, void* context) {
  if (!impl_->started[fiber]) {
    impl_->started[fiber] = 1;
    entering_context = context;
    entering_body = body;
    entering_fiber = fiber;
    // Six registers that are popped, then the address that `ret` goes to; behind it the stack is as after a call.
    void** const top = reinterpret_cast<void**>(impl_->stack(fiber) + kStackBytes - 64);
    top[0] = reinterpret_cast<void*>(&fiber_main);
    top[1] = nullptr;
    std::memset(top - 6, 0, 6 * sizeof(void*));
    impl_->at[fiber] = top - 6;
  }
  crucible_emulator_switch(&impl_->home, impl_->at[fiber]);
}

void Fibers::leave(std::uint32_t fiber) { crucible_emulator_switch(&impl_->at[fiber], impl_->home); }

#else

void Fibers::enter(std::uint32_t fiber, Body body, void* context) {
  if (!impl_->started[fiber]) {
    impl_->started[fiber] = 1;
    entering_context = context;
    entering_body = body;
    entering_fiber = fiber;
    getcontext(&impl_->at[fiber]);
    impl_->at[fiber].uc_stack.ss_sp = impl_->stack(fiber);
    impl_->at[fiber].uc_stack.ss_size = kStackBytes;
    impl_->at[fiber].uc_link = nullptr;
    makecontext(&impl_->at[fiber], fiber_main, 0);
  }
  swapcontext(&impl_->home, &impl_->at[fiber]);
}

void Fibers::leave(std::uint32_t fiber) { swapcontext(&impl_->at[fiber], &impl_->home); }

#endif

}  // namespace crucible::emulator
