// Which recordings this user made on this machine: whoever replays another one replays a stranger's.
#pragma once

#include <filesystem>

namespace crucible::trace {

/// Remembers the file, as `crucible record` left it, in $XDG_STATE_HOME/crucible/recorded (else ~/.local/state), for
/// the last 4096 of them. A file that is copied, moved or changed is another one: the system gives each its own time of
/// change, which nobody can choose. Where nothing can be remembered, the file counts as a stranger's.
void remember_recording(const std::filesystem::path& file);

/// True for a file that was remembered, is as it was, and belongs to this user.
bool is_own_recording(const std::filesystem::path& file);

}  // namespace crucible::trace
