// Catches wild accesses of a kernel: code that is run under it and touches a page that nobody may touch is left, and
// the caller is told. Everything else that faults in the process goes to the handler that was there before.
#pragma once

#include <functional>

namespace crucible::emulator {

class AccessGuard {
 public:
  /// While one of these lives the process has the handler; the last one puts the former handler back, because handlers
  /// are the host's. Threads: any.
  class Handler {
   public:
    Handler();
    ~Handler();
    Handler(const Handler&) = delete;
    Handler& operator=(const Handler&) = delete;
  };

  /// False when `work` was left because of a wild access; what it owned at that moment is lost. A Handler has to live.
  static bool run(const std::function<void()>& work);
};

}  // namespace crucible::emulator
