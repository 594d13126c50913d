// A stand-in for a function that a class keeps: it binds the object as a function of Python does, is itself when it is
// looked up in the class (tracers take it from there, put something else and put it back), and shows the original's
// name and code. It is a C function, so a program's tracebacks show no line of ours.
#pragma once

#include <Python.h>

namespace crucible::recorder {

/// What a stand-in does when it is called; `args[0]` is the object, where there is one.
using RunStandIn = PyObject* (*)(PyObject* original, PyObject* const* args, Py_ssize_t count, PyObject* names);

/// A new reference, or null with a Python error set. Threads: holds the GIL, as whoever calls the stand-in.
PyObject* make_stand_in(PyObject* original, RunStandIn run);

}  // namespace crucible::recorder
