// The lowering table: see lower_table.hpp.
#include "frontends/aten/lower_table.hpp"

#include <map>

namespace crucible::aten {
namespace {

std::map<std::string_view, LowerFunction> make_table() {
  std::map<std::string_view, LowerFunction> table;
  for (const auto entries :
       {attention_entries(), convolution_entries(), creation_entries(), foreach_entries(), indexing_entries(),
        loss_entries(), max_pool_entries(), normalization_entries(), pointwise_entries(), reduction_entries(), view_entries()}) {
    for (const Entry& entry : entries) table.emplace(entry.name, entry.lower);
  }
  return table;
}

const std::map<std::string_view, LowerFunction>& table() {
  static const std::map<std::string_view, LowerFunction> kTable = make_table();
  return kTable;
}

}  // namespace

LowerFunction find_lowering(std::string_view full_name) {
  const auto found = table().find(full_name);
  return found == table().end() ? nullptr : found->second;
}

std::vector<std::string_view> lowered_names() {
  std::vector<std::string_view> names;
  for (const auto& [name, function] : table()) names.push_back(name);
  return names;
}

}  // namespace crucible::aten
