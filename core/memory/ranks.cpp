// Keys of load (the highest during a block's life), length, area and size, in the orders that win most often.
#include "core/memory/ranks.hpp"

#include <algorithm>
#include <array>
#include <numeric>

namespace crucible::memory {
namespace {

std::array<std::uint64_t, 3> key(const Part& part, std::uint32_t block, std::uint32_t rank) {
  const std::uint64_t size = part.blocks[block].size;
  const std::uint64_t length = part.length[block];
  const std::uint64_t load = part.max_load[block];
  // Saturating: an area of more than 64 bits is as large as any other such area.
  const std::uint64_t area = size > ~std::uint64_t{0} / length ? ~std::uint64_t{0} : size * length;
  switch (rank) {
    case 0:
      return {load, length, size};
    case 1:
      return {length, size, load};
    case 2:
      return {area, size, load};
    case 3:
      return {load, area, size};
    case 4:
      return {load, size, length};
    default:
      return {size, length, load};
  }
}

}  // namespace

std::vector<std::uint32_t> ranked(const Part& part, std::uint32_t rank) {
  std::vector<std::array<std::uint64_t, 3>> keys(part.blocks.size());
  for (std::uint32_t block = 0; block < keys.size(); ++block) keys[block] = key(part, block, rank);
  std::vector<std::uint32_t> order(part.blocks.size());
  std::iota(order.begin(), order.end(), 0u);
  std::ranges::sort(order,
                    [&](std::uint32_t a, std::uint32_t b) { return keys[a] != keys[b] ? keys[a] > keys[b] : a < b; });
  return order;
}

}  // namespace crucible::memory
