// The Python type crucible_torch._accelerate.Guards around Guards. Its methods are listed at the end.
#include <exception>
#include <new>

#include "frontends/accelerate/guards.hpp"

namespace crucible::accelerate {

namespace {

struct GuardsObject {
  PyObject_HEAD Guards guards;
};

Guards& guards_of(PyObject* self) { return reinterpret_cast<GuardsObject*>(self)->guards; }

/// Runs `body`, which returns whether no exception of Python's is set; C++ exceptions become RuntimeError.
template <class Body>
PyObject* none_after(Body body) {
  try {
    if (!body()) return nullptr;
  } catch (const std::exception& error) {
    PyErr_SetString(PyExc_RuntimeError, error.what());
    return nullptr;
  }
  Py_RETURN_NONE;
}

PyObject* watch_dict(PyObject* self, PyObject* args) {
  PyObject *dict = nullptr, *modes = nullptr;
  const char* path = nullptr;
  if (PyArg_ParseTuple(args, "OsO", &dict, &path, &modes) == 0) return nullptr;
  return none_after([&] { return guards_of(self).watch_dict(dict, path, modes); });
}

/// watch_x(object, path) of every kind that needs no more.
template <bool (Guards::*kMethod)(PyObject*, const char*)>
PyObject* watch(PyObject* self, PyObject* args) {
  PyObject* object = nullptr;
  const char* path = nullptr;
  if (PyArg_ParseTuple(args, "Os", &object, &path) == 0) return nullptr;
  return none_after([&] { return (guards_of(self).*kMethod)(object, path); });
}

/// watch_x(object, path, mode="value").
template <bool (Guards::*kMethod)(PyObject*, const char*, const Mode&)>
PyObject* watch_by_mode(PyObject* self, PyObject* args) {
  PyObject *object = nullptr, *name = nullptr;
  const char* path = nullptr;
  if (PyArg_ParseTuple(args, "Os|O", &object, &path, &name) == 0) return nullptr;
  return none_after([&] {
    Mode mode;
    return (name == nullptr || parse_mode(name, mode)) && (guards_of(self).*kMethod)(object, path, mode);
  });
}

PyObject* watch_class(PyObject* self, PyObject* args) {
  PyObject *type = nullptr, *names = nullptr;
  const char* path = nullptr;
  if (PyArg_ParseTuple(args, "OsO", &type, &path, &names) == 0) return nullptr;
  return none_after([&] { return guards_of(self).watch_class(type, path, names); });
}

PyObject* watch_state(PyObject* self, PyObject*) {
  return none_after([self] {
    guards_of(self).watch_state();
    return true;
  });
}

PyObject* check(PyObject* self, PyObject*) {
  try {
    const std::optional<std::string> found = guards_of(self).check();
    if (PyErr_Occurred() != nullptr) return nullptr;
    if (found) return PyUnicode_DecodeUTF8(found->data(), static_cast<Py_ssize_t>(found->size()), "replace");
  } catch (const std::exception& error) {
    PyErr_SetString(PyExc_RuntimeError, error.what());
    return nullptr;
  }
  Py_RETURN_NONE;
}

PyObject* counts(PyObject* self, PyObject*) { return guards_of(self).counts(); }

PyObject* create(PyTypeObject* type, PyObject*, PyObject*) {
  PyObject* self = type->tp_alloc(type, 0);
  if (self != nullptr) new (&guards_of(self)) Guards();
  return self;
}

void destroy(PyObject* self) {
  PyTypeObject* type = Py_TYPE(self);
  PyObject_GC_UnTrack(self);
  guards_of(self).~Guards();
  type->tp_free(self);
  Py_DECREF(type);
}

int traverse(PyObject* self, visitproc visit, void* arg) {
  Py_VISIT(Py_TYPE(self));
  return guards_of(self).traverse(visit, arg);
}

int clear(PyObject* self) {
  guards_of(self).clear();
  return 0;
}

PyMethodDef methods[] = {
    {"watch_dict", watch_dict, METH_VARARGS,
     "watch_dict(dict, path, {key: mode}): those keys, present or not. Modes: 'is', 'value', 'skip', 'number',\n"
     "'zeroness', or a tuple of modes for a tuple's elements. A path that ends in .__dict__ names attributes."},
    {"watch_keys", watch<&Guards::watch_keys>, METH_VARARGS,
     "watch_keys(dict, path): no key is added, removed or moved."},
    {"watch_list", watch_by_mode<&Guards::watch_list>, METH_VARARGS,
     "watch_list(list, path, mode='value'): its length and elements."},
    {"watch_set", watch<&Guards::watch_set>, METH_VARARGS, "watch_set(set, path): its elements."},
    {"watch_cell", watch_by_mode<&Guards::watch_cell>, METH_VARARGS,
     "watch_cell(cell, path, mode='value'): what a closure's cell holds."},
    {"watch_function", watch<&Guards::watch_function>, METH_VARARGS,
     "watch_function(function, path): its code and defaults."},
    {"watch_type", watch<&Guards::watch_type>, METH_VARARGS,
     "watch_type(object, path): its __class__, and that its __dict__ is the same dict."},
    {"watch_class", watch_class, METH_VARARGS,
     "watch_class(type, path, names): what each name means on its instances, base classes included."},
    {"watch_tensor", watch<&Guards::watch_tensor>, METH_VARARGS,
     "watch_tensor(tensor, path): memory, sizes, dtype, requires_grad, hooks; not its numbers."},
    {"watch_state", watch_state, METH_NOARGS,
     "watch_state(): torch's modes of this thread and its flags. Call it where check() will be called: not while an\n"
     "iteration is recorded."},
    {"check", check, METH_NOARGS, "check(): None when all is as it was; else the first difference in words."},
    {"counts", counts, METH_NOARGS, "counts(): how many things of each kind are watched."},
    {nullptr, nullptr, 0, nullptr},
};

PyType_Slot slots[] = {
    {Py_tp_new, reinterpret_cast<void*>(create)},
    {Py_tp_dealloc, reinterpret_cast<void*>(destroy)},
    {Py_tp_traverse, reinterpret_cast<void*>(traverse)},
    {Py_tp_clear, reinterpret_cast<void*>(clear)},
    {Py_tp_methods, methods},
    {Py_tp_doc, const_cast<char*>("What must be as it was for a recorded call to be answered without its Python.")},
    {0, nullptr},
};

PyType_Spec spec = {.name = "crucible_torch._accelerate.Guards",
                    .basicsize = sizeof(GuardsObject),
                    .itemsize = 0,
                    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC,
                    .slots = slots};

}  // namespace

bool add_guards(PyObject* module) {
  PyObject* type = PyType_FromSpec(&spec);
  if (type == nullptr) return false;
  const int status = PyModule_AddObjectRef(module, "Guards", type);
  Py_DECREF(type);
  return status == 0;
}

}  // namespace crucible::accelerate
