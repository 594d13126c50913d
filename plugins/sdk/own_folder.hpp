// Whether a folder is one into which only root and this user can put files: what is executed is kept in no other.
#pragma once

#include <filesystem>
#include <string>

namespace crucible::sdk {

/// Why somebody else could put a file into `folder`, or another folder in its place: owner and mode of it, of every
/// folder above it and of every link on the way, as ssh looks at its keys. A folder in which nobody can replace what is
/// another's
/// (/tmp) may stand above it. "" where nobody could. Threads: any.
std::string doubt_about_folder(const std::filesystem::path& folder);

}  // namespace crucible::sdk
