// Stand-ins: the original is the C function's `self`. A listener's exception goes on into the program only when it is
// not an Exception (KeyboardInterrupt, SystemExit); our own mistakes are printed and the program goes on.
#include "frontends/torch/python_hooks.hpp"

#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/graph_task.h>
#include <torch/csrc/autograd/python_variable.h>

#include <unordered_set>

#include "frontends/torch/data_input.hpp"
#include "frontends/torch/leaving.hpp"
#include "frontends/torch/other_threads.hpp"
#include "frontends/torch/record_function.hpp"
#include "frontends/torch/recorder.hpp"
#include "frontends/torch/scout.hpp"
#include "frontends/torch/stand_in.hpp"
#include "frontends/torch/training_watch.hpp"

namespace crucible::recorder {

namespace {

/// Guarded by the GIL.
struct Listener {
  PyObject* backward_ended = nullptr;  // called with nothing after the outermost backward pass
  PyObject* module_entered = nullptr;  // called with (module, whether gradients are on) before an outermost module call
  PyObject* module_left = nullptr;     // called with (module, result) after it
  PyObject* excluded_runs = nullptr;   // called with the module when an excluded one is run with gradients on
  std::unordered_set<PyObject*> excluded;  // modules, held by Python
};

Listener& listener() {
  static auto* instance = new Listener;  // never destroyed: stand-ins may be called while the process ends
  return *instance;
}

thread_local int backward_depth = 0;
thread_local int module_depth = 0;

/// Calls `function` if there is one. False with a Python error set: it goes on into the program.
template <class... Arguments>
bool tell(PyObject* function, Arguments... arguments) {
  if (function == nullptr) return true;
  Py_INCREF(function);  // the call may replace it
  PyObject* done = PyObject_CallFunctionObjArgs(function, arguments..., nullptr);
  Py_DECREF(function);
  if (done == nullptr) {
    if (PyErr_ExceptionMatches(PyExc_Exception) == 0) return false;
    PyErr_WriteUnraisable(nullptr);
  }
  Py_XDECREF(done);
  return true;
}

void add_losses(PyObject* tensors) {
  if (tensors == nullptr) return;
  if (THPVariable_Check(tensors)) return Recorder::instance().add_loss(THPVariable_Unpack(tensors));
  if (!PyTuple_Check(tensors) && !PyList_Check(tensors)) return;
  for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(tensors); ++i) {
    PyObject* element = PySequence_Fast_GET_ITEM(tensors, i);
    if (THPVariable_Check(element)) Recorder::instance().add_loss(THPVariable_Unpack(element));
  }
}

/// Calls `original` with the phase set, and puts the phase back.
PyObject* call_in_phase(trace::Phase phase, PyObject* original, PyObject* args, PyObject* keywords) {
  Recorder& recorder = Recorder::instance();
  const trace::Phase before = recorder.phase();
  recorder.set_phase(phase);
  PyObject* result = PyObject_Call(original, args, keywords);
  recorder.set_phase(before);
  return result;
}

void note_backward_site() {
  Recorder& recorder = Recorder::instance();
  if (!recorder.is_recording() || !is_thread_on()) return;
  recorder.set_backward_site(recorder.thread().call_sites.find(recorder.call_sites(), false).site);
}

PyObject* call_backward(PyObject* original, PyObject* args, PyObject* keywords) {
  if (makes_input()) return PyObject_Call(original, args, keywords);  // of what data is made with, not the program's
  if (backward_depth++ == 0) {
    Scout::instance().note_backward();
    note_backward_site();
  }
  PyObject* result = call_in_phase(trace::Phase::kBackward, original, args, keywords);
  --backward_depth;
  if (backward_depth == 0 && result != nullptr && !tell(listener().backward_ended)) Py_CLEAR(result);
  return result;
}

PyObject* recorded_backward(PyObject* original, PyObject* args, PyObject* keywords) {
  PyObject* tensors = PyTuple_GET_SIZE(args) > 0 ? PyTuple_GET_ITEM(args, 0) : nullptr;
  if (tensors == nullptr && keywords != nullptr) tensors = PyDict_GetItemString(keywords, "tensors");
  try {
    if (!makes_input()) add_losses(tensors);
  } catch (const std::exception&) {
    // The value of a loss cannot be read (a subclass, a device that failed): backward itself will say so, or does not
    // mind.
  }
  return call_backward(original, args, keywords);
}

/// For torch.autograd.grad, whose outputs are no losses.
PyObject* recorded_grad(PyObject* original, PyObject* args, PyObject* keywords) {
  return call_backward(original, args, keywords);
}

/// For the closure of an optimizer's step: what it computes is forward again.
PyObject* recorded_closure(PyObject* original, PyObject* args, PyObject* keywords) {
  return call_in_phase(trace::Phase::kForward, original, args, keywords);
}

/// Runs an excluded module unseen. Its outputs enter as external bytes when an op reads them.
PyObject* call_excluded(PyObject* original, PyObject* module, PyObject* const* args, Py_ssize_t count,
                        PyObject* names) {
  if (at::GradMode::is_enabled()) {
    if (!tell(listener().excluded_runs, module)) return nullptr;
    return PyObject_Vectorcall(original, args, static_cast<std::size_t>(count), names);
  }
  Recorder::instance().pause();
  PyObject* result = PyObject_Vectorcall(original, args, static_cast<std::size_t>(count), names);
  Recorder::instance().resume();
  return result;
}

PyObject* recorded_module_call(PyObject* original, PyObject* const* args, Py_ssize_t count, PyObject* names) {
  const Listener& listens = listener();
  if (listens.module_left == nullptr || count == 0 || makes_input())
    return PyObject_Vectorcall(original, args, static_cast<std::size_t>(count), names);
  PyObject* module = args[0];
  const bool outermost = module_depth == 0;
  if (outermost && !tell(listens.module_entered, module, at::GradMode::is_enabled() ? Py_True : Py_False))
    return nullptr;
  const bool is_excluded =
      !listens.excluded.empty() && Recorder::instance().is_recording() && listens.excluded.contains(module);
  ++module_depth;
  PyObject* result = is_excluded ? call_excluded(original, module, args, count, names)
                                 : PyObject_Vectorcall(original, args, static_cast<std::size_t>(count), names);
  --module_depth;
  if (outermost && result != nullptr && !tell(listener().module_left, module, result)) Py_CLEAR(result);
  return result;
}

PyCFunction as_function(PyCFunctionWithKeywords function) {
  return reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(function));
}

PyMethodDef backward_method{"backward", as_function(recorded_backward), METH_VARARGS | METH_KEYWORDS, nullptr};
PyMethodDef grad_method{"grad", as_function(recorded_grad), METH_VARARGS | METH_KEYWORDS, nullptr};
PyMethodDef closure_method{"closure", as_function(recorded_closure), METH_VARARGS | METH_KEYWORDS, nullptr};

PyObject* wrap_backward(PyObject*, PyObject* original) { return PyCFunction_New(&backward_method, original); }
PyObject* wrap_grad(PyObject*, PyObject* original) { return PyCFunction_New(&grad_method, original); }
PyObject* wrap_closure(PyObject*, PyObject* original) { return PyCFunction_New(&closure_method, original); }

/// Stands in for nn.Module.__call__.
PyObject* wrap_module_call(PyObject*, PyObject* original) { return make_stand_in(original, recorded_module_call); }

void replace(PyObject*& place, PyObject* value) {
  PyObject* before = place;
  place = value == Py_None ? nullptr : Py_NewRef(value);
  Py_XDECREF(before);
}

PyObject* listen(PyObject*, PyObject* args) {
  PyObject *ended = nullptr, *entered = nullptr, *left = nullptr, *excluded_runs = nullptr;
  if (PyArg_ParseTuple(args, "OOOO", &ended, &entered, &left, &excluded_runs) == 0) return nullptr;
  replace(listener().backward_ended, ended);
  replace(listener().module_entered, entered);
  replace(listener().module_left, left);
  replace(listener().excluded_runs, excluded_runs);
  if (left == Py_None) listener().excluded.clear();
  Py_RETURN_NONE;
}

PyObject* exclude(PyObject*, PyObject* module) {
  listener().excluded.insert(module);
  Py_RETURN_NONE;
}

PyObject* scout(PyObject*, PyObject* args) {
  PyObject* tell = nullptr;
  unsigned long long passed = 0;
  int trains = 0;
  if (PyArg_ParseTuple(args, "OK|p", &tell, &passed, &trains) == 0) return nullptr;
  if (tell == Py_None) {
    Scout::instance().stop();
  } else {
    Scout::instance().start(tell, passed, trains != 0);
  }
  Py_RETURN_NONE;
}

PyObject* in_backward(PyObject*, PyObject*) {
  // Hooks of a device's tensors run on a thread of the engine.
  const bool on_any_thread = backward_depth > 0 || torch::autograd::get_current_graph_task_id() != -1;
  return PyBool_FromLong(on_any_thread ? 1 : 0);
}

}  // namespace

PyMethodDef hook_functions[] = {
    {"wrap_backward", wrap_backward, METH_O, "A stand-in for torch.autograd.backward that notes losses and the phase."},
    {"wrap_grad", wrap_grad, METH_O, "A stand-in for torch.autograd.grad that notes the phase."},
    {"wrap_closure", wrap_closure, METH_O, "A stand-in for the closure of an optimizer's step: its ops are forward."},
    {"wrap_module_call", wrap_module_call, METH_O, "A stand-in for nn.Module.__call__ that tells of outermost calls."},
    {"wrap_start_thread", wrap_start_thread, METH_O,
     "A stand-in for _thread.start_new_thread: ops of the thread are looked at."},
    {"watch_for_training", watch_for_training, METH_O,
     "watch_for_training(tell): recording stands still; tells of the next op with gradients. None: nobody."},
    {"wrap_input", wrap_input, METH_O,
     "A stand-in for a method by which a DataLoader's iterator makes data: what it runs is input."},
    {"wrap_next", wrap_next, METH_O, "As wrap_input, for the one that gives a batch: its tensors are inputs."},
    {"enter_input", enter_input, METH_NOARGS, "What the thread runs from now on makes data, until leave_input()."},
    {"leave_input", leave_input, METH_NOARGS, "Ends that."},
    {"forget_input", forget_input, METH_NOARGS, "In a forked child: the thread makes no data of a recorded program."},
    {"makes_input", makes_input_now, METH_NOARGS, "Whether what the thread runs makes data."},
    {"wrap_leaving", wrap_leaving, METH_VARARGS,
     "wrap_leaving(way, original): a stand-in for a method or function by which values leave its first argument."},
    {"listen", listen, METH_VARARGS,
     "listen(backward_ended, module_entered, module_left, excluded_runs): whom the stand-ins tell; four times None: "
     "nobody."},
    {"exclude", exclude, METH_O,
     "exclude(module): recording pauses inside its calls. The caller keeps it alive until listen()."},
    {"scout", scout, METH_VARARGS,
     "scout(tell, passed, trains): looks at this thread's ops for what repeats; tell('boundary', 'broken' or "
     "'backward'). scout(None, 0): no longer."},
    {"in_backward", in_backward, METH_NOARGS, "Whether this thread is inside backward or grad."},
    {nullptr, nullptr, 0, nullptr},
};

}  // namespace crucible::recorder
