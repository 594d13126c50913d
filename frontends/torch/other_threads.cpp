// Each thread that Python starts gets an observer of its own, so the threads that are recorded pay nothing for it.
#include "frontends/torch/other_threads.hpp"

#include <ATen/record_function.h>

#include <memory>
#include <string>

#include "core/trace/reservations.hpp"
#include "frontends/torch/data_input.hpp"
#include "frontends/torch/record_function.hpp"
#include "frontends/torch/recorder.hpp"

namespace crucible::recorder {

namespace {

thread_local int depth = 0;  // of observed ops: an op that calls others is one

struct Inside final : at::ObserverContext {
  Inside() { ++depth; }
  ~Inside() override { --depth; }
};

bool knows_any(StorageTable& storages, const c10::IValue& value) {
  if (value.isTensor()) {
    const at::Tensor& tensor = value.toTensor();
    return tensor.defined() && tensor.has_storage() &&
           storages.find(tensor.storage().unsafeGetStorageImpl()) != nullptr;
  }
  if (!value.isTensorList() && !value.isOptionalTensorList() && !value.isList()) return false;
  for (const c10::IValue& element : value.toListRef()) {
    if (knows_any(storages, element)) return true;
  }
  return false;
}

std::unique_ptr<at::ObserverContext> op_starts(const at::RecordFunction& function) {
  auto inside = std::make_unique<Inside>();
  Recorder& recorder = Recorder::instance();
  if (depth > 1 || !recorder.is_recording() || is_thread_on() || makes_input()) return inside;
  ThreadState& thread = recorder.thread();
  const CallSite call = thread.call_sites.find(recorder.call_sites(), false);
  const Locked locked(recorder.lock(), Recorder::me());
  if (!recorder.takes(thread.recording)) return inside;
  auto& storages = const_cast<StorageTable&>(recorder.state().storages);  // looking a storage up changes nothing
  for (const c10::IValue& input : function.inputs()) {
    if (!knows_any(storages, input)) continue;
    recorder.count_not_recorded(std::string(trace::kOtherThreads), call.site);
    break;
  }
  return inside;
}

void op_ends(const at::RecordFunction&, at::ObserverContext*) {}

/// What runs in a new thread: `self` is (function).
PyObject* run_watched(PyObject* function, PyObject* args, PyObject* keywords) {
  const at::CallbackHandle watching =
      at::addThreadLocalCallback(at::RecordFunctionCallback(&op_starts, &op_ends)
                                     .needsInputs(true)
                                     .scopes({at::RecordScope::FUNCTION, at::RecordScope::BACKWARD_FUNCTION}));
  PyObject* result = PyObject_Call(function, args, keywords);
  at::removeCallback(watching);
  return result;
}

PyCFunction as_function(PyCFunctionWithKeywords function) {
  return reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(function));
}

PyMethodDef watched_method{"run", as_function(run_watched), METH_VARARGS | METH_KEYWORDS, nullptr};

/// start_new_thread(function, args, kwargs={}).
PyObject* start_watched(PyObject* original, PyObject* args, PyObject* keywords) {
  if (PyTuple_GET_SIZE(args) == 0 || PyCallable_Check(PyTuple_GET_ITEM(args, 0)) == 0)
    return PyObject_Call(original, args, keywords);
  PyObject* watched = PyCFunction_New(&watched_method, PyTuple_GET_ITEM(args, 0));
  PyObject* replaced = watched == nullptr ? nullptr : PyTuple_New(PyTuple_GET_SIZE(args));
  if (replaced == nullptr) {
    Py_XDECREF(watched);
    return nullptr;
  }
  PyTuple_SET_ITEM(replaced, 0, watched);
  for (Py_ssize_t i = 1; i < PyTuple_GET_SIZE(args); ++i)
    PyTuple_SET_ITEM(replaced, i, Py_NewRef(PyTuple_GET_ITEM(args, i)));
  PyObject* result = PyObject_Call(original, replaced, keywords);
  Py_DECREF(replaced);
  return result;
}

PyMethodDef start_method{"start_new_thread", as_function(start_watched), METH_VARARGS | METH_KEYWORDS, nullptr};

}  // namespace

PyObject* wrap_start_thread(PyObject*, PyObject* original) { return PyCFunction_New(&start_method, original); }

}  // namespace crucible::recorder
