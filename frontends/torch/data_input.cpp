// The thread's ops are shut out from the recorder's kernels, so a recorded op pays nothing for this. While iterations
// are recorded an observer of the framework, on this thread alone, looks at the arguments of the ops instead.
#include "frontends/torch/data_input.hpp"

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/record_function.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <torch/csrc/autograd/python_variable.h>

#include <memory>
#include <string>

#include "core/trace/reservations.hpp"
#include "frontends/torch/recorder.hpp"
#include "frontends/torch/stand_in.hpp"

namespace crucible::recorder {

namespace {

thread_local int input_depth = 0;        // of iterators: one may take its data from another
thread_local bool was_shut_out = false;  // the recorder's key, before
thread_local at::CallbackHandle watching = at::INVALID_CALLBACK_HANDLE;
thread_local int op_depth = 0;  // of observed ops: an op that calls others is one

struct Inside final : at::ObserverContext {
  Inside() { ++op_depth; }
  ~Inside() override { --op_depth; }
};

/// Calls `visit` for each tensor of an argument; true when one call was.
template <class Visit>
bool any_tensor(const c10::IValue& value, Visit visit) {
  if (value.isTensor()) return value.toTensor().defined() && value.toTensor().has_storage() && visit(value.toTensor());
  if (!value.isTensorList() && !value.isOptionalTensorList() && !value.isList()) return false;
  bool found = false;
  for (const c10::IValue& element : value.toListRef()) found = any_tensor(element, visit) || found;
  return found;
}

std::unique_ptr<at::ObserverContext> op_starts(const at::RecordFunction& function) {
  auto inside = std::make_unique<Inside>();
  Recorder& recorder = Recorder::instance();
  if (op_depth > 1 || !recorder.is_recording()) return inside;
  const auto name = function.operator_name();
  const auto handle = name.has_value() ? c10::Dispatcher::singleton().findSchema(*name) : std::nullopt;
  if (!handle.has_value()) return inside;
  const Operator& op = recorder.operators().find_or_add(*handle);
  ThreadState& thread = recorder.thread();
  const CallSite call = thread.call_sites.find(recorder.call_sites(), false);
  const Locked locked(recorder.lock(), Recorder::me());
  if (!recorder.takes(thread.recording)) return inside;
  bool reads = false;
  const auto inputs = function.inputs();
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const Usage usage = op.usage(i);
    reads = any_tensor(inputs[i],
                       [&](const at::Tensor& tensor) {
                         return recorder.use_for_input(tensor.storage().unsafeGetStorageImpl(), usage);
                       }) ||
            reads;
  }
  if (reads) recorder.count_not_recorded(std::string(trace::kReadForInput), call.site);
  return inside;
}

void op_ends(const at::RecordFunction&, at::ObserverContext*) {}

void enter() {
  if (input_depth++ > 0) return;
  was_shut_out = c10::impl::tls_is_dispatch_key_excluded(c10::DispatchKey::Fake);
  c10::impl::tls_set_dispatch_key_excluded(c10::DispatchKey::Fake, true);
  if (!Recorder::instance().is_recording()) return;
  watching = at::addThreadLocalCallback(at::RecordFunctionCallback(&op_starts, &op_ends)
                                            .needsInputs(true)
                                            .scopes({at::RecordScope::FUNCTION, at::RecordScope::BACKWARD_FUNCTION}));
}

void leave() {
  if (input_depth == 0 || --input_depth > 0) return;  // 0: forgotten meanwhile, in a forked child
  if (watching != at::INVALID_CALLBACK_HANDLE) at::removeCallback(watching);
  watching = at::INVALID_CALLBACK_HANDLE;
  c10::impl::tls_set_dispatch_key_excluded(c10::DispatchKey::Fake, was_shut_out);
}

/// What a batch consists of: tensors in tuples, lists and dictionaries, and in what objects of Python hold, which is
/// looked up without running anything of the program's.
class GivenBatch {
 public:
  explicit GivenBatch(Recorder& recorder) : recorder_(recorder) {}

  void note(PyObject* value, int depth) {
    if (value == nullptr || depth > kDeepest || left_-- <= 0) return;
    if (THPVariable_Check(value)) return recorder_.note_input(THPVariable_Unpack(value));
    Py_INCREF(value);
    if (PyTuple_Check(value)) {
      for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(value); ++i) note(PyTuple_GET_ITEM(value, i), depth + 1);
    } else if (PyList_Check(value)) {
      for (Py_ssize_t i = 0; i < PyList_GET_SIZE(value); ++i) note(PyList_GET_ITEM(value, i), depth + 1);
    } else if (PyDict_Check(value)) {
      note_values(value, depth);
    } else if (Py_TYPE(value)->tp_dictoffset != 0 && !PyType_Check(value) && !PyModule_Check(value)) {
      PyObject* own = PyObject_GenericGetDict(value, nullptr);
      if (own == nullptr) PyErr_Clear();
      if (own != nullptr) note_values(own, depth);
      Py_XDECREF(own);
    }
    Py_DECREF(value);
  }

 private:
  static constexpr int kDeepest = 6;
  static constexpr int kMost = 4096;  // values of any kind that are looked at

  void note_values(PyObject* dictionary, int depth) {
    PyObject* value = nullptr;
    for (Py_ssize_t at = 0; PyDict_Next(dictionary, &at, nullptr, &value) != 0;) note(value, depth + 1);
  }

  Recorder& recorder_;
  int left_ = kMost;
};

PyObject* run_input(PyObject* original, PyObject* const* args, Py_ssize_t count, PyObject* names) {
  enter();
  PyObject* result = PyObject_Vectorcall(original, args, static_cast<std::size_t>(count), names);
  leave();
  return result;
}

/// What it returns is given to the program.
PyObject* run_next(PyObject* original, PyObject* const* args, Py_ssize_t count, PyObject* names) {
  PyObject* result = run_input(original, args, count, names);
  if (input_depth == 0) GivenBatch(Recorder::instance()).note(result, 0);
  return result;
}

}  // namespace

bool makes_input() { return input_depth > 0; }

void note_read_for_input(PyObject* object) {
  Recorder& recorder = Recorder::instance();
  if (watching == at::INVALID_CALLBACK_HANDLE || !recorder.is_recording() || !THPVariable_Check(object)) return;
  const at::Tensor& tensor = THPVariable_Unpack(object);
  if (!tensor.defined() || !tensor.has_storage()) return;
  ThreadState& thread = recorder.thread();
  const CallSite call = thread.call_sites.find(recorder.call_sites(), false);
  const Locked locked(recorder.lock(), Recorder::me());
  if (recorder.takes(thread.recording) &&
      recorder.use_for_input(tensor.storage().unsafeGetStorageImpl(), Usage::kRead)) {
    recorder.count_not_recorded(std::string(trace::kReadForInput), call.site);
  }
}

PyObject* wrap_input(PyObject*, PyObject* original) { return make_stand_in(original, run_input); }

PyObject* wrap_next(PyObject*, PyObject* original) { return make_stand_in(original, run_next); }

PyObject* enter_input(PyObject*, PyObject*) {
  enter();
  Py_RETURN_NONE;
}

PyObject* leave_input(PyObject*, PyObject*) {
  leave();
  Py_RETURN_NONE;
}

PyObject* forget_input(PyObject*, PyObject*) {
  if (input_depth > 1) input_depth = 1;
  leave();
  Py_RETURN_NONE;
}

PyObject* makes_input_now(PyObject*, PyObject*) { return PyBool_FromLong(makes_input() ? 1 : 0); }

}  // namespace crucible::recorder
