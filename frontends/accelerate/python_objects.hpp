// What all files here need of CPython's objects. Threads: who holds the GIL.
#pragma once

#include <Python.h>

#include <exception>
#include <utility>

#include "core/base/result.hpp"

namespace crucible::accelerate {

/// A new reference that is given back.
class Ref {
 public:
  explicit Ref(PyObject* object = nullptr) : object_(object) {}
  Ref(Ref&& other) noexcept : object_(std::exchange(other.object_, nullptr)) {}
  Ref& operator=(Ref&& other) noexcept {
    std::swap(object_, other.object_);
    return *this;
  }
  Ref(const Ref&) = delete;
  Ref& operator=(const Ref&) = delete;
  ~Ref() { Py_XDECREF(object_); }
  PyObject* get() const { return object_; }
  PyObject* release() { return std::exchange(object_, nullptr); }
  explicit operator bool() const { return object_ != nullptr; }

 private:
  PyObject* object_;
};

/// Others may run Python while it lives.
struct ReleaseGil {
  PyThreadState* const state = PyEval_SaveThread();
  ReleaseGil() = default;
  ReleaseGil(const ReleaseGil&) = delete;
  ReleaseGil& operator=(const ReleaseGil&) = delete;
  ~ReleaseGil() { PyEval_RestoreThread(state); }
};

inline PyObject* raise(const Error& error) {
  PyErr_SetString(PyExc_RuntimeError, error.message.c_str());
  return nullptr;
}

template <class Body>
PyObject* guarded(Body body) {
  try {
    return body();
  } catch (const std::exception& error) {
    if (PyErr_Occurred() == nullptr) PyErr_SetString(PyExc_RuntimeError, error.what());
    return nullptr;
  }
}

inline PyObject* none() { Py_RETURN_NONE; }

/// False with an error set: also where there is no item.
inline bool append(PyObject* list, PyObject* item) {
  const Ref owned(item);
  return item != nullptr && PyList_Append(list, item) == 0;
}

}  // namespace crucible::accelerate
