// How far two tensors are apart, in one pass and without memory of its own: a check compares all that a call writes.
#pragma once

#include <Python.h>

namespace crucible::accelerate {

/// Adds gap() to the module; false with a Python exception set.
bool add_compare(PyObject* module);

}  // namespace crucible::accelerate
