// Which shared libraries a file needs and does not find, and the Debian package that has each: a plugin that lacks one
// is told so by name and not by the dynamic loader's first complaint.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "plugins/loader/inspect.hpp"

namespace crucible::backend {

/// Where those libraries are that a file in `folder` names and finds by its own place ($ORIGIN), in its order. Threads:
/// any.
std::vector<std::filesystem::path> neighbours(const Inspection& inspection, const std::filesystem::path& folder);

/// The libraries that `file` needs, that they need, and so on, where the dynamic loader finds them outside the system's
/// own folders: by a RUNPATH, LD_LIBRARY_PATH or a name with a path. Absolute, each once, at most 1000. Threads: any.
std::vector<std::filesystem::path> foreign_libraries(const Inspection& inspection, const std::filesystem::path& file);

/// The libraries of `inspection.needed` that are in none of the places in which the dynamic loader would look: the
/// file's own RUNPATH ($ORIGIN is `folder`), LD_LIBRARY_PATH, the cache of ldconfig, the standard folders.
std::vector<std::string> missing_libraries(const Inspection& inspection, const std::filesystem::path& folder);

/// "libdnnl2" for "libdnnl.so.2": the package of Debian 12 that has it; "" when it is not known here.
std::string_view package_of(std::string_view library);

/// "libdnnl.so.2 is missing (install libdnnl2)"; without the bracket when the package is not known.
std::string describe_missing(std::string_view library);

/// The library in a sentence of the dynamic loader such as "libx.so.1: cannot open shared object file: ..."; "" when
/// the sentence is about something else.
std::string library_in_message(std::string_view message);

}  // namespace crucible::backend
