// Addresses and buffers: see address_map.hpp.
#include "plugins/sdk/address_map.hpp"

#include <algorithm>
#include <iterator>

#include "plugins/sdk/error.hpp"

namespace crucible::sdk {

void AddressMap::add(std::uint64_t address, std::uint64_t size) {
  const std::lock_guard lock(mutex_);
  buffers_.emplace(address, size);
}

void AddressMap::remove(std::uint64_t address, std::uint64_t size) {
  const std::lock_guard lock(mutex_);
  const auto [first, last] = buffers_.equal_range(address);
  const auto found = std::find_if(first, last, [size](const auto& buffer) { return buffer.second == size; });
  if (found != last) buffers_.erase(found);
}

std::uint64_t AddressMap::bytes_left(std::uint64_t address, const std::string& device) const {
  const std::lock_guard lock(mutex_);
  const auto after = buffers_.upper_bound(address);
  // The nearest before it; of those that share an address, the longest.
  if (after != buffers_.begin()) {
    const auto [first, last] = buffers_.equal_range(std::prev(after)->first);
    std::uint64_t size = 0;
    for (auto buffer = first; buffer != last; ++buffer) size = std::max(size, buffer->second);
    if (address - first->first <= size) return size - (address - first->first);
  }
  throw Failure(CRUCIBLE_E_INVALID_ARGUMENT, "the address " + std::to_string(address) + " is in none of the " +
                                                 std::to_string(buffers_.size()) + " buffers of " + device);
}

}  // namespace crucible::sdk
