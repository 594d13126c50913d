// What calls have in common that one compiled program serves: their arguments, but for the elements of tensors.
#pragma once

#include <Python.h>

namespace crucible::accelerate {

/// Adds `signature(leaves)`. False with a Python error set.
bool add_signature(PyObject* module);

}  // namespace crucible::accelerate
