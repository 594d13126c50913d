// Threads with queues: see stream.hpp.
#include "tests/emulators/core/stream.hpp"

#include <algorithm>
#include <atomic>
#include <thread>
#include <utility>

#include "tests/emulators/core/settings.hpp"

namespace crucible::emulator {
namespace {

constexpr std::chrono::milliseconds kIdleBeforeEnd(200);

// The clock of the stream whose work this thread runs, where there is a model.
thread_local Stream::TimePoint* running = nullptr;

/// What the host has waited for, in the time of the model.
std::atomic<Stream::TimePoint::duration::rep> host_clock = 0;

void host_sees(Stream::TimePoint time) {
  const auto seen = time.time_since_epoch().count();
  for (auto before = host_clock.load(); before < seen && !host_clock.compare_exchange_weak(before, seen);) {
  }
}

Stream::TimePoint host_now() { return Stream::TimePoint(Stream::TimePoint::duration(host_clock.load())); }

}  // namespace

Stream::Stream() : state_(std::make_shared<State>()), has_model_(settings().timing == Timing::kRoofline) {}

Stream::~Stream() { synchronize(); }

std::uint64_t Stream::push(Work work) {
  const std::lock_guard lock(state_->mutex);
  state_->queue.emplace_back(host_now(), std::move(work));
  if (!state_->has_thread) {
    state_->has_thread = true;
    std::thread([state = state_, has_model = has_model_] { run(state, has_model); }).detach();
  }
  state_->work_came.notify_one();
  return ++state_->pushed;
}

void Stream::run(const std::shared_ptr<State>& state, bool has_model) {
  std::unique_lock lock(state->mutex);
  while (true) {
    if (!state->work_came.wait_for(lock, kIdleBeforeEnd, [&] { return !state->queue.empty(); })) {
      state->has_thread = false;
      return;
    }
    TimePoint clock = state->clock;
    {
      auto [earliest, work] = std::move(state->queue.front());
      state->queue.pop_front();
      lock.unlock();
      clock = std::max(clock, earliest);
      running = has_model ? &clock : nullptr;
      work();
      running = nullptr;
    }  // what it held is given back before it counts as done
    lock.lock();
    state->clock = clock;
    ++state->done;
    state->work_done.notify_all();
  }
}

void Stream::wait(std::uint64_t ticket) const {
  std::unique_lock lock(state_->mutex);
  state_->work_done.wait(lock, [&] { return state_->done >= ticket; });
  host_sees(state_->clock);
}

void Stream::synchronize() const { wait(last()); }

bool Stream::idle() const {
  const std::lock_guard lock(state_->mutex);
  const bool is_idle = state_->done == state_->pushed;
  if (is_idle) host_sees(state_->clock);
  return is_idle;
}

void Stream::advance(std::uint64_t ns) {
  if (running != nullptr) *running += std::chrono::nanoseconds(ns);
}

void Stream::join(TimePoint other) {
  if (running != nullptr) *running = std::max(*running, other);
}

Stream::TimePoint Stream::now() { return running != nullptr ? *running : std::chrono::steady_clock::now(); }

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
  stream.push([state = state_, generation, has_model = stream.has_model()] {
    const std::lock_guard lock(state->mutex);
    // Recorded in two streams, the older record may come last.
    if (generation <= state->done) return;
    state->done = generation;
    state->at = Stream::now();
    state->has_model = has_model;
    state->reached.notify_all();
  });
}

void Event::hold(Stream& stream) const {
  std::uint64_t generation = 0;
  {
    const std::lock_guard lock(state_->mutex);
    generation = state_->recorded;
    // A clock of the model has to be set by an event that has long been reached too.
    if (state_->done >= generation && (generation == 0 || !stream.has_model())) return;
  }
  stream.push([state = state_, generation] {
    std::unique_lock lock(state->mutex);
    state->reached.wait(lock, [&] { return state->done >= generation; });
    Stream::join(state->at);
  });
}

void Event::wait() const {
  std::unique_lock lock(state_->mutex);
  const std::uint64_t generation = state_->recorded;
  state_->reached.wait(lock, [&] { return state_->done >= generation; });
  if (state_->has_model) host_sees(state_->at);
}

bool Event::reached() const {
  const std::lock_guard lock(state_->mutex);
  const bool is_reached = state_->done >= state_->recorded;
  if (is_reached && state_->has_model) host_sees(state_->at);
  return is_reached;
}

bool Event::recorded() const {
  const std::lock_guard lock(state_->mutex);
  return state_->recorded > 0;
}

std::optional<Stream::TimePoint> Event::time() const {
  const std::lock_guard lock(state_->mutex);
  if (state_->recorded == 0 || state_->done < state_->recorded) return std::nullopt;
  return state_->at;
}

}  // namespace crucible::emulator
