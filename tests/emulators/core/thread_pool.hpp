// Threads that help to run a grid. They start when they are needed and end when there has been nothing to do for a
// while, so that a host which counts threads finds none left.
#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <vector>

namespace crucible::emulator {

class ThreadPool {
 public:
  /// Runs `share` in this thread and in up to `count` - 1 others at the same time; returns when all have returned. A
  /// share that finds nothing to do returns at once. Threads: any, several callers at a time.
  void run(unsigned count, const std::function<void()>& share);

 private:
  struct Job {
    const std::function<void()>* share = nullptr;
    unsigned wanted = 0;   // helpers that may still join
    unsigned running = 0;  // helpers that have not returned
  };
  void help();
  std::mutex mutex_;
  std::condition_variable job_came_, helper_left_;
  std::vector<Job*> jobs_;
  unsigned threads_ = 0, idle_ = 0;
};

/// The process's. Never destroyed.
ThreadPool& thread_pool();

}  // namespace crucible::emulator
