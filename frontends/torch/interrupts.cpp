// Handlers are async-signal-safe: one flag, and a call of the handler that was there.
#include "frontends/torch/interrupts.hpp"

#include <csignal>

namespace crucible::recorder {

namespace {

constexpr int kSignals = 65;

struct sigaction former[kSignals];
volatile std::sig_atomic_t arrived[kSignals];
bool watched[kSignals];

void note(int signal, siginfo_t* information, void* context) {
  arrived[signal] = 1;
  const struct sigaction& before = former[signal];
  if ((before.sa_flags & SA_SIGINFO) != 0) {
    before.sa_sigaction(signal, information, context);
  } else if (before.sa_handler != SIG_DFL && before.sa_handler != SIG_IGN) {
    before.sa_handler(signal);
  }
}

bool is_ours(int signal) {
  struct sigaction present {};
  return sigaction(signal, nullptr, &present) == 0 && (present.sa_flags & SA_SIGINFO) != 0 &&
         present.sa_sigaction == note;
}

}  // namespace

bool watch_signal(int signal, bool replace_default) {
  if (signal <= 0 || signal >= kSignals || sigaction(signal, nullptr, &former[signal]) != 0 || is_ours(signal))
    return false;
  const bool has_handler = (former[signal].sa_flags & SA_SIGINFO) != 0 ||
                           (former[signal].sa_handler != SIG_DFL && former[signal].sa_handler != SIG_IGN);
  const bool is_default = !has_handler && former[signal].sa_handler == SIG_DFL;
  if (!has_handler && !(is_default && replace_default)) return false;
  struct sigaction ours = former[signal];
  ours.sa_sigaction = note;
  ours.sa_flags |= SA_SIGINFO;
  if (is_default) ours.sa_flags |= SA_RESTART;
  arrived[signal] = 0;
  watched[signal] = sigaction(signal, &ours, nullptr) == 0;
  return watched[signal];
}

bool signal_arrived(int signal) { return signal > 0 && signal < kSignals && arrived[signal] != 0; }

void unwatch_signal(int signal) {
  if (signal <= 0 || signal >= kSignals || !watched[signal]) return;
  if (is_ours(signal)) sigaction(signal, &former[signal], nullptr);
  watched[signal] = false;
}

}  // namespace crucible::recorder
