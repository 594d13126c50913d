// Addresses and buffers: see address_map.hpp.
#include "plugins/sdk/address_map.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

#include "plugins/sdk/error.hpp"

namespace crucible::sdk {

void AddressMap::add(std::uint64_t address, std::uint64_t size, std::shared_ptr<void> memory, std::uint64_t offset) {
  const std::lock_guard lock(mutex_);
  buffers_.emplace(address, Place{std::move(memory), address, offset, size});
}

void AddressMap::remove(std::uint64_t address, std::uint64_t size) {
  const std::lock_guard lock(mutex_);
  const auto [first, last] = buffers_.equal_range(address);
  const auto found = std::find_if(first, last, [size](const auto& buffer) { return buffer.second.left == size; });
  if (found != last) buffers_.erase(found);
}

std::uint64_t AddressMap::number(std::uint64_t size, std::uint64_t align) {
  constexpr std::uint64_t kGap = 4096;
  const std::lock_guard lock(mutex_);
  const std::uint64_t step = std::max(align, kGap);
  const std::uint64_t address = (next_ + step - 1) / step * step;
  next_ = address + size + kGap;
  return address;
}

Place AddressMap::find(std::uint64_t address, const std::string& device) const {
  const std::lock_guard lock(mutex_);
  const auto after = buffers_.upper_bound(address);
  // The nearest before it; of those that share an address, the longest.
  if (after != buffers_.begin()) {
    const auto [first, last] = buffers_.equal_range(std::prev(after)->first);
    const auto longest =
        std::max_element(first, last, [](const auto& a, const auto& b) { return a.second.left < b.second.left; });
    Place place = longest->second;
    const std::uint64_t inside = address - place.address;
    if (inside <= place.left) return {std::move(place.memory), address, place.offset + inside, place.left - inside};
  }
  throw Failure(CRUCIBLE_E_INVALID_ARGUMENT, "the address " + std::to_string(address) + " is in none of the " +
                                                 std::to_string(buffers_.size()) + " buffers of " + device);
}

}  // namespace crucible::sdk
