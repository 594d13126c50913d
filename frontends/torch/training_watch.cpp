// See training_watch.hpp.
#include "frontends/torch/training_watch.hpp"

#include <ATen/core/grad_mode.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include <atomic>
#include <thread>

#include "frontends/torch/record_function.hpp"
#include "frontends/torch/recorder.hpp"

namespace crucible::recorder {

namespace {

std::atomic<bool> watching{false};
std::atomic<std::thread::id> watched{};
PyObject* listener = nullptr;  // guarded by the GIL

}  // namespace

bool watches_for_training() { return watching.load(std::memory_order_relaxed); }

PyObject* watch_for_training(PyObject*, PyObject* tell) {
  PyObject* const before = listener;
  const bool wanted = tell != Py_None && unseen_by_observers() == nullptr;
  listener = wanted ? Py_NewRef(tell) : nullptr;
  Py_XDECREF(before);
  watched = std::this_thread::get_id();
  watching = wanted;
  if (wanted) switch_thread(true);  // recording stands still: the kernels let everything pass
  Py_RETURN_NONE;
}

bool training_goes_on(const c10::OperatorHandle& op) {
  if (watched.load() != std::this_thread::get_id() || !at::GradMode::is_enabled()) return false;
  // The loss that is printed belongs to what was evaluated.
  if (Recorder::instance().operators().find_or_add(op).only_reads) return false;
  watching = false;
  const PyGILState_STATE gil = PyGILState_Ensure();
  PyObject *type = nullptr, *value = nullptr, *trace = nullptr;
  PyErr_Fetch(&type, &value, &trace);
  {
    const c10::impl::ExcludeDispatchKeyGuard unrecorded(c10::DispatchKey::Fake);
    PyObject* tell = Py_XNewRef(listener);
    PyObject* done = tell == nullptr ? nullptr : PyObject_CallNoArgs(tell);
    if (done == nullptr && tell != nullptr) PyErr_WriteUnraisable(tell);
    Py_XDECREF(done);
    Py_XDECREF(tell);
  }
  PyErr_Restore(type, value, trace);
  PyGILState_Release(gil);
  const bool is_on = Recorder::instance().is_recording();
  if (!is_on) switch_thread(false);  // nobody goes on: as in any pause
  return is_on;
}

}  // namespace crucible::recorder
