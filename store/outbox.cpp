// A queue and its thread: see outbox.hpp.
#include "store/outbox.hpp"

#include <algorithm>
#include <utility>

namespace crucible::store {

void Outbox::add(const ContentHash& key) {
  const std::lock_guard lock(mutex_);
  if (is_ending_) return;
  if (std::ranges::find(waiting_, key) == waiting_.end()) waiting_.push_back(key);
  if (!thread_.joinable()) thread_ = std::thread([this] { work(); });
  changed_.notify_all();
}

void Outbox::work() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [this] { return is_ending_ || !waiting_.empty(); });
    if (is_ending_) return;
    const auto end = waiting_.begin() + static_cast<std::ptrdiff_t>(std::min(waiting_.size(), kAtOnce));
    const std::vector<ContentHash> keys(waiting_.begin(), end);
    waiting_.erase(waiting_.begin(), end);
    at_work_ = keys.size();
    lock.unlock();
    write_(keys);
    lock.lock();
    if (!is_ending_) at_work_ = 0;
    changed_.notify_all();
  }
}

std::size_t Outbox::finish(std::chrono::milliseconds limit, const std::function<void()>& stop) {
  std::size_t left = 0;
  {
    std::unique_lock lock(mutex_);
    if (!thread_.joinable()) return 0;
    changed_.wait_for(lock, limit, [this] { return waiting_.empty() && at_work_ == 0; });
    left = waiting_.size() + at_work_;
    is_ending_ = true;
    changed_.notify_all();
  }
  if (left != 0) stop();
  thread_.join();
  return left;
}

}  // namespace crucible::store
