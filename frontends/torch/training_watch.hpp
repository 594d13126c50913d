// The end of an evaluation that stands between two training steps: the first op that runs with gradients on. While one
// is passed over, ops come to the kernels that let them pass, which ask here.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>
#include <Python.h>

namespace crucible::recorder {

/// watch_for_training(tell): `tell` is called, once, when the calling thread runs such an op and before that op is
/// looked at; it may switch recording on again. None: no longer. Nothing is watched on the path of observers.
PyObject* watch_for_training(PyObject*, PyObject* tell);

/// Whether somebody watches.
bool watches_for_training();

/// An op is about to pass. True when it is the first of training, and recording was switched on for it.
bool training_goes_on(const c10::OperatorHandle& op);

}  // namespace crucible::recorder
