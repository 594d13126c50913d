// Threads of the program that are not recorded. Their ops are nobody's while they make and hand over data; those that
// take what the recorded program knows are missing from the recording, and are counted.
#pragma once

#include <Python.h>

namespace crucible::recorder {

/// wrap_start_thread(original): a stand-in for _thread.start_new_thread; what it starts is looked at.
PyObject* wrap_start_thread(PyObject*, PyObject* original);

}  // namespace crucible::recorder
