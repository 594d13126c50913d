// An order of numbers 0 to n - 1 that changes: which of two comes first is asked in constant time, one is moved behind
// another in O(log n) amortized (Bender, Cole, Demaine, Farach-Colton, Zito 2002). unit_graph.hpp keeps its units in
// one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace crucible::kernel {

class OrderList {
 public:
  using Item = std::uint32_t;

  /// All items, in this order; each once.
  explicit OrderList(const std::vector<Item>& items);

  bool is_before(Item a, Item b) const { return labels_[a] < labels_[b]; }
  /// Takes the item out; it has no place then.
  void remove(Item item);
  /// An item without a place comes right behind `place`, or right before it.
  void insert_after(Item place, Item item);
  void insert_before(Item place, Item item) { insert_after(previous_[place], item); }

 private:
  /// Spreads the labels around an item, over the smallest range that is not crowded.
  void make_room(Item around);

  // One more than there are items: the last one stands before all others and never moves.
  std::vector<std::uint64_t> labels_;
  std::vector<Item> previous_, next_;
};

}  // namespace crucible::kernel
