// A plugin whose content was judged (a pin, a certificate) is loaded from a copy that nobody can change any more: what
// was hashed is what runs, whatever happens to the file meanwhile.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "core/base/result.hpp"
#include "plugins/loader/inspect.hpp"

namespace crucible::backend {

/// The whole content of the open file, `bytes` long, in memory that is sealed against every change. Owns: the
/// descriptor is the caller's. Errors: kUnavailable, in words after "plugin PATH ", also where the system has no such
/// memory.
Result<int> sealed_copy(int descriptor, std::size_t bytes);

/// Whether the descriptor is such a copy. Threads: any.
bool is_sealed(int descriptor);

/// By what the dynamic loader opens the file: its path or, of a sealed copy, one of the descriptor that no call had
/// before. Threads: any.
std::string loadable_path(int descriptor, const std::filesystem::path& path);

/// Loads, for good, what a sealed copy needs from where its file is ($ORIGIN): a copy has no such place, and the
/// dynamic loader takes a library of a name that is loaded already. What cannot be loaded is left to the dynamic
/// loader's words. Threads: any.
void load_neighbours(const Inspection& inspection, const std::filesystem::path& folder);

}  // namespace crucible::backend
