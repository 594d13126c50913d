// The lowering table: see lower_table.hpp.
#include "frontends/aten/lower_table.hpp"

#include <map>
#include <string>

#include "frontends/aten/call/op_variants.hpp"

namespace crucible::aten {
namespace {

using Table = std::map<std::string_view, Entry>;
using Lists = std::vector<std::span<const Entry>>;

Lists all_lists() {
#define CRUCIBLE_ATEN_CALL(NAME) NAME##_entries(),
  return {CRUCIBLE_ATEN_TABLES(CRUCIBLE_ATEN_CALL)};
#undef CRUCIBLE_ATEN_CALL
}

/// Of entries of one name the first.
Table make_table(const Lists& lists) {
  Table table;
  for (const auto entries : lists) {
    for (const Entry& entry : entries) table.emplace(entry.name, Entry{entry.name, entry.lower});
  }
  return table;
}

const Table& table() {
  static const Table kTable = make_table(all_lists());
  return kTable;
}

/// What may be done with complex numbers.
const Table& complex_table() {
  static const Table kTable = [] {
    Table table = make_table(
        {complex_entries(), complex_function_entries(), complex_own_entries(), fft_entries(), alias_entries()});
    for (const auto entries : all_lists()) {
      for (const Entry& entry : entries) {
        if (entry.complexity != Complexity::kWhole) table.emplace(entry.name, entry);
      }
    }
    return table;
  }();
  return kTable;
}

/// What may be done with sparse tensors.
const Table& sparse_table() {
  static const Table kTable = make_table(
      {sparse_entries(), sparse_own_entries(), sparse_product_entries(), sparse_product_own_entries()});
  return kTable;
}

const Table& table_of(Operands operands) {
  if (operands == Operands::kComplex) return complex_table();
  return operands == Operands::kSparse ? sparse_table() : table();
}

}  // namespace

const Entry* find_entry(std::string_view full_name, Operands operands) {
  const Table& entries = table_of(operands);
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
