// Stand-ins for the few Python functions that say what a program is doing: backward passes, module calls, closures of
// optimizers. They are C functions, so that a program's tracebacks show no line of ours, and pass everything through
// when nobody listens. What it means that one was called is decided in Python (package/crucible_torch/session.py).
#pragma once

#include <Python.h>

namespace crucible::recorder {

/// Methods of the extension module, ended by an empty entry; each has its own docstring. Threads: all hold the GIL.
extern PyMethodDef hook_functions[];

}  // namespace crucible::recorder
