// Which process this is. A forked child has the memory of its parent and none of its threads, so that whatever waits
// for one of those would wait for ever: devices know how many forks lie behind them, and refuse in words.
#pragma once

#include <cstdint>

namespace crucible_cpu {

/// How many forks lie between the process that asked first and this one. Threads: any.
std::uint32_t fork_count();

/// Which process made it.
class OwnerProcess {
 public:
  OwnerProcess() : forks_(fork_count()) {}
  /// False in a child that was forked since.
  bool is_this_one() const { return forks_ == fork_count(); }
  /// Errors: UNAVAILABLE in such a child, naming `what` was asked for and what to do instead.
  void require_this_one(const char* what) const;

 private:
  std::uint32_t forks_;
};

}  // namespace crucible_cpu
