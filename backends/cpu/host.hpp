// The host's services as this plugin uses them: options and the log. Set once by init (plugin.cpp).
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "plugins/abi/crucible_plugin.h"

namespace crucible_cpu {

enum class LogLevel : std::uint32_t { kDebug = 0, kInfo = 1, kWarning = 2, kError = 3 };

/// Copies the host's table; null forgets it. Threads: only while no other entry point runs.
void set_host(const crucible_host_api* host);

/// What the user set for `name`, or nothing. Threads: any.
std::optional<std::string> option(std::string_view name);

/// Threads: any.
void log(LogLevel level, std::string_view component, std::string_view text);

}  // namespace crucible_cpu
