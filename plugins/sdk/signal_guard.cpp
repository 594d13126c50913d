// Putting signal handlers back: see signal_guard.hpp.
#include "plugins/sdk/signal_guard.hpp"

namespace crucible::sdk {

SignalGuard::SignalGuard() {
  for (int signal = 1; signal < 32; ++signal) sigaction(signal, nullptr, &actions_[static_cast<std::size_t>(signal)]);
}

SignalGuard::~SignalGuard() {
  for (int signal = 1; signal < 32; ++signal) {
    const struct sigaction& before = actions_[static_cast<std::size_t>(signal)];
    struct sigaction now = {};
    if (sigaction(signal, nullptr, &now) != 0) continue;
    // SIGKILL and SIGSTOP cannot be set, and never differ.
    if (now.sa_handler != before.sa_handler) sigaction(signal, &before, nullptr);
  }
}

}  // namespace crucible::sdk
