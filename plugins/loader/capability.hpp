// What a plugin says a device can do, and why or why not.
#pragma once

#include <string>
#include <string_view>

#include "plugins/loader/backend.hpp"

namespace crucible::backend {

/// True where the plugin answers yes to `key` ("compile.ir", "compile.opaque"). Opens nothing.
bool has_capability(const Backend& backend, const std::string& device_id, std::string_view key);

/// The plugin's reason for its answer on `key` ("profile", "health"); "" where it gives none. Opens nothing.
std::string capability_reason(const Backend& backend, const std::string& device_id, std::string_view key);

}  // namespace crucible::backend
