// Labels of 62 bits with room between them: see order_list.hpp.
#include "core/kernel/fuse/order_list.hpp"

namespace crucible::kernel {
namespace {

constexpr int kBits = 62;
constexpr OrderList::Item kNoItem = 0xffffffffu;

}  // namespace

OrderList::OrderList(const std::vector<Item>& items)
    : labels_(items.size() + 1, 0), previous_(items.size() + 1, kNoItem), next_(items.size() + 1, kNoItem) {
  const std::uint64_t gap = (std::uint64_t{1} << kBits) / (items.size() + 1);
  auto at = static_cast<Item>(items.size());
  for (std::size_t i = 0; i < items.size(); ++i) {
    labels_[items[i]] = (i + 1) * gap;
    previous_[items[i]] = at;
    next_[at] = items[i];
    at = items[i];
  }
}

void OrderList::remove(Item item) {
  next_[previous_[item]] = next_[item];
  if (next_[item] != kNoItem) previous_[next_[item]] = previous_[item];
}

void OrderList::insert_after(Item place, Item item) {
  const auto end_of_gap = [&] { return next_[place] == kNoItem ? std::uint64_t{1} << kBits : labels_[next_[place]]; };
  if (end_of_gap() - labels_[place] < 2) make_room(place);
  labels_[item] = labels_[place] + (end_of_gap() - labels_[place]) / 2;
  previous_[item] = place;
  next_[item] = next_[place];
  if (next_[place] != kNoItem) previous_[next_[place]] = item;
  next_[place] = item;
}

void OrderList::make_room(Item around) {
  Item first = around, last = around;
  std::uint64_t count = 1;
  double most = 1;  // labels that a range of 2^bits may have: (4 / 3)^bits
  for (int bits = 1; bits <= kBits; ++bits) {
    most *= 4.0 / 3.0;
    const std::uint64_t size = std::uint64_t{1} << bits, begin = labels_[around] & ~(size - 1);
    while (previous_[first] != kNoItem && labels_[previous_[first]] >= begin) {
      first = previous_[first];
      ++count;
    }
    while (next_[last] != kNoItem && labels_[next_[last]] < begin + size) {
      last = next_[last];
      ++count;
    }
    if (static_cast<double>(count) > most || size / count < 2) continue;
    const std::uint64_t gap = size / count;
    for (std::uint64_t label = begin; count-- > 0; label += gap) {
      labels_[first] = label;
      first = next_[first];
    }
    return;
  }
}

}  // namespace crucible::kernel
