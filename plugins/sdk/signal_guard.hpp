// Signal handlers put back after a driver's code ran: drivers change them when they start, and compilers when they
// compile. They belong to the process, whose guest a plugin is.
#pragma once

#include <array>
#include <csignal>

namespace crucible::sdk {

/// Signal handlers as they were when the guard was made.
class SignalGuard {
 public:
  SignalGuard();
  ~SignalGuard();
  SignalGuard(const SignalGuard&) = delete;
  SignalGuard& operator=(const SignalGuard&) = delete;

 private:
  std::array<struct sigaction, 32> actions_{};
};

}  // namespace crucible::sdk
