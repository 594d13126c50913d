// What makes the program's data in its own process: the iterator of a DataLoader with all that it runs - samplers, the
// dataset, transforms, the collate function. It varies from batch to batch and is no part of an iteration, so its ops
// pass unseen, and what it gives enters with its bytes, in the role of an input, when an op of the program first reads
// it. What those ops write of the program's own memory is looked at again; what they read of what the program computes
// is counted.
#pragma once

#include <Python.h>

namespace crucible::recorder {

/// Whether what the calling thread runs makes data.
bool makes_input();

/// A value of `tensor`, a Python object, leaves while data is made (numpy(), tolist()): counted where the program
/// computes it. Threads: holds the GIL.
void note_read_for_input(PyObject* tensor);

// For Python; each has its docstring in python_hooks.cpp.
PyObject* wrap_input(PyObject*, PyObject* original);
PyObject* wrap_next(PyObject*, PyObject* original);
PyObject* enter_input(PyObject*, PyObject*);
PyObject* leave_input(PyObject*, PyObject*);
PyObject* forget_input(PyObject*, PyObject*);
PyObject* makes_input_now(PyObject*, PyObject*);

}  // namespace crucible::recorder
