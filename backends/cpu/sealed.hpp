// Machine code that was checked, loaded: from a copy that nobody can change any more.
#pragma once

#include <string>
#include <string_view>

namespace crucible_cpu {

/// Copies `bytes` into memory that is sealed against writing and opens them as a library: what was hashed is what runs,
/// whatever happens to the file that they came from. Where the system has no such memory, from a temporary file of this
/// user's that vanishes at once. Returns the handle for dlsym and dlclose, or null with the reason in `problem`.
/// Threads: any.
void* open_sealed(std::string_view bytes, std::string& problem);

}  // namespace crucible_cpu
