// Tensors moved by roundings: by what a judge learns how far a program hands a rounding on (sensitivity.py).
#pragma once

#include <Python.h>

namespace crucible::accelerate {

/// Adds move_by_roundings() to the module; false with a Python exception set.
bool add_roundings(PyObject* module);

}  // namespace crucible::accelerate
