// Who makes the answer of a key when several processes, or threads of one, want it at the same time. One file in the
// store's folder, a byte of it per key, locked while that answer is made. The system gives back what a killed process
// held.
#pragma once

#include <map>
#include <mutex>

#include "core/base/hash.hpp"

namespace crucible::store {

/// Threads: any.
class Claims {
 public:
  /// Takes the descriptor of the file. Where there is none (-1), or it cannot be locked, only threads of this process
  /// wait for each other: then an answer may be made twice, which only takes time.
  explicit Claims(int file) : file_(file) {}
  Claims(const Claims&) = delete;
  Claims& operator=(const Claims&) = delete;
  ~Claims();

  /// False while another one has the key. Does not wait.
  bool claim(const ContentHash& key);
  /// Of a key that was claimed through this object.
  void release(const ContentHash& key);

 private:
  std::mutex mutex_;
  std::map<long, ContentHash> held_;  // by place in the file
  int file_;
};

}  // namespace crucible::store
