// Drivers change the process when they start: Intel's compilers install signal handlers. They belong to the process,
// whose guest the plugin is.
#pragma once

#include <array>
#include <csignal>

namespace crucible_intel {

/// Signal handlers as they were when the guard was made.
class ProcessGuard {
 public:
  ProcessGuard();
  ~ProcessGuard();
  ProcessGuard(const ProcessGuard&) = delete;
  ProcessGuard& operator=(const ProcessGuard&) = delete;

 private:
  std::array<struct sigaction, 32> actions_{};
};

}  // namespace crucible_intel
