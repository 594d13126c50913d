// The extension module crucible_torch._recorder: what Python's hooks call. Plain CPython functions, because a call
// through the framework's own operators costs microseconds. The policy (when to start, what is an iteration, what goes
// into the file's metadata) is Python's: package/crucible_torch/session.py.
#include <Python.h>

#include <ATen/Functions.h>
#include <torch/csrc/autograd/python_variable.h>

#include <exception>
#include <string>

#include "core/trace/trace_file.hpp"
#include "frontends/torch/kernels.hpp"
#include "frontends/torch/recorder.hpp"
#include "frontends/torch/trace_builder.hpp"

namespace crucible::recorder {

namespace {

/// Runs `body`, which returns a new reference; an exception becomes Python's RuntimeError.
template <class Body>
PyObject* guarded(Body body) {
  try {
    return body();
  } catch (const std::exception& error) {
    PyErr_SetString(PyExc_RuntimeError, error.what());
    return nullptr;
  }
}

PyObject* none() { Py_RETURN_NONE; }

PyObject* install(PyObject*, PyObject* args) {
  const char* name = nullptr;
  if (PyArg_ParseTuple(args, "s", &name) == 0) return nullptr;
  return guarded([name] {
    const std::string path = name;
    const Path chosen = path == "boxed"             ? Path::kBoxed
                        : path == "per_op"          ? Path::kPerOp
                        : path == "record_function" ? Path::kRecordFunction
                                                    : Path::kTyped;
    return PyUnicode_FromString(install_kernels(chosen).c_str());
  });
}

PyObject* uninstall(PyObject*, PyObject*) {
  return guarded([] {
    uninstall_kernels();
    return none();
  });
}

/// Runs one operator with the key on and tells whether the recorder saw it.
PyObject* self_test(PyObject*, PyObject*) {
  return guarded([] {
    Recorder& recorder = Recorder::instance();
    const at::Tensor one = at::ones({1});
    recorder.start();
    try {
      (void)at::neg(one);
    } catch (const std::exception&) {  // a kernel of somebody else's on our key: the op is not seen
    }
    recorder.stop();
    const bool seen = recorder.state().next_sequence > 0 && recorder.state().externals.size() == 1;
    recorder.clear();
    return PyBool_FromLong(seen ? 1 : 0);
  });
}

PyObject* start(PyObject*, PyObject* args) {
  PyObject *module_call = nullptr, *folders = nullptr, *name_modules = nullptr;
  int way = 1;
  if (PyArg_ParseTuple(args, "OO!Oi", &module_call, &PyList_Type, &folders, &name_modules, &way) == 0) return nullptr;
  std::vector<std::string> framework_folders;
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(folders); ++i) {
    const char* folder = PyUnicode_AsUTF8(PyList_GET_ITEM(folders, i));
    if (folder == nullptr) return nullptr;
    framework_folders.emplace_back(folder);
  }
  return guarded([&] {
    Recorder& recorder = Recorder::instance();
    recorder.call_sites().start(module_call, std::move(framework_folders), name_modules,
                                way == 0 ? CallSites::Way::kPublicApi : way == 1 ? CallSites::Way::kInPlace : CallSites::Way::kNot);
    recorder.start();
    return none();
  });
}

PyObject* end_iteration(PyObject*, PyObject*) {
  return guarded([] {
    const bool kept = Recorder::instance().end_iteration();
    if (kept) cover_late_operators();
    return PyBool_FromLong(kept ? 1 : 0);
  });
}

PyObject* stop(PyObject*, PyObject*) {
  return guarded([] {
    Recorder::instance().stop();
    Recorder::instance().call_sites().stop();
    return none();
  });
}

PyObject* clear(PyObject*, PyObject*) {
  return guarded([] {
    Recorder::instance().clear();
    return none();
  });
}

PyObject* set_phase(PyObject*, PyObject* const* args, Py_ssize_t count) {
  const long phase = count == 1 ? PyLong_AsLong(args[0]) : -1;
  if (phase < 0 || phase > 2) {
    if (PyErr_Occurred() == nullptr) PyErr_SetString(PyExc_ValueError, "a phase is 0 (forward), 1 (backward) or 2 (optimizer)");
    return nullptr;
  }
  Recorder::instance().set_phase(static_cast<trace::Phase>(phase));
  Py_RETURN_NONE;
}

PyObject* name_tensor(PyObject*, PyObject* args) {
  PyObject* tensor = nullptr;
  const char* name = nullptr;
  int role = 0, final = 0;
  if (PyArg_ParseTuple(args, "Osip", &tensor, &name, &role, &final) == 0) return nullptr;
  return guarded([&] {
    if (THPVariable_Check(tensor) && role >= 0 && role <= static_cast<int>(trace::Role::kInput)) {
      Recorder::instance().name_tensor(THPVariable_Unpack(tensor), name, static_cast<trace::Role>(role), final != 0);
    }
    return none();
  });
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

/// Stands in for torch.autograd.backward; a C function leaves no line in the program's tracebacks.
PyObject* recorded_backward(PyObject* original, PyObject* args, PyObject* keywords) {
  Recorder& recorder = Recorder::instance();
  const trace::Phase before = recorder.phase();
  PyObject* result = guarded([&] {
    PyObject* tensors = PyTuple_GET_SIZE(args) > 0 ? PyTuple_GET_ITEM(args, 0) : nullptr;
    if (tensors == nullptr && keywords != nullptr) tensors = PyDict_GetItemString(keywords, "tensors");
    add_losses(tensors);
    recorder.set_phase(trace::Phase::kBackward);
    return PyObject_Call(original, args, keywords);
  });
  recorder.set_phase(before);
  return result;
}

/// The same for torch.autograd.grad, whose outputs are no losses.
PyObject* recorded_grad(PyObject* original, PyObject* args, PyObject* keywords) {
  Recorder& recorder = Recorder::instance();
  const trace::Phase before = recorder.phase();
  recorder.set_phase(trace::Phase::kBackward);
  PyObject* result = PyObject_Call(original, args, keywords);
  recorder.set_phase(before);
  return result;
}

PyCFunction with_keywords(PyCFunctionWithKeywords function) {
  return reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(function));
}

PyMethodDef backward_method{"backward", with_keywords(recorded_backward), METH_VARARGS | METH_KEYWORDS, nullptr};
PyMethodDef grad_method{"grad", with_keywords(recorded_grad), METH_VARARGS | METH_KEYWORDS, nullptr};

PyObject* wrap_backward(PyObject*, PyObject* original) { return PyCFunction_New(&backward_method, original); }
PyObject* wrap_grad(PyObject*, PyObject* original) { return PyCFunction_New(&grad_method, original); }

/// {"iterations", "ops", "ops_per_iteration", "overhead_ns_per_op", "not_recorded"} of a written trace.
PyObject* summary_of(const trace::Trace& trace) {
  PyObject* counts = PyList_New(0);
  for (const trace::Iteration& iteration : trace.iterations) {
    PyObject* count = PyLong_FromUnsignedLong(iteration.op_count);
    PyList_Append(counts, count);
    Py_XDECREF(count);
  }
  PyObject* not_recorded = PyList_New(0);
  for (const trace::NotRecorded& item : trace.not_recorded) {
    PyObject* entry = Py_BuildValue("{s:s,s:K,s:s}", "what", item.what.c_str(), "count", static_cast<unsigned long long>(item.count),
                                    "site", trace.site_text(item.site).c_str());
    if (entry != nullptr) PyList_Append(not_recorded, entry);
    Py_XDECREF(entry);
  }
  return Py_BuildValue("{s:n,s:n,s:N,s:K,s:N}", "iterations", static_cast<Py_ssize_t>(trace.iterations.size()), "ops",
                       static_cast<Py_ssize_t>(trace.ops.size()), "ops_per_iteration", counts, "overhead_ns_per_op",
                       static_cast<unsigned long long>(trace.metadata.overhead_ns_per_op), "not_recorded", not_recorded);
}

PyObject* write(PyObject*, PyObject* args) {
  const char *path = nullptr, *framework = nullptr, *frontend = nullptr, *command = nullptr, *created = nullptr, *reason = nullptr;
  unsigned int warmup = 0;
  if (PyArg_ParseTuple(args, "ssssssI", &path, &framework, &frontend, &command, &created, &reason, &warmup) == 0) return nullptr;
  return guarded([&]() -> PyObject* {
    trace::Metadata metadata;
    metadata.framework = framework;
    metadata.frontend = frontend;
    metadata.command = command;
    metadata.created = created;
    metadata.incomplete_reason = reason;
    metadata.warmup_iterations = warmup;
    const Result<trace::Trace> trace = build_trace(Recorder::instance(), std::move(metadata));
    const Result<void> written = trace ? trace::write_file(*trace, path) : Result<void>(trace.error());
    if (!written) {
      PyErr_SetString(PyExc_RuntimeError, written.error().message.c_str());
      return nullptr;
    }
    return summary_of(*trace);
  });
}

PyObject* snapshot_ops(PyObject*, PyObject* on) {
  const int wanted = PyObject_IsTrue(on);
  if (wanted < 0) return nullptr;
  Recorder::instance().hash_ops(wanted != 0);
  Py_RETURN_NONE;
}

PyObject* measures(PyObject*, PyObject*) {
  return guarded([] {
    const Recorder& recorder = Recorder::instance();
    std::size_t log_bytes = 0;
    for (const auto& thread : recorder.state().threads) log_bytes += thread->log.size_bytes();
    return Py_BuildValue("{s:K,s:K,s:K,s:K,s:n,s:i}", "ops", static_cast<unsigned long long>(recorder.state().next_sequence),
                         "overhead_ns_per_op", static_cast<unsigned long long>(recorder.overhead_ns_per_op()), "copy_ns",
                         static_cast<unsigned long long>(recorder.state().snapshots.copy_ns()), "boundary_ns",
                         static_cast<unsigned long long>(recorder.state().boundary_ns), "log_bytes",
                         static_cast<Py_ssize_t>(log_bytes), "complete_iterations",
                         recorder.state().iteration_starts.empty() ? 0 : static_cast<int>(recorder.state().complete_iterations()));
  });
}

PyMethodDef functions[] = {
    {"install", install, METH_VARARGS, "install('typed' | 'boxed' | 'per_op' | 'record_function'): registers the kernels; returns what was installed."},
    {"uninstall", uninstall, METH_NOARGS, "Takes the kernels back."},
    {"self_test", self_test, METH_NOARGS, "Whether an op with the key on is seen; the kernels must be installed."},
    {"start", start, METH_VARARGS, "start(Module.__call__, framework folders, name_modules, how call sites are read: 0 public API, 1 in place, 2 not at all):\n"
     "the first iteration begins."},
    {"end_iteration", end_iteration, METH_NOARGS, "The next iteration begins. False: recording was switched off meanwhile."},
    {"stop", stop, METH_NOARGS, "Switches recording off."},
    {"clear", clear, METH_NOARGS, "Forgets what was recorded."},
    {"set_phase", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(set_phase)), METH_FASTCALL,
     "set_phase(0 forward | 1 backward | 2 optimizer)"},
    {"name_tensor", name_tensor, METH_VARARGS, "name_tensor(tensor, name, role, final): what its storage is to the program."},
    {"wrap_backward", wrap_backward, METH_O, "A stand-in for torch.autograd.backward that notes losses and the phase."},
    {"wrap_grad", wrap_grad, METH_O, "A stand-in for torch.autograd.grad that notes the phase."},
    {"write", write, METH_VARARGS, "write(path, framework, frontend, command, created, incomplete_reason, warmup): the file."},
    {"snapshot_ops", snapshot_ops, METH_O, "snapshot_ops(bool): whether a hash of each op's results is kept from now on."},
    {"measures", measures, METH_NOARGS, "Counts and times so far."},
    {nullptr, nullptr, 0, nullptr},
};

PyModuleDef module_definition{PyModuleDef_HEAD_INIT, "crucible_torch._recorder",
                              "Records what a PyTorch program executes; see docs/recording.md.", -1, functions,
                              nullptr, nullptr, nullptr, nullptr};

}  // namespace

}  // namespace crucible::recorder

PyMODINIT_FUNC PyInit__recorder() {
  PyObject* module = PyModule_Create(&crucible::recorder::module_definition);
  if (module != nullptr) PyModule_AddStringConstant(module, "built_for_torch", CRUCIBLE_TORCH_VERSION);
  return module;
}
