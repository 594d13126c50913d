// What a plugin has handed out and not got back, by kind: counts and bytes now, and bytes at most. It finds leaks at
// shutdown, answers memory.stats, and costs one lock per object made or destroyed.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <string_view>

#include "plugins/abi/crucible_plugin.h"

namespace crucible::sdk {

/// Threads: any.
class Ledger {
 public:
  struct Entry {
    std::uint64_t live = 0, live_bytes = 0, peak_bytes = 0, made = 0;
  };

  void add(std::string_view kind, std::uint64_t bytes = 0);
  /// Errors: INTERNAL when nothing of that kind, or less than `bytes`, is out: an object was given back twice.
  void remove(std::string_view kind, std::uint64_t bytes = 0);
  Entry of(std::string_view kind) const;

  /// "2 buffers of 96 bytes, 1 plan"; "" when nothing is out.
  std::string leaks() const;
  /// Writes leaks() to the host's log as a warning, if there are any. True when there were none.
  bool report_leaks(std::string_view component) const;
  /// memory.stats: live_bytes and peak_bytes of `kind`, and one number live.KIND per kind.
  void stats(std::string_view kind, crucible_kv_sink sink, void* user) const;
  /// Forgets everything, as after a shutdown whose leaks were reported.
  void clear();

 private:
  mutable std::mutex mutex_;
  std::map<std::string, Entry, std::less<>> entries_;
};

}  // namespace crucible::sdk
