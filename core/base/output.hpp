// Files that a command writes for its user: never through a link. Whoever prepared the folder in which one stands could
// have let a name lead anywhere; what is named is written itself, or nothing is.
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <string_view>

#include "core/base/result.hpp"

namespace crucible {

/// Of a file that is its user's alone, as one made of a recording, which holds its maker's data.
inline constexpr mode_t kOwnerOnly = 0600;

/// Opens `path` for appending, creating it (`mode` under the umask), unless its last part is a link or a file that has
/// other names too. /dev/stdout and the like are links that the system made: they are followed.
/// Owns: the descriptor is the caller's. Errors: kBadInput with the reason and what to do.
Result<int> open_to_append(const std::filesystem::path& path, mode_t mode = 0666);

/// The whole of `text` under the name `path`, or what was there before: written beside it under a name of its own, then
/// renamed. A new file gets `mode` under the umask, one that is replaced keeps its own. A link of that name is refused,
/// a device (/dev/stdout, /dev/null) or a pipe is written to. Errors: kBadInput with the reason and what to do; the
/// message begins "cannot write PATH".
Result<void> write_output(const std::filesystem::path& path, std::string_view text, mode_t mode = 0666);

/// Why a file that was opened with O_NOFOLLOW must not be written in place: it is no file, or has other names (a hard
/// link to a file of the user's). "" where it may be.
std::string_view fault_of_open_file(int descriptor);

}  // namespace crucible
