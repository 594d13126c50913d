// Queue and Timeline: owners of the plugin's handles. A destructor cannot report, so it drops the plugin's status after
// destroying it.
#include <utility>

#include "plugins/loader/backend.hpp"

namespace crucible::backend {
namespace {

void drop(crucible_status status) { (void)static_cast<bool>(to_result(status, "release")); }

}  // namespace

Result<Timeline> Timeline::create(std::shared_ptr<Device> device, std::uint64_t initial) {
  Timeline timeline;
  CRUCIBLE_TRY_VOID(
      device->take(device->backend().queue_table().timeline_create(device->handle(), initial, &timeline.handle_),
                   "making a timeline"));
  timeline.device_ = std::move(device);
  return timeline;
}

Timeline::Timeline(Timeline&& other) noexcept
    : device_(std::move(other.device_)), handle_(std::exchange(other.handle_, nullptr)) {}

Timeline& Timeline::operator=(Timeline&& other) noexcept {
  std::swap(device_, other.device_);
  std::swap(handle_, other.handle_);
  return *this;
}

Timeline::~Timeline() {
  if (handle_ != nullptr) drop(device_->backend().queue_table().timeline_destroy(handle_));
}

Result<void> Timeline::signal(std::uint64_t value) {
  return device_->take(device_->backend().queue_table().timeline_signal(handle_, value), "signalling a timeline");
}

Result<void> Timeline::wait(std::uint64_t value) const {
  return device_->take(device_->backend().queue_table().timeline_wait(handle_, value, UINT64_MAX), "running a plan");
}

std::optional<Timeline::Times> Timeline::times(std::uint64_t value) const {
  Times times;
  std::uint32_t clock = CRUCIBLE_CLOCK_HOST;
  const crucible_if_queue& table = device_->backend().queue_table();
  if (!to_result(table.timeline_times(handle_, value, &times.begin_ns, &times.end_ns, &clock), "")) return std::nullopt;
  times.by_device = clock == CRUCIBLE_CLOCK_DEVICE;
  return times;
}

Result<Queue> Queue::create(std::shared_ptr<Device> device) {
  Queue queue;
  CRUCIBLE_TRY_VOID(
      device->take(device->backend().queue_table().create(device->handle(), &queue.handle_), "making a queue"));
  queue.device_ = std::move(device);
  return queue;
}

Queue::Queue(Queue&& other) noexcept
    : device_(std::move(other.device_)), handle_(std::exchange(other.handle_, nullptr)) {}

Queue& Queue::operator=(Queue&& other) noexcept {
  std::swap(device_, other.device_);
  std::swap(handle_, other.handle_);
  return *this;
}

Queue::~Queue() {
  if (handle_ != nullptr) drop(device_->backend().queue_table().destroy(handle_));
}

Result<void> Queue::submit(const Plan& plan, std::span<const crucible_point> waits,
                           std::span<const crucible_point> signals) {
  return device_->take(device_->backend().queue_table().submit(handle_, plan.handle(), waits.data(),
                                                               static_cast<std::uint32_t>(waits.size()), signals.data(),
                                                               static_cast<std::uint32_t>(signals.size())),
                       "submitting a plan");
}

Result<void> Queue::flush() {
  return device_->take(device_->backend().queue_table().flush(handle_), "starting what was submitted");
}

}  // namespace crucible::backend
