// The lowering table: see lower_table.hpp.
#include "frontends/aten/lower_table.hpp"

#include <map>
#include <string>

#include "frontends/aten/call/op_variants.hpp"

namespace crucible::aten {
namespace {

std::map<std::string_view, Entry> make_table(const std::vector<std::span<const Entry>>& lists) {
  std::map<std::string_view, Entry> table;
  for (const auto entries : lists) {
    for (const Entry& entry : entries) table.emplace(entry.name, entry);
  }
  return table;
}

const std::map<std::string_view, Entry>& table() {
  static const std::map<std::string_view, Entry> kTable = make_table(entry_lists());
  return kTable;
}

/// What may be done with complex numbers.
const std::map<std::string_view, Entry>& complex_table() {
  static const std::map<std::string_view, Entry> kTable = [] {
    auto entries = make_table({complex_entries(), complex_function_entries(), complex_own_entries(), fft_entries(), alias_entries()});
    const auto add = [&](std::span<const std::string_view> names, Complexity complexity) {
      for (const std::string_view name : names) entries.emplace(name, Entry{name, table().at(name).lower, complexity});
    };
    add(names_by_parts(), Complexity::kParts);
    add(names_by_magnitude(), Complexity::kMagnitude);
    return entries;
  }();
  return kTable;
}

/// What may be done with sparse tensors.
const std::map<std::string_view, Entry>& sparse_table() {
  static const std::map<std::string_view, Entry> kTable = make_table({sparse_entries(), sparse_own_entries()});
  return kTable;
}

const std::map<std::string_view, Entry>& table_of(Operands operands) {
  if (operands == Operands::kComplex) return complex_table();
  return operands == Operands::kSparse ? sparse_table() : table();
}

}  // namespace

std::vector<std::span<const Entry>> entry_lists() {
  return {
      activation_entries(),
      adaptive_pool_entries(),
      alias_entries(),
      antialias_entries(),
      attention_entries(),
      average_pool_entries(),
      bag_entries(),
      batch_norm_entries(),
      binary_entries(),
      cell_entries(),
      chebyshev_entries(),
      complex_own_entries(),
      convolution_entries(),
      creation_entries(),
      ctc_entries(),
      distance_entries(),
      encoder_entries(),
      factor_entries(),
      fft_entries(),
      foreach_entries(),
      gamma_entries(),
      grid_sample_entries(),
      group_norm_entries(),
      histogram_entries(),
      igamma_entries(),
      index_entries(),
      indexing_entries(),
      interpolate_entries(),
      least_squares_entries(),
      likelihood_entries(),
      loss_entries(),
      margin_entries(),
      max_pool_entries(),
      move_entries(),
      nearest_entries(),
      normalization_entries(),
      optimizer_entries(),
      parts_entries(),
      pattern_entries(),
      pointwise_entries(),
      polynomial_entries(),
      product_entries(),
      recurrent_entries(),
      reduction_entries(),
      reflection_entries(),
      scatter_entries(),
      segment_entries(),
      softmax_entries(),
      sorting_entries(),
      sparse_own_entries(),
      special_entries(),
      statistics_entries(),
      unary_entries(),
      unfold_entries(),
      unique_entries(),
      view_entries(),
      view_copy_entries(),
  };
}

const Entry* find_entry(std::string_view full_name, Operands operands) {
  const auto& entries = table_of(operands);
  const auto own = entries.find(full_name);
  if (own != entries.end()) return &own->second;
  for (const std::string& name : functional_names(full_name)) {
    const auto found = entries.find(name);
    if (found != entries.end()) return &found->second;
  }
  return nullptr;
}

std::vector<std::string_view> lowered_names() {
  std::vector<std::string_view> names;
  for (const auto& [name, entry] : table()) names.push_back(name);
  return names;
}

}  // namespace crucible::aten
