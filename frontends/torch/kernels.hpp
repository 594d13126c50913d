// Registration of the recorder's kernels with the dispatcher, for as long as a recording lasts.
#pragma once

#include <string>

namespace crucible::recorder {

/// Which way ops come to the recorder.
enum class Path {
  kTyped,   // typed kernels for the listed operators, the boxed fallback for all others
  kBoxed,   // the boxed fallback for every operator; slower, the same records
  kPerOp,   // a boxed kernel per operator: where something else owns the fallback of the key
  kScout,   // as kBoxed, but the scout is asked before each op, recorded or not (scout.hpp)
  kRecordFunction,  // the framework's observers: where the key cannot be used at all (record_function.hpp)
};

/// Registers the kernels; falls back from kTyped to kPerOp when the fallback is taken. Returns what was installed:
/// "typed kernels on the Fake key", ... Throws c10::Error when nothing can be registered. Threads: holds the GIL.
std::string install_kernels(Path path);

/// On the path of one kernel per operator: gives those registered since then theirs. Call between iterations.
void cover_late_operators();

/// Takes them all back.
void uninstall_kernels();

}  // namespace crucible::recorder
