// The type crucible_torch._accelerate.Program: observed calls, compiled, as Python's policy
// (package/crucible_torch/accelerate) handles them.
#pragma once

#include <Python.h>

namespace crucible::accelerate {

/// Adds the type and `compile(file, prefix)`. False with a Python error set.
bool add_engine(PyObject* module);

}  // namespace crucible::accelerate
