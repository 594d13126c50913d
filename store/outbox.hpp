// What is still to be written to other places, done by a thread of its own: whoever keeps an answer does not wait for a
// server.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

#include "core/base/hash.hpp"

namespace crucible::store {

/// Threads: any.
class Outbox {
 public:
  /// Called by the thread with all keys that have come meanwhile, each once, at most kAtOnce.
  using Write = std::function<void(const std::vector<ContentHash>&)>;
  static constexpr std::size_t kAtOnce = 64;

  explicit Outbox(Write write) : write_(std::move(write)) {}
  Outbox(const Outbox&) = delete;
  Outbox& operator=(const Outbox&) = delete;
  ~Outbox() {
    (void)finish(std::chrono::milliseconds(0), [] {});
  }

  void add(const ContentHash& key);
  /// Waits until nothing is left, at most `limit`; then calls `stop`, which must make the writing end, and waits for
  /// that. Returns how many keys were not written to their end. Nothing may be added after it.
  std::size_t finish(std::chrono::milliseconds limit, const std::function<void()>& stop);

 private:
  void work();

  const Write write_;
  std::mutex mutex_;  // of what follows
  std::condition_variable changed_;
  std::vector<ContentHash> waiting_;
  std::size_t at_work_ = 0;
  bool is_ending_ = false;
  std::thread thread_;  // since the first key
};

}  // namespace crucible::store
