// Threads with queues: see stream.hpp.
#include "tests/emulators/core/stream.hpp"

#include <thread>
#include <utility>

namespace crucible::emulator {
namespace {

constexpr std::chrono::milliseconds kIdleBeforeEnd(200);

}  // namespace

Stream::Stream() : state_(std::make_shared<State>()) {}

Stream::~Stream() { synchronize(); }

std::uint64_t Stream::push(Work work) {
  const std::lock_guard lock(state_->mutex);
  state_->queue.push_back(std::move(work));
  if (!state_->has_thread) {
    state_->has_thread = true;
    std::thread([state = state_] { run(state); }).detach();
  }
  state_->work_came.notify_one();
  return ++state_->pushed;
}

void Stream::run(const std::shared_ptr<State>& state) {
  std::unique_lock lock(state->mutex);
  while (true) {
    if (!state->work_came.wait_for(lock, kIdleBeforeEnd, [&] { return !state->queue.empty(); })) {
      state->has_thread = false;
      return;
    }
    {
      Work work = std::move(state->queue.front());
      state->queue.pop_front();
      lock.unlock();
      work();
    }  // what it held is given back before it counts as done
    lock.lock();
    ++state->done;
    state->work_done.notify_all();
  }
}

void Stream::wait(std::uint64_t ticket) const {
  std::unique_lock lock(state_->mutex);
  state_->work_done.wait(lock, [&] { return state_->done >= ticket; });
}

void Stream::synchronize() const { wait(last()); }

bool Stream::idle() const {
  const std::lock_guard lock(state_->mutex);
  return state_->done == state_->pushed;
}

std::uint64_t Stream::last() const {
  const std::lock_guard lock(state_->mutex);
  return state_->pushed;
}

Event::Event() : state_(std::make_shared<State>()) {}

void Event::record(Stream& stream) {
  std::uint64_t generation = 0;
  {
    const std::lock_guard lock(state_->mutex);
    generation = ++state_->recorded;
  }
  stream.push([state = state_, generation] {
    const std::lock_guard lock(state->mutex);
    // Recorded in two streams, the older record may come last.
    if (generation <= state->done) return;
    state->done = generation;
    state->at = std::chrono::steady_clock::now();
    state->reached.notify_all();
  });
}

void Event::hold(Stream& stream) const {
  std::uint64_t generation = 0;
  {
    const std::lock_guard lock(state_->mutex);
    generation = state_->recorded;
    if (state_->done >= generation) return;
  }
  stream.push([state = state_, generation] {
    std::unique_lock lock(state->mutex);
    state->reached.wait(lock, [&] { return state->done >= generation; });
  });
}

void Event::wait() const {
  std::unique_lock lock(state_->mutex);
  const std::uint64_t generation = state_->recorded;
  state_->reached.wait(lock, [&] { return state_->done >= generation; });
}

bool Event::reached() const {
  const std::lock_guard lock(state_->mutex);
  return state_->done >= state_->recorded;
}

bool Event::recorded() const {
  const std::lock_guard lock(state_->mutex);
  return state_->recorded > 0;
}

std::optional<std::chrono::steady_clock::time_point> Event::time() const {
  const std::lock_guard lock(state_->mutex);
  if (state_->recorded == 0 || state_->done < state_->recorded) return std::nullopt;
  return state_->at;
}

}  // namespace crucible::emulator
