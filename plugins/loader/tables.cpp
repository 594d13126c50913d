// What may be believed of a table's size before its bytes are read.
#include "plugins/loader/tables.hpp"

#include <fmt/format.h>

#include <cstddef>
#include <cstring>

namespace crucible::backend {
namespace {

constexpr std::size_t kSmallest = 2 * sizeof(std::uint32_t) + sizeof(void*);  // the sizes and one entry
constexpr std::size_t kLargest = 1 << 16;  // no table of any minor comes near: more is not a size

Result<void> check_size(const void* source, std::string_view name, const std::string& plugin_name) {
  std::uint32_t size = 0;
  std::memcpy(&size, source, sizeof(size));
  if (size >= kSmallest && size <= kLargest) return {};
  return Error{ErrorCode::kBadInput, fmt::format("plugin {}: the table '{}' says it has {} bytes, {} to {} can be",
                                                 plugin_name, name, size, kSmallest, kLargest)};
}

}  // namespace

Result<Tables> copy_tables(const crucible_plugin_api& api, const std::string& plugin_name) {
  Tables tables = abi::unimplemented_tables();
  Result<void> outcome;
  abi::for_each_interface(tables, [&](auto& table, std::uint32_t id, const char* name, bool mandatory) {
    if (!outcome) return;
    const void* source = api.interface_table(id);
    if (source == nullptr) {
      if (!mandatory) return;
      outcome =
          Error{ErrorCode::kBadInput,
                fmt::format("plugin {}: the mandatory table '{}' (id {:#06x}) is missing: rebuild the plugin against "
                            "crucible_plugin.h {}.{}",
                            plugin_name, name, id, CRUCIBLE_ABI_MAJOR, CRUCIBLE_ABI_MINOR)};
      return;
    }
    outcome = check_size(source, name, plugin_name);
    if (!outcome) return;
    table = abi::copy_table<std::remove_reference_t<decltype(table)>>(source);
    abi::fill(table);
  });
  if (!outcome) return outcome.error();
  return tables;
}

crucible_plugin_api copy_api(const crucible_plugin_api* api) {
  auto copy = abi::copy_table<crucible_plugin_api>(api);
  abi::fill(copy);
  return copy;
}

}  // namespace crucible::backend
