// What was compiled, in Python's words.
#pragma once

#include <Python.h>

#include "frontends/accelerate/compile.hpp"

namespace crucible::accelerate {

/// A dict: "places" (kind, name, bytes, dtype, whether a run writes it, whether it is drawn), "slots" (name, whether
/// whole, numbers of the observed calls), "draws" (op, arguments, result, place or -1, shape), "left_out", "steps",
/// "arena_bytes", counts and times. A new reference, or null with an error set.
PyObject* describe(const Compiled& compiled);

}  // namespace crucible::accelerate
