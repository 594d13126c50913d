// The handler of wild accesses: see access_guard.hpp.
#include "tests/emulators/core/access_guard.hpp"

#include <setjmp.h>
#include <signal.h>
#include <ucontext.h>

#include <cstdint>
#include <mutex>

#include "tests/emulators/core/kernel_abi.h"
#include "tests/emulators/core/memory.hpp"

namespace crucible::emulator {
namespace {

constexpr int kSignals[] = {SIGSEGV, SIGBUS};

thread_local sigjmp_buf* leave = nullptr;
// A fiber that has run out of its stack cannot run the handler on it.
thread_local char handler_stack[32768];

std::mutex handler_mutex;
unsigned handlers = 0;
struct sigaction former[2];

/// Strips the tag from registers that hold device addresses. True when there was one: the access may be right now.
bool mend([[maybe_unused]] void* context) {
#if defined(__x86_64__)
  bool mended = false;
  greg_t* const registers = static_cast<ucontext_t*>(context)->uc_mcontext.gregs;
  for (const int i : {REG_R8, REG_R9, REG_R10, REG_R11, REG_R12, REG_R13, REG_R14, REG_R15, REG_RDI, REG_RSI, REG_RBP,
                      REG_RBX, REG_RDX, REG_RAX, REG_RCX}) {
    const auto value = static_cast<std::uint64_t>(registers[i]);
    // Bits 47 to 63 are the tag alone, and the rest is where device memory is: a number is hardly ever both.
    if (value >> 47 != EMU_TAG >> 47 || !near_device_memory(value & ~EMU_TAG)) continue;
    registers[i] = static_cast<greg_t>(value & ~EMU_TAG);
    mended = true;
  }
  return mended;
#else
  return false;
#endif
}

void on_wild_access(int signal, siginfo_t* info, void* context) {
  if (leave != nullptr) {
    if (mend(context)) return;
    siglongjmp(*leave, 1);
  }
  // Not a kernel's: the instruction is tried again under the former handler.
  const struct sigaction& before = former[signal == SIGSEGV ? 0 : 1];
  if ((before.sa_flags & SA_SIGINFO) != 0) {
    before.sa_sigaction(signal, info, context);
  } else {
    sigaction(signal, &before, nullptr);
  }
}

}  // namespace

AccessGuard::Handler::Handler() {
  const std::lock_guard lock(handler_mutex);
  if (handlers++ > 0) return;
  struct sigaction action = {};
  action.sa_sigaction = on_wild_access;
  action.sa_flags = SA_SIGINFO | SA_NODEFER | SA_ONSTACK;
  for (int i = 0; i < 2; ++i) sigaction(kSignals[i], &action, &former[i]);
}

AccessGuard::Handler::~Handler() {
  const std::lock_guard lock(handler_mutex);
  if (--handlers > 0) return;
  for (int i = 0; i < 2; ++i) sigaction(kSignals[i], &former[i], nullptr);
}

bool AccessGuard::run(const std::function<void()>& work) {
  stack_t before = {};
  stack_t own = {};
  own.ss_sp = handler_stack;
  own.ss_size = sizeof handler_stack;
  sigaltstack(&own, &before);
  sigjmp_buf here;
  sigjmp_buf* const outer = leave;
  const bool intact = sigsetjmp(here, 0) == 0;
  if (intact) {
    leave = &here;
    work();
  }
  leave = outer;
  sigaltstack(&before, nullptr);
  return intact;
}

}  // namespace crucible::emulator
