#include "runtime/run/kernel_faults.hpp"

#include <dlfcn.h>
#include <sys/ucontext.h>
#include <ucontext.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstdint>
#include <cstring>
#include <mutex>
#include <string_view>

#include "core/base/words.hpp"

namespace crucible::runtime {

struct KernelTable {
  std::vector<std::pair<std::string, std::string>> kernels;
  std::atomic<KernelTable*> next = nullptr;
  KernelTable* previous = nullptr;
};

namespace {

/// The handler walks the list while its thread stands still in a kernel, so that the kernel's own table cannot go.
std::atomic<KernelTable*> first_table = nullptr;
std::mutex changing;

const void* place_of_fault([[maybe_unused]] const void* context) {
#if defined(__x86_64__)
  return reinterpret_cast<const void*>(static_cast<const ucontext_t*>(context)->uc_mcontext.gregs[REG_RIP]);
#elif defined(__aarch64__)
  return reinterpret_cast<const void*>(static_cast<const ucontext_t*>(context)->uc_mcontext.pc);
#else
  return nullptr;
#endif
}

/// The ops of the kernel in which the fault is, or null. dladdr() takes the loader's lock, which a thread that stands
/// in a kernel does not have.
const std::string* ops_at(const void* place) {
  Dl_info info = {};
  if (place == nullptr || dladdr(place, &info) == 0 || info.dli_sname == nullptr) return nullptr;
  for (const KernelTable* table = first_table; table != nullptr; table = table->next) {
    for (const auto& [name, ops] : table->kernels) {
      if (name == info.dli_sname) return &ops;
    }
  }
  return nullptr;
}

void write_text(std::string_view text) {
  while (!text.empty()) {
    const ssize_t count = write(STDERR_FILENO, text.data(), text.size());
    if (count <= 0) return;
    text.remove_prefix(static_cast<std::size_t>(count));
  }
}

/// Functions that format may not be called here.
void write_address(std::uintptr_t address) {
  char digits[2 * sizeof(address)];
  std::size_t at = sizeof(digits);
  do {
    digits[--at] = "0123456789abcdef"[address % 16];
    address /= 16;
  } while (address != 0);
  write_text("0x");
  write_text({&digits[at], sizeof(digits) - at});
}

void report(int signal, siginfo_t* info, void* context) {
  const std::string* const ops = ops_at(place_of_fault(context));
  if (ops == nullptr) {  // none of ours: it happens again, and does what it would have done
    std::signal(signal, SIG_DFL);
    return;
  }
  write_text("crucible: error: the kernel of ");
  write_text(*ops);
  write_text(" left its memory (at ");
  write_address(reinterpret_cast<std::uintptr_t>(info->si_addr));
  write_text(
      "): the file is damaged or was made to do harm, or the compiler made something else of the kernel; nothing was "
      "written there. Please report it\n");
  _exit(3);
}

}  // namespace

NamedKernels::NamedKernels() = default;
NamedKernels::NamedKernels(std::vector<std::pair<std::string, std::string>> kernels)
    : table_(std::make_unique<KernelTable>()) {
  table_->kernels = std::move(kernels);
  for (auto& [name, ops] : table_->kernels)
    ops = without_commands(ops);  // a file's words; a signal handler cannot do it
  const std::lock_guard lock(changing);
  table_->next = first_table.load();
  if (table_->next != nullptr) table_->next.load()->previous = table_.get();
  first_table = table_.get();
}

NamedKernels::NamedKernels(NamedKernels&& other) noexcept = default;
NamedKernels& NamedKernels::operator=(NamedKernels&& other) noexcept {
  if (this == &other) return *this;
  forget();
  table_ = std::move(other.table_);
  return *this;
}
NamedKernels::~NamedKernels() { forget(); }

void NamedKernels::forget() {
  if (!table_) return;
  const std::lock_guard lock(changing);
  if (table_->next != nullptr) table_->next.load()->previous = table_->previous;
  (table_->previous == nullptr ? first_table : table_->previous->next) = table_->next.load();
  table_.reset();
}

void report_kernel_faults() {
  struct sigaction action = {};
  action.sa_sigaction = report;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK;
  sigaction(SIGSEGV, &action, nullptr);
  sigaction(SIGBUS, &action, nullptr);
}

}  // namespace crucible::runtime
