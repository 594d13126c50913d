// The state of a process that a plugin has no business to change: taken before and after its code has run.
#pragma once

#include <signal.h>
#include <sys/stat.h>

#include <array>
#include <cstddef>
#include <string>
#include <vector>

namespace crucible::backend {

class Snapshot {
 public:
  /// The state now.
  static Snapshot take();
  /// What has changed since, each a part of a sentence ("changed the locale from C to de_DE.UTF-8"); empty: nothing.
  std::vector<std::string> changes_until(const Snapshot& later) const;

 private:
  std::string locale_, folder_;
  std::array<struct sigaction, NSIG> handlers_{};
  std::array<struct stat, 3> streams_{};  // standard input, output, error
  std::array<bool, 3> open_{};
  unsigned rounding_ = 0;  // control bits of MXCSR (x86), FPCR (AArch64)
  unsigned short x87_ = 0;
  std::size_t threads_ = 0;
};

}  // namespace crucible::backend
