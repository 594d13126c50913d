// Keys of load (the highest during a block's life), length, area and size, in the orders that win most often.
#include "core/memory/ranks.hpp"

#include <algorithm>
#include <array>
#include <functional>

namespace crucible::memory {
namespace {

struct Keyed {
  std::array<std::uint64_t, 3> key = {};
  std::uint32_t block = 0;
  bool operator<(const Keyed& other) const {  // one by one: the arrays' own comparison looks at bytes
    for (std::size_t i = 0; i < key.size(); ++i) {
      if (key[i] != other.key[i]) return key[i] > other.key[i];
    }
    return block < other.block;
  }
};

std::array<std::uint64_t, 3> key_of(const Part& part, std::uint32_t block, std::uint32_t rank) {
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
  std::vector<Keyed> keyed(part.blocks.size());
  for (std::uint32_t block = 0; block < keyed.size(); ++block) keyed[block] = {key_of(part, block, rank), block};
  std::ranges::sort(keyed, std::less<>());
  std::vector<std::uint32_t> order(keyed.size());
  std::ranges::transform(keyed, order.begin(), &Keyed::block);
  return order;
}

}  // namespace crucible::memory
