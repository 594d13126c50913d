// Who compiles a kernel when several processes, or threads of one, want it at the same time. One file beside the cache,
// a byte of it per kernel, locked while that kernel is compiled. The system gives back what a killed process held.
#pragma once

#include <filesystem>
#include <string>

namespace crucible_cpu {

class KernelLocks {
 public:
  /// Makes the file. Where there is none ("") or it cannot be locked, every lock is granted: then a kernel may be
  /// compiled twice, which only takes time.
  explicit KernelLocks(const std::filesystem::path& file);
  KernelLocks(const KernelLocks&) = delete;
  KernelLocks& operator=(const KernelLocks&) = delete;
  ~KernelLocks();

  /// False when another one holds the lock of the kernel with this key in the cache. Does not wait.
  bool try_lock(const std::string& key);
  void unlock_all();

 private:
  int file_ = -1;
};

}  // namespace crucible_cpu
