// Helpers of grids: see thread_pool.hpp.
#include "tests/emulators/core/thread_pool.hpp"

#include <algorithm>
#include <chrono>
#include <thread>

namespace crucible::emulator {
namespace {

constexpr std::chrono::milliseconds kIdleBeforeEnd(200);

}  // namespace

void ThreadPool::run(unsigned count, const std::function<void()>& share) {
  if (count <= 1) {
    share();
    return;
  }
  Job job = {.share = &share, .wanted = count - 1};
  {
    const std::lock_guard lock(mutex_);
    jobs_.push_back(&job);
    for (unsigned started = idle_; started < job.wanted; ++started) {
      ++threads_;
      std::thread([this] { help(); }).detach();
    }
  }
  job_came_.notify_all();
  share();
  std::unique_lock lock(mutex_);
  std::erase(jobs_, &job);
  helper_left_.wait(lock, [&] { return job.running == 0; });
}

void ThreadPool::help() {
  std::unique_lock lock(mutex_);
  while (true) {
    ++idle_;
    const bool found = job_came_.wait_for(lock, kIdleBeforeEnd, [&] { return !jobs_.empty(); });
    --idle_;
    if (!found) break;
    Job& job = *jobs_.back();
    if (--job.wanted == 0) jobs_.pop_back();
    ++job.running;
    lock.unlock();
    (*job.share)();
    lock.lock();
    --job.running;
    helper_left_.notify_all();
  }
  --threads_;
}

ThreadPool& thread_pool() {
  static auto& pool = *new ThreadPool;
  return pool;
}

}  // namespace crucible::emulator
