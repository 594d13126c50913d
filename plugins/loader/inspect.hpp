// What can be known of a shared object without running any of its code.
#pragma once

#include <filesystem>
#include <string_view>

namespace crucible::backend {

/// True when `file` is a 64-bit ELF shared object whose dynamic symbol table defines `symbol`. False for everything
/// else, damaged files included. Threads: any.
bool exports_symbol(const std::filesystem::path& file, std::string_view symbol);

}  // namespace crucible::backend
