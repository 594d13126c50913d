// The third way to see ops: the framework's own observers (RecordFunction). They work in every version and whoever owns
// the dispatch key, but they only look on, above autograd: what this costs stands in docs/recording.md. Also here: how
// the calling thread is switched on and off on whichever path is installed.
#pragma once

namespace crucible::recorder {

/// From now on threads are switched on by observers instead of the dispatch key. Threads: holds the GIL, no recording
/// runs.
void use_observers(bool observe);
/// What the installed path cannot see, as it stands in `not_recorded`; null on the dispatch key's paths.
const char* unseen_by_observers();

/// Lets the ops of the calling thread, and of autograd's threads that work for it, come to the recorder, or no longer.
void switch_thread(bool on);
bool is_thread_on();

}  // namespace crucible::recorder
