// The stubs are made from the types of the table entries, so that they cannot disagree with the header.
#include "plugins/loader/tables.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <string_view>

namespace crucible::backend {
namespace {

/// A text that can be a template argument.
template <std::size_t N>
struct FixedText {
  char text[N]{};
  constexpr FixedText(const char (&literal)[N]) { std::copy_n(literal, N, text); }  // NOLINT: implicit on purpose
};

/// The error that one missing entry answers: static, so that answering it allocates nothing and destroying it is free.
template <FixedText Name>
crucible_status unimplemented() {
  static constexpr FixedText kMessage = Name;
  static const crucible_error_table kTable = {
      sizeof(crucible_error_table), 0, [](crucible_error*) {},
      [](const crucible_error*) -> crucible_code { return CRUCIBLE_E_UNIMPLEMENTED; },
      [](const crucible_error*) { return crucible_str{kMessage.text, sizeof(kMessage.text) - 1}; }};
  static crucible_error error = {&kTable};
  return &error;
}

template <class Function, FixedText Name>
struct Stub;
template <class... Args, FixedText Name>
struct Stub<crucible_status (*)(Args...), Name> {
  static crucible_status call(Args...) { return unimplemented<Name>(); }
};

#define CRUCIBLE_FILL(table, entry)                                                                         \
  if ((table).entry == nullptr) {                                                                           \
    (table).entry =                                                                                         \
        Stub<decltype((table).entry), "the plugin has no " #table "." #entry ": use a newer plugin">::call; \
  }

void fill(crucible_if_device& device) {
  CRUCIBLE_FILL(device, enumerate)
  CRUCIBLE_FILL(device, open)
  CRUCIBLE_FILL(device, close)
  CRUCIBLE_FILL(device, properties)
}

void fill(crucible_if_memory& memory) {
  CRUCIBLE_FILL(memory, alloc)
  CRUCIBLE_FILL(memory, free)
  CRUCIBLE_FILL(memory, write)
  CRUCIBLE_FILL(memory, read)
  CRUCIBLE_FILL(memory, fill)
  CRUCIBLE_FILL(memory, address)
  CRUCIBLE_FILL(memory, stats)
}

void fill(crucible_if_compile& compile) {
  CRUCIBLE_FILL(compile, dialect)
  CRUCIBLE_FILL(compile, compile)
  CRUCIBLE_FILL(compile, kernel)
  CRUCIBLE_FILL(compile, unload)
}

void fill(crucible_if_plan& plan) {
  CRUCIBLE_FILL(plan, build)
  CRUCIBLE_FILL(plan, set_slots)
  CRUCIBLE_FILL(plan, replay)
  CRUCIBLE_FILL(plan, profile)
  CRUCIBLE_FILL(plan, destroy)
}

void fill(crucible_if_library& library) { CRUCIBLE_FILL(library, claim) }

#undef CRUCIBLE_FILL

/// The first min(theirs, ours) bytes of a sized struct; the rest stays zero.
template <class Table>
Table copy_sized(const void* source) {
  Table table{};
  std::uint32_t size = 0;
  std::memcpy(&size, source, sizeof(size));
  std::memcpy(static_cast<void*>(&table), source, std::min<std::size_t>(size, sizeof(Table)));
  table.struct_size = sizeof(Table);
  return table;
}

/// Errors: kBadInput when the plugin says that it has no such table, or hands out one without entries.
template <class Table>
Result<void> copy_mandatory(const crucible_plugin_api& api, std::uint32_t id, std::string_view name,
                            const std::string& plugin_name, Table& out) {
  const void* source = api.interface_table(id);
  if (source == nullptr) {
    return Error{ErrorCode::kBadInput,
                 fmt::format("plugin {}: the mandatory table '{}' (id {:#06x}) is missing: rebuild the plugin against "
                             "crucible_plugin.h {}.{}",
                             plugin_name, name, id, CRUCIBLE_ABI_MAJOR, CRUCIBLE_ABI_MINOR)};
  }
  std::uint32_t size = 0;
  std::memcpy(&size, source, sizeof(size));
  constexpr std::size_t kSmallest = 2 * sizeof(std::uint32_t) + sizeof(void*);
  if (size < kSmallest) {
    return Error{ErrorCode::kBadInput, fmt::format("plugin {}: the table '{}' says it has {} bytes, {} are the least",
                                                   plugin_name, name, size, kSmallest)};
  }
  out = copy_sized<Table>(source);
  fill(out);
  return {};
}

}  // namespace

Tables unimplemented_tables() {
  Tables tables{};
  fill(tables.device);
  fill(tables.memory);
  fill(tables.compile);
  fill(tables.plan);
  fill(tables.library);
  return tables;
}

Result<Tables> copy_tables(const crucible_plugin_api& api, const std::string& plugin_name) {
  Tables tables = unimplemented_tables();
  CRUCIBLE_TRY_VOID(copy_mandatory(api, CRUCIBLE_IF_DEVICE, "device", plugin_name, tables.device));
  CRUCIBLE_TRY_VOID(copy_mandatory(api, CRUCIBLE_IF_MEMORY, "memory", plugin_name, tables.memory));
  CRUCIBLE_TRY_VOID(copy_mandatory(api, CRUCIBLE_IF_COMPILE, "compile", plugin_name, tables.compile));
  CRUCIBLE_TRY_VOID(copy_mandatory(api, CRUCIBLE_IF_PLAN, "plan", plugin_name, tables.plan));
  if (const void* library = api.interface_table(CRUCIBLE_IF_LIBRARY)) {
    tables.library = copy_sized<crucible_if_library>(library);
    fill(tables.library);
  }
  return tables;
}

crucible_plugin_api copy_api(const crucible_plugin_api* api) {
  crucible_plugin_api copy = copy_sized<crucible_plugin_api>(api);
  if (copy.init == nullptr) copy.init = [](const crucible_host_api*) -> crucible_status { return nullptr; };
  if (copy.shutdown == nullptr) copy.shutdown = []() -> crucible_status { return nullptr; };
  if (copy.interface_table == nullptr) copy.interface_table = [](std::uint32_t) -> const void* { return nullptr; };
  return copy;
}

}  // namespace crucible::backend
