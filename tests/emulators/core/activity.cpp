// See activity.hpp.
#include "tests/emulators/core/activity.hpp"

#include <algorithm>
#include <chrono>
#include <shared_mutex>

#include "tests/emulators/core/device.hpp"
#include "tests/emulators/core/stream.hpp"

namespace crucible::emulator {
namespace {

std::shared_mutex& mutex() {
  static auto& one = *new std::shared_mutex;  // streams may end after everything else
  return one;
}
ActivityListener current_listener = nullptr;
thread_local ActivityScope* current_scope = nullptr;
thread_local std::uint32_t current_graph = 0;

std::uint64_t now_ns() {
  return static_cast<std::uint64_t>(
      std::chrono::duration_cast<std::chrono::nanoseconds>(Stream::now().time_since_epoch()).count());
}

}  // namespace

void listen_to_activities(ActivityListener listener) {
  const std::unique_lock lock(mutex());
  current_listener = listener;
}

ActivityScope::ActivityScope(Activity activity) : activity_(activity), outer_(current_scope) {
  activity_.graph = current_graph;
  if (const Device* const device = Device::running()) activity_.device = device->index();
  activity_.begin_ns = now_ns();
  current_scope = this;
}

ActivityScope::~ActivityScope() {
  current_scope = outer_;
  activity_.end_ns = now_ns();
  const std::shared_lock lock(mutex());
  if (current_listener != nullptr) current_listener(&activity_);
}

void ActivityScope::add(const Work& work) {
  if (current_scope != nullptr) current_scope->activity_.work += work;
}

GraphScope::GraphScope(std::uint32_t graph) : outer_(current_graph) { current_graph = graph; }
GraphScope::~GraphScope() { current_graph = outer_; }

std::uint32_t running_graph() { return current_graph; }

Activity launch_activity(const KernelCode& kernel, const Launch& launch) {
  Activity activity = {.name = kernel.name.c_str(),
                       .static_shared_bytes = kernel.shared_bytes,
                       .dynamic_shared_bytes = launch.dynamic_shared_bytes};
  std::ranges::copy(launch.grid, activity.grid);
  std::ranges::copy(launch.block, activity.block);
  return activity;
}

}  // namespace crucible::emulator
