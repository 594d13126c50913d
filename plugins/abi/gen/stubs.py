"""stubs.hpp: for each table its "unimplemented" functions, and the fill-in of a short table, in both directions."""

from header import c_type, return_type

PREAMBLE = """// Full-size copies of tables that came from the other side. Generated from abi.toml by gen/generate.py.
//
// A received table is as long as its maker knew it. copy_table() takes the bytes that are there; fill() turns each entry
// that is missing, because the table is older or because it was left NULL, into a function of the same type that answers
// CRUCIBLE_E_UNIMPLEMENTED and its own name. So nobody tests versions, neither the host nor a plugin. Header-only and
// without dependencies: the loader uses it for plugins' tables, the SDK for the host's.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "plugins/abi/crucible_plugin.h"

namespace crucible::abi {

/// Whether host and plugin understand each other: the other side's numbers are given. Newer minors have only more at the
/// end; minors before CRUCIBLE_ABI_OLDEST_MINOR hand over kernels in a way that is gone. The only place where minors are compared.
constexpr bool understands(std::uint32_t major, std::uint32_t minor) {
  return major == CRUCIBLE_ABI_MAJOR && minor >= CRUCIBLE_ABI_OLDEST_MINOR;
}

/// A text that can be a template argument.
template <std::size_t N>
struct FixedText {
  char text[N]{};
  constexpr FixedText(const char (&literal)[N]) { std::copy_n(literal, N, text); }  // NOLINT: implicit on purpose
};

/// The error of one missing entry: static, so that answering it allocates nothing and destroying it is free.
template <FixedText Name>
crucible_status unimplemented() {
  static constexpr FixedText kMessage = Name;
  static const crucible_error_table kTable = {
      sizeof(crucible_error_table), 0, [](crucible_error*) {},
      [](const crucible_error*) -> crucible_code { return CRUCIBLE_E_UNIMPLEMENTED; },
      [](const crucible_error*) { return crucible_str{kMessage.text, sizeof(kMessage.text) - 1}; },
      [](const crucible_error*, std::uint32_t, crucible_str*, crucible_str*) -> std::uint32_t { return 0; }};
  static crucible_error error = {&kTable};
  return &error;
}

/// The first min(theirs, ours) bytes of a sized struct at any alignment; the rest is zero, struct_size is ours.
template <class Table>
Table copy_table(const void* source) {
  Table table{};
  std::uint32_t size = 0;
  std::memcpy(&size, source, sizeof(size));
  std::memcpy(static_cast<void*>(&table), source, std::min<std::size_t>(size, sizeof(Table)));
  table.struct_size = sizeof(Table);
  return table;
}
"""


def unnamed(table, entry):
    """Parameter types without names, as an unused parameter wants them."""
    context = ["void*"] if table.kind == "host" else []
    return ", ".join(context + [c_type(argument) for argument in entry.arguments])


def neutral(table, entry):
    """What a missing entry does: its body."""
    name = f"{table.name}.{entry.name}"
    if table.kind == "plugin" and entry.name in ("init", "shutdown"):
        return "return nullptr;"  # nothing to begin or to end
    if entry.ret == "status":
        side = "the host" if table.kind == "host" else "the plugin"
        return f'return unimplemented<"{side} has no {name}: use a newer one">();'
    if entry.ret == "void":
        return ""
    if entry.ret == "crucible_code":
        return "return CRUCIBLE_E_INTERNAL;"
    if entry.ret == "str":
        return "return {nullptr, 0};"
    return "return {};"


def stubs(spec):
    lines = [PREAMBLE]
    for table in spec.tables:
        lines.append(f"namespace missing::{table.name} {{")
        for entry in table.entries:
            body = neutral(table, entry)
            lines.append(f"inline {return_type(entry)} {entry.name}({unnamed(table, entry)}) {{ {body} }}".replace(
                "{  }", "{}"))
        lines += [f"}}  // namespace missing::{table.name}", ""]
    for table in spec.tables:
        lines.append(f"inline void fill({table.c_name}& table) {{")
        lines += [
            f"  if (table.{entry.name} == nullptr) table.{entry.name} = missing::{table.name}::{entry.name};"
            for entry in table.entries
        ]
        lines += ["}", ""]
    interfaces = spec.interfaces()
    lines += ["/// Every interface table of a plugin, full-size.", "struct Tables {"]
    lines += [f"  {table.c_name} {table.name};" for table in interfaces]
    lines += [
        "};", "", "/// Calls f(table, id, name, mandatory) for each interface table of `tables`.",
        "template <class AnyTables, class F>", "void for_each_interface(AnyTables& tables, F f) {"
    ]
    lines += [
        f'  f(tables.{table.name}, CRUCIBLE_IF_{table.name.upper()}, "{table.name}", {"true" if table.mandatory else "false"});'
        for table in interfaces
    ]
    lines += [
        "}", "", "/// Tables that answer \"unimplemented\" to everything.", "inline Tables unimplemented_tables() {",
        "  Tables tables{};", "  for_each_interface(tables, [](auto& table, std::uint32_t, const char*, bool) {",
        "    table.struct_size = sizeof(table);", "    fill(table);", "  });", "  return tables;", "}", "",
        "/// The functions of an error object, full-size: `status` must not be null.",
        "inline crucible_error_table error_functions(crucible_status status) {",
        "  auto table = copy_table<crucible_error_table>(status->table);", "  fill(table);", "  return table;", "}", "",
        "}  // namespace crucible::abi"
    ]
    return "\n".join(lines) + "\n"
