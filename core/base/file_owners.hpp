// Who else could change a file, or put another in its place: owner and mode of the file, of every folder on the way to
// it and of every link that is followed, as ssh looks at its keys. Nothing is opened or read.
#pragma once

#include <sys/stat.h>

#include <filesystem>
#include <string>
#include <vector>

namespace crucible {

/// What is wrong with the owner and the mode of one file or folder, as "all users can write WHAT", added to `doubts`.
/// Sound is what belongs to root or to this user and nobody else can write; a group in which nobody else is counts as
/// nobody. With `sticky_is_enough`, a folder that all may write and in which nobody can replace what is another's
/// (/tmp).
void add_doubts(const struct stat& status, bool sticky_is_enough, const std::string& what,
                std::vector<std::string>& doubts);

/// Every doubt about the file or folder `path`, parts of a sentence each: about itself (called `name`), the folders on
/// the way to it and above it, and the links on that way with their own folders. A sticky folder may stand above its
/// own folder, but not be it. Empty: none. Threads: any.
std::vector<std::string> doubts_about(const std::filesystem::path& path, const std::string& name);

}  // namespace crucible
