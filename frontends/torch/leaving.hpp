// Values that leave tensors for Python by ways that are no operators: `numpy()`, `tolist()`, DLPack, pickle, a pointer,
// printing. Stand-ins for these methods write a record of namespace "python" in front of the call;
// package/crucible_torch/leaving.py puts them in place while a recording runs, and takes them back.
#pragma once

#include <Python.h>

namespace crucible::recorder {

/// wrap_leaving(way, original): a stand-in for a method or function whose first argument is a tensor or a storage.
PyObject* wrap_leaving(PyObject*, PyObject* args);

}  // namespace crucible::recorder
