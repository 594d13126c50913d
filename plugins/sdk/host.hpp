// The host's services as a plugin uses them: the log, options, memory, numbers for the receipt. Set once by init.
//
// An older host gives a shorter table: what it lacks is absent here, and each function says what happens then.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "plugins/abi/crucible_plugin.h"

namespace crucible::sdk {

/// Copies the host's table, as much as the host has of it; null forgets it. Threads: only while no other entry point
/// runs. Errors: INVALID_ARGUMENT for a table that is too short to hold anything.
void set_host(const crucible_host_api* host);

/// Number of the host's ABI minor; 0 before init.
std::uint32_t host_minor();

/// The copy, full size: what the host lacks is null. Threads: any.
const crucible_host_api& host_services();

/// What the user set for `name`, or nothing. Threads: any.
std::optional<std::string> option(std::string_view name);

enum class LogLevel : std::uint32_t { kDebug = 0, kInfo = 1, kWarning = 2, kError = 3 };

/// Without a host the line is dropped. Threads: any.
void log(LogLevel level, std::string_view component, std::string_view text);

/// Host memory from the host's allocator, or from this process's own where the host has none (before 0.2).
/// Owns: give it back with host_free and the same numbers. Null when there is none. Threads: any.
void* host_alloc(std::uint64_t size, std::uint64_t align);
void host_free(void* memory, std::uint64_t size, std::uint64_t align);

/// A number for the run's receipt; dropped by a host before 0.2. Threads: any.
void metric(std::string_view key, std::uint64_t value);

}  // namespace crucible::sdk
