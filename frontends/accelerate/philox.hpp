// Random words of our own (docs/numerics.md, "Random numbers of our own") for calls that nothing records: the same bits
// as the ops of crucible_torch/accelerate/philox.py, which are what a recording and a program have, only sooner.
// Source: Salmon, Moraes, Dror, Shaw: Parallel random numbers: as easy as 1, 2, 3 (SC 2011), Philox 4x32-10.
#pragma once

#include <Python.h>

namespace crucible::accelerate {

/// Adds philox_words() to the module. False with Python's error set.
bool add_philox(PyObject* module);

}  // namespace crucible::accelerate
