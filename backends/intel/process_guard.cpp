// Putting signal handlers back: see process_guard.hpp.
#include "backends/intel/process_guard.hpp"

namespace crucible_intel {

ProcessGuard::ProcessGuard() {
  for (int signal = 1; signal < 32; ++signal) sigaction(signal, nullptr, &actions_[static_cast<std::size_t>(signal)]);
}

ProcessGuard::~ProcessGuard() {
  for (int signal = 1; signal < 32; ++signal) {
    const struct sigaction& before = actions_[static_cast<std::size_t>(signal)];
    struct sigaction now = {};
    if (sigaction(signal, nullptr, &now) != 0) continue;
    // SIGKILL and SIGSTOP cannot be set, and never differ.
    if (now.sa_handler != before.sa_handler) sigaction(signal, &before, nullptr);
  }
}

}  // namespace crucible_intel
