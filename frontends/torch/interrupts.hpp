// Which signals have arrived: SIGINT ends a recording with its iteration, --on-signal begins one. The handlers stand in
// front of the process's own at the level of the system, so that Python's view of its handlers stays what it was.
#pragma once

namespace crucible::recorder {

/// Notes `signal` from now on and calls the handler that was there. False when it is ignored, or has the default action
/// and `replace_default` is false. Threads: holds the GIL.
bool watch_signal(int signal, bool replace_default);

/// Whether `signal` has arrived since it was watched.
bool signal_arrived(int signal);

/// Puts the former handler back where ours is still in place.
void unwatch_signal(int signal);

}  // namespace crucible::recorder
