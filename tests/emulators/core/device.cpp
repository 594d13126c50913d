// Streams, state and faults of one device: see device.hpp.
#include "tests/emulators/core/device.hpp"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <thread>
#include <utility>

#include "tests/emulators/core/activity.hpp"

namespace crucible::emulator {
namespace {

thread_local Device* running_device = nullptr;

}  // namespace

void DeviceStream::push(Stream::Work work) {
  device_.keep_default_order(*this);
  stream_.push([this, work = std::move(work)] {
    if (device_.state() != DeviceState::kGood) return;
    running_device = &device_;
    work();
    running_device = nullptr;
  });
}

void DeviceStream::record(Event& event) {
  device_.keep_default_order(*this);
  event.record(stream_);
}

void DeviceStream::hold(const Event& event) { event.hold(stream_); }

void Device::fail(DeviceState state) {
  DeviceState good = DeviceState::kGood;
  state_.compare_exchange_strong(good, state);
}

DeviceStream& Device::create_stream(bool free_running) {
  const std::lock_guard lock(mutex_);
  streams_.emplace_back(new DeviceStream(*this, free_running));
  return *streams_.back();
}

DeviceStream& Device::default_stream() {
  const std::lock_guard lock(mutex_);
  if (default_ == nullptr) {
    streams_.emplace_back(new DeviceStream(*this, false));
    default_ = streams_.back().get();
  }
  return *default_;
}

bool Device::destroy(DeviceStream* stream) {
  std::unique_ptr<DeviceStream> taken;
  {
    const std::lock_guard lock(mutex_);
    const auto found = std::ranges::find(streams_, stream, &std::unique_ptr<DeviceStream>::get);
    if (found == streams_.end() || stream == default_) return false;
    taken = std::move(*found);
    streams_.erase(found);
  }
  // Others may still wait for a ticket of it: its work ends here, without the lock.
  taken->synchronize();
  return true;
}

bool Device::owns(const DeviceStream* stream) const {
  const std::lock_guard lock(mutex_);
  return std::ranges::find(streams_, stream, &std::unique_ptr<DeviceStream>::get) != streams_.end();
}

void Device::synchronize() {
  std::vector<DeviceStream*> all;
  {
    const std::lock_guard lock(mutex_);
    for (const auto& stream : streams_) all.push_back(stream.get());
  }
  for (const DeviceStream* stream : all) stream->synchronize();
}

void Device::keep_default_order(DeviceStream& stream) {
  if (stream.free_running_) return;
  // Events, not tickets: a stream that is waited for may be destroyed before the wait begins.
  const std::lock_guard lock(mutex_);
  if (default_ == nullptr) return;
  for (const auto& other : streams_) {
    const bool concerned = &stream == default_ ? !other->free_running_ : other.get() == default_;
    // An idle stream's clock of the model may be ahead all the same.
    if (!concerned || other.get() == &stream || (!other->stream_.has_model() && other->idle())) continue;
    Event event;
    event.record(other->stream_);
    event.hold(stream.stream_);
  }
}

std::optional<Rule> Device::at(Site site, std::string_view name, std::uint64_t bytes) {
  const std::optional<Rule> rule = faults().hit(site, name);
  if (!rule) return rule;
  using Clock = std::chrono::steady_clock;
  const Clock::time_point begin = Clock::now();
  double wait_ms = rule->wait_ms.value_or(0);
  if (rule->gigabytes_per_second > 0) wait_ms += static_cast<double>(bytes) / (rule->gigabytes_per_second * 1e6);
  const bool forever = rule->action == Action::kHang && !rule->wait_ms;
  while (state() == DeviceState::kGood && !cancelled_.load() &&
         (forever || std::chrono::duration<double, std::milli>(Clock::now() - begin).count() < wait_ms)) {
    std::this_thread::sleep_for(std::chrono::microseconds(200));
  }
  if (!forever) Stream::advance(static_cast<std::uint64_t>(wait_ms * 1e6));
  if (rule->action == Action::kLost) fail(DeviceState::kLost);
  if (rule->action == Action::kTrap) fail(DeviceState::kTrap);
  return rule;
}

void Device::run(const KernelCode& kernel, const Launch& launch, const Sampling* sampling) {
  if (is_empty_ && sampling == nullptr) return;
  Observed observed;
  const Outcome outcome = run_grid(kernel, launch, &cancelled_, &observed, sampling);
  if (is_empty_) return;
  spend(observed.work);
  switch (outcome) {
    case Outcome::kDone:
    case Outcome::kCancelled:
      return;
    case Outcome::kTrap:
      return fail(DeviceState::kTrap);
    case Outcome::kRace:
      std::fprintf(stderr, "crucible emulator: %s\n", observed.race.c_str());
      faults().note(observed.race);
      return fail(DeviceState::kTrap);
    case Outcome::kDivergentMeeting:
      return fail(DeviceState::kTimeout);
    case Outcome::kIllegalAddress:
      return fail(DeviceState::kIllegalAddress);
  }
}

void Device::set_rates(const Rates& rates) {
  if (settings().timing == Timing::kRoofline) rates_ = rates;
}

void Device::spend(const Work& work) {
  ActivityScope::add(work);
  if (rates_) Stream::advance(modelled_ns(*rates_, work));
}

Device* Device::running() { return running_device; }

void Device::reset() {
  cancelled_ = true;
  synchronize();
  cancelled_ = false;
  state_ = DeviceState::kGood;
}

}  // namespace crucible::emulator
