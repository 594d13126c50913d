// See stand_in.hpp. One type serves all stand-ins; what they do is a pointer in each.
#include "frontends/torch/stand_in.hpp"

#include <structmember.h>

#include <cstddef>

namespace crucible::recorder {

namespace {

struct StandIn {
  PyObject_HEAD vectorcallfunc call;
  PyObject* original;
  RunStandIn run;
};

PyObject* call_stand_in(PyObject* self, PyObject* const* args, std::size_t count, PyObject* names) {
  const auto* stand_in = reinterpret_cast<StandIn*>(self);
  return stand_in->run(stand_in->original, args, PyVectorcall_NARGS(count), names);
}

PyObject* bind_stand_in(PyObject* self, PyObject* object, PyObject*) {
  return object == nullptr || object == Py_None ? Py_NewRef(self) : PyMethod_New(self, object);
}

PyObject* attribute_of_stand_in(PyObject* self, PyObject* name) {
  PyObject* found = PyObject_GetAttr(reinterpret_cast<StandIn*>(self)->original, name);
  if (found != nullptr || PyErr_ExceptionMatches(PyExc_AttributeError) == 0) return found;
  PyErr_Clear();
  return PyObject_GenericGetAttr(self, name);
}

void free_stand_in(PyObject* self) {
  PyTypeObject* type = Py_TYPE(self);
  Py_DECREF(reinterpret_cast<StandIn*>(self)->original);
  type->tp_free(self);
  Py_DECREF(type);
}

}  // namespace

PyObject* make_stand_in(PyObject* original, RunStandIn run) {
  static PyMemberDef members[] = {{"__vectorcalloffset__", T_PYSSIZET, offsetof(StandIn, call), READONLY, nullptr},
                                  {nullptr, 0, 0, 0, nullptr}};
  static PyType_Slot slots[] = {{Py_tp_call, reinterpret_cast<void*>(PyVectorcall_Call)},
                                {Py_tp_descr_get, reinterpret_cast<void*>(bind_stand_in)},
                                {Py_tp_getattro, reinterpret_cast<void*>(attribute_of_stand_in)},
                                {Py_tp_dealloc, reinterpret_cast<void*>(free_stand_in)},
                                {Py_tp_members, members},
                                {0, nullptr}};
  static PyType_Spec spec{"crucible_torch._recorder.StandIn", sizeof(StandIn), 0,
                          Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_VECTORCALL | Py_TPFLAGS_METHOD_DESCRIPTOR, slots};
  static PyTypeObject* const type = reinterpret_cast<PyTypeObject*>(PyType_FromSpec(&spec));
  if (type == nullptr) return nullptr;
  auto* made = PyObject_New(StandIn, type);
  if (made == nullptr) return nullptr;
  made->call = call_stand_in;
  made->original = Py_NewRef(original);
  made->run = run;
  return reinterpret_cast<PyObject*>(made);
}

}  // namespace crucible::recorder
