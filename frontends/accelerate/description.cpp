#include "frontends/accelerate/description.hpp"

#include <bit>
#include <string>
#include <vector>

#include "frontends/accelerate/python_objects.hpp"

namespace crucible::accelerate {
namespace {

using Kind = runtime::BoundForm::Kind;

const char* name_of(Kind kind) {
  switch (kind) {
    case Kind::kState:
      return "state";
    case Kind::kConstant:
      return "constant";
    case Kind::kInput:
      return "input";
    case Kind::kOutput:
      return "output";
  }
  return "";
}

PyObject* list_of(const std::vector<std::int64_t>& numbers) {
  PyObject* const list = PyList_New(static_cast<Py_ssize_t>(numbers.size()));
  for (std::size_t i = 0; list != nullptr && i < numbers.size(); ++i)
    PyList_SET_ITEM(list, static_cast<Py_ssize_t>(i), PyLong_FromLongLong(numbers[i]));
  return list;
}

/// (sizes, strides, name of the dtype).
PyObject* tensor_shape(const trace::Tensor& tensor) {
  return Py_BuildValue("(NNs)", list_of(tensor.sizes), list_of(tensor.strides),
                       std::string(name(tensor.dtype)).c_str());
}

/// An argument of a random op as Python has it; a tensor is its shape, what has no such form an Ellipsis.
PyObject* argument(const Compiled& compiled, const trace::Arg& arg) {
  using ArgKind = trace::Arg::Kind;
  switch (arg.kind) {
    case ArgKind::kNone:
      Py_RETURN_NONE;
    case ArgKind::kBool:
      return PyBool_FromLong(arg.integer != 0 ? 1 : 0);
    case ArgKind::kInt:
      return PyLong_FromLongLong(arg.integer);
    case ArgKind::kDouble:
      return PyFloat_FromDouble(arg.real);
    case ArgKind::kGenerator:
      if (arg.text.empty() || arg.text.starts_with("default")) Py_RETURN_NONE;
      break;
    case ArgKind::kTensor:
      return tensor_shape(compiled.tensors[arg.tensor]);
    case ArgKind::kDevice:
      if (arg.text == "cpu") Py_RETURN_NONE;
      break;
    case ArgKind::kDType:
      return Py_BuildValue("{s:s}", "dtype", std::string(name(static_cast<DType>(arg.integer))).c_str());
    case ArgKind::kLayout:
    case ArgKind::kMemoryFormat:
      Py_RETURN_NONE;
    case ArgKind::kList: {
      PyObject* const list = PyList_New(0);
      for (const trace::Arg& each : arg.list) {
        const Ref item(argument(compiled, each));
        if (list == nullptr || !item || PyList_Append(list, item.get()) != 0) return nullptr;
      }
      return list;
    }
    default:
      break;
  }
  return Py_NewRef(Py_Ellipsis);
}

}  // namespace

PyObject* describe(const Compiled& compiled) {
  const Ref places(PyList_New(0)), slots(PyList_New(0)), draws(PyList_New(0)), left_out(PyList_New(0));
  for (std::size_t k = 0; k < compiled.executable->places().size(); ++k) {
    const runtime::BoundForm::Place& place = compiled.executable->places()[k];
    if (!append(places.get(),
                Py_BuildValue("(ssKsii)", name_of(place.kind), place.name.c_str(),
                              static_cast<unsigned long long>(place.size_bytes), std::string(name(place.dtype)).c_str(),
                              place.is_written ? 1 : 0, place.is_draw ? 1 : 0)))
      return nullptr;
  }
  for (const graph::Slot& slot : compiled.slots) {
    Ref values(PyList_New(0));
    for (const graph::Number& number : slot.values) {
      PyObject* const value = slot.is_integer ? PyLong_FromLongLong(std::bit_cast<std::int64_t>(number.bits()))
                                              : PyFloat_FromDouble(std::bit_cast<double>(number.bits()));
      if (!append(values.get(), value)) return nullptr;
    }
    if (!append(slots.get(),
                Py_BuildValue("(sNN)", slot.name.c_str(), PyBool_FromLong(slot.is_integer ? 1 : 0), values.release())))
      return nullptr;
  }
  for (const DrawOp& draw : compiled.draws) {
    Ref arguments(PyList_New(0));
    for (const trace::Arg& arg : draw.op.args) {
      if (!append(arguments.get(), argument(compiled, arg))) return nullptr;
    }
    const long place = draw.place ? static_cast<long>(*draw.place) : -1;
    if (!append(draws.get(), Py_BuildValue("(sNIlN)", draw.name.c_str(), arguments.release(), draw.output, place,
                                           tensor_shape(draw.drawn))))
      return nullptr;
  }
  for (const std::string& text : compiled.left_out) {
    if (!append(left_out.get(), PyUnicode_FromString(text.c_str()))) return nullptr;
  }
  const backend::CompileCounts counts = compiled.executable->compile_counts();
  return Py_BuildValue(
      "{s:O,s:O,s:O,s:O,s:K,s:n,s:n,s:n,s:K,s:K,s:K,s:O}", "places", places.get(), "slots", slots.get(), "draws",
      draws.get(), "left_out", left_out.get(), "arena_bytes",
      static_cast<unsigned long long>(compiled.executable->arena_bytes()), "steps",
      static_cast<Py_ssize_t>(compiled.executable->steps()), "compiled", static_cast<Py_ssize_t>(counts.compiled),
      "from_store", static_cast<Py_ssize_t>(counts.from_cache), "read_ns",
      static_cast<unsigned long long>(compiled.read_ns), "lower_ns", static_cast<unsigned long long>(compiled.lower_ns),
      "compile_ns", static_cast<unsigned long long>(compiled.compile_ns), "checks_indices",
      compiled.bounds ? Py_True : Py_False);
}

}  // namespace crucible::accelerate
