// One table under one mutex: the layers are for finding faults, not for speed.
#include "plugins/layers/objects.hpp"

#include <algorithm>

namespace crucible::layers {

std::string describe(const Object& object) {
  return std::string(object.kind) + " #" + std::to_string(object.number);
}

void Objects::add(std::string_view kind, const void* address, std::string_view made_by, const void* parent) {
  const std::lock_guard lock(mutex_);
  const auto known = live_.find(address);
  if (known != live_.end() && is_borrowed(kind)) return;  // the same kernel, asked for again
  live_[address] = {kind, ++made_, made_by, parent, {}, false};
}

void Objects::remove(const void* address) {
  const std::lock_guard lock(mutex_);
  live_.erase(address);
  std::erase_if(live_,
                [&](const auto& entry) { return entry.second.parent == address && is_borrowed(entry.second.kind); });
}

bool Objects::find(const void* address, Object& out) const {
  const std::lock_guard lock(mutex_);
  const auto found = live_.find(address);
  if (found == live_.end()) return false;
  out = found->second;
  return true;
}

bool Objects::enter(const void* address, Object& out) {
  const std::lock_guard lock(mutex_);
  const auto found = live_.find(address);
  if (found == live_.end()) return true;
  out = found->second;
  if (found->second.in_use) return found->second.user == std::this_thread::get_id();
  found->second.in_use = true;
  found->second.user = std::this_thread::get_id();
  return true;
}

void Objects::leave(const void* address) {
  const std::lock_guard lock(mutex_);
  if (const auto found = live_.find(address); found != live_.end()) found->second.in_use = false;
}

std::vector<Object> Objects::children(const void* address) const {
  std::vector<Object> found;
  for (const Object& object : all()) {
    if (object.parent == address) found.push_back(object);
  }
  return found;
}

std::vector<Object> Objects::all() const {
  const std::lock_guard lock(mutex_);
  std::vector<Object> found;
  for (const auto& [address, object] : live_) {
    if (!is_borrowed(object.kind)) found.push_back(object);
  }
  std::ranges::sort(found, {}, &Object::number);
  return found;
}

}  // namespace crucible::layers
