// Test support: the steps of random index programs (RandomOptions::generators).
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "core/graph/random_builder.hpp"

namespace crucible::graph {

class RandomIndexSteps : public RandomBuilder {
 public:
  using RandomBuilder::RandomBuilder;
  /// One step: what is filled or counted is written at places or in slices, listed by masks, or read in another order.
  void generated();

 private:
  Operand filled(std::int64_t elements, double number);
  std::int64_t few_elements() { return std::int64_t{4} << integer(0, 2); }
  double few_numbers() { return static_cast<double>(integer(-1, 2)) / 2; }
  Operand places_in(std::int64_t elements, std::int64_t count);
  const Tensor& old_marked() {
    return marked_[static_cast<std::size_t>(integer(0, static_cast<std::int64_t>(marked_.size()) - 1))];
  }
  void write_at_places();
  void write_slice();
  void read_backwards();
  void list_marked();
  void combine_filled();
  void count_in_order();
  void keep_marked(Tensor made);

  std::vector<std::pair<Operand, double>> fills_;  // with their numbers
  std::vector<Tensor> marked_;                     // one dimension, written at places
};

}  // namespace crucible::graph
