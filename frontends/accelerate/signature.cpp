#include "frontends/accelerate/signature.hpp"

#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>
#include <c10/core/InferenceMode.h>
#include <torch/csrc/Device.h>
#include <torch/csrc/Dtype.h>
#include <torch/csrc/autograd/python_variable.h>

#include <bit>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "frontends/accelerate/python_objects.hpp"

namespace crucible::accelerate {
namespace {

void pack(std::string& key, const void* data, std::size_t size) { key.append(static_cast<const char*>(data), size); }
void pack(std::string& key, std::int64_t number) { pack(key, &number, sizeof number); }

/// A tensor as far as a compiled call depends on it beside its elements. "" or why it cannot be an argument of one.
std::string pack_tensor(std::string& key, const at::Tensor& tensor, PyObject* object) {
  if (!THPVariable_CheckExact(object) && tensor.requires_grad())
    return "is a parameter; let the function reach it by itself";
  if (!THPVariable_CheckExact(object)) return "is of a subclass of torch.Tensor";
  if (tensor.layout() != at::kStrided || tensor.is_nested() || tensor.is_quantized())
    return "is no plain strided tensor";
  if (!tensor.device().is_cpu()) return "is on " + tensor.device().str() + ", and calls are compiled for the processor";
  if (tensor.is_complex()) return "is complex";
  if (tensor.requires_grad()) return "requires a gradient";
  if (tensor.is_conj() || tensor.is_neg()) return "is a conjugate or negative view";
  pack(key, static_cast<std::int64_t>(tensor.scalar_type()));
  pack(key, tensor.dim());
  for (std::int64_t i = 0; i < tensor.dim(); ++i) pack(key, tensor.size(i)), pack(key, tensor.stride(i));
  pack(key, tensor.is_inference() ? 1 : 0);
  return "";
}

/// Whether an object's identity says which it is, and what a function reads of it can be watched: modules, optimizers,
/// functions, configurations. Values of Python's own types, arrays and iterators are new in each call, or change by
/// being read.
bool is_told_by_identity(PyObject* object) {
  PyTypeObject* const type = Py_TYPE(object);
  if (PyIter_Check(object) || PyObject_CheckBuffer(object) || PyComplex_Check(object) || PyLong_Check(object) ||
      PyFloat_Check(object) || PyUnicode_Check(object) || PySlice_Check(object) || PyAnySet_Check(object))
    return false;
  return (type->tp_flags & Py_TPFLAGS_HEAPTYPE) != 0 || type->tp_dictoffset != 0 || PyType_Check(object) ||
         PyFunction_Check(object) || PyCFunction_Check(object) || THPDtype_Check(object);
}

/// signature(leaves, free): what calls of one variant have in common, as bytes; (number, reason) for a leaf that none
/// can have. `free`: a dict with the places of numbers that are left out but for their types; None: all are. Objects
/// are told by their address: whoever keeps the bytes keeps the objects alive.
PyObject* signature(PyObject*, PyObject* args) {
  PyObject *leaves = nullptr, *free = nullptr;
  if (PyArg_ParseTuple(args, "O!O", &PyTuple_Type, &leaves, &free) == 0) return nullptr;
  if (free != Py_None && !PyDict_Check(free)) {
    PyErr_SetString(PyExc_TypeError, "signature(tuple of leaves, dict or None)");
    return nullptr;
  }
  return guarded([&]() -> PyObject* {
    std::string key;
    std::vector<std::pair<const void*, Py_ssize_t>> memories;
    const auto is_free = [&](Py_ssize_t place) {
      if (free == Py_None) return true;
      if (PyDict_GET_SIZE(free) == 0) return false;
      const Ref key(PyLong_FromSsize_t(place));
      return key && PyDict_Contains(free, key.get()) == 1;
    };
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(leaves); ++i) {
      PyObject* const leaf = PyTuple_GET_ITEM(leaves, i);
      if (THPVariable_Check(leaf)) {
        const at::Tensor& tensor = THPVariable_Unpack(leaf);
        key += 't';
        const std::string reason = pack_tensor(key, tensor, leaf);
        if (!reason.empty()) return Py_BuildValue("(ns)", i, reason.c_str());
        const void* const memory = tensor.has_storage() ? tensor.storage().data() : nullptr;
        for (const auto& [other, index] : memories) {
          if (memory == nullptr || other != memory) continue;
          if (PyTuple_GET_ITEM(leaves, index) != leaf)
            return Py_BuildValue("(ns)", i, "shares memory with another argument");
          pack(key, index + 1);
        }
        memories.emplace_back(memory, i);
      } else if (leaf == Py_None) {
        key += 'n';
      } else if (PyBool_Check(leaf)) {
        key += leaf == Py_True ? "b1" : "b0";
      } else if (PyLong_CheckExact(leaf)) {
        int overflow = 0;
        const long long number = PyLong_AsLongLongAndOverflow(leaf, &overflow);
        if (overflow != 0) return Py_BuildValue("(ns)", i, "is a whole number beyond 64 bits");
        const bool is_left_out = is_free(i);
        key += is_left_out ? 'I' : 'i';
        if (!is_left_out) pack(key, number);
      } else if (PyFloat_CheckExact(leaf)) {
        const bool is_left_out = is_free(i);
        key += is_left_out ? 'F' : 'f';
        if (!is_left_out) pack(key, std::bit_cast<std::int64_t>(PyFloat_AS_DOUBLE(leaf)));
      } else if (PyUnicode_CheckExact(leaf)) {
        Py_ssize_t size = 0;
        const char* const text = PyUnicode_AsUTF8AndSize(leaf, &size);
        if (text == nullptr) return nullptr;
        key += 's';
        pack(key, size);
        pack(key, text, static_cast<std::size_t>(size));
      } else if (THPDevice_Check(leaf)) {
        const at::Device device = reinterpret_cast<const THPDevice*>(leaf)->device;
        key += 'd';
        pack(key, static_cast<std::int64_t>(device.type()));
        pack(key, device.index());
      } else if (PyMethod_Check(leaf)) {  // made anew each time that it is read from its object
        key += 'M';
        pack(key, static_cast<std::int64_t>(reinterpret_cast<std::intptr_t>(PyMethod_GET_FUNCTION(leaf))));
        pack(key, static_cast<std::int64_t>(reinterpret_cast<std::intptr_t>(PyMethod_GET_SELF(leaf))));
      } else if (is_told_by_identity(leaf)) {
        key += 'o';
        pack(key, static_cast<std::int64_t>(reinterpret_cast<std::intptr_t>(leaf)));
      } else {
        const std::string reason =
            std::string("is a ") + Py_TYPE(leaf)->tp_name + ", which cannot be compared between calls";
        return Py_BuildValue("(ns)", i, reason.c_str());
      }
    }
    key += at::GradMode::is_enabled() ? 'G' : 'g';
    key += c10::InferenceMode::is_enabled() ? 'I' : 'm';
    return PyBytes_FromStringAndSize(key.data(), static_cast<Py_ssize_t>(key.size()));
  });
}

PyMethodDef functions[] = {
    {"signature", signature, METH_VARARGS,
     "signature(tuple of leaves, dict with places of numbers that are left out, or None for all): what calls of one\n"
     "variant have in common, as bytes; or (number, reason) for a leaf that no compiled call can have. Objects are "
     "told\n"
     "by their address: who keeps the bytes keeps them alive."},
    {nullptr, nullptr, 0, nullptr},
};

}  // namespace

bool add_signature(PyObject* module) { return PyModule_AddFunctions(module, functions) == 0; }

}  // namespace crucible::accelerate
