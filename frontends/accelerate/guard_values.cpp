// Comparing plain Python values, and saying in words what differs. Runs no Python of the user's.
#include <cmath>
#include <cstring>

#include "frontends/accelerate/guards.hpp"

namespace crucible::accelerate {

namespace {

bool is_number(PyObject* object) { return PyLong_CheckExact(object) || PyFloat_CheckExact(object); }

bool is_zero(PyObject* number) {
  if (PyFloat_CheckExact(number)) return PyFloat_AS_DOUBLE(number) == 0.0;
  return PyObject_IsTrue(number) == 0;
}

bool same_bits(double then, double now) { return std::memcmp(&then, &now, sizeof then) == 0; }

bool equal(PyObject* then, PyObject* now) {
  const int answer = PyObject_RichCompareBool(then, now, Py_EQ);
  if (answer < 0) PyErr_Clear();
  return answer == 1;
}

/// Whether a type's values are compared by the framework's or Python's own C code, without side effects.
bool is_plain(PyTypeObject* type) {
  if (type == &PyLong_Type || type == &PyUnicode_Type || type == &PyBytes_Type || type == &PyRange_Type) return true;
  return std::strcmp(type->tp_name, "torch.device") == 0 || std::strcmp(type->tp_name, "torch.Size") == 0;
}

bool same_value(PyObject* then, PyObject* now) {
  if (then == now) return true;
  PyTypeObject* type = Py_TYPE(then);
  if (type != Py_TYPE(now)) return false;
  if (type == &PyFloat_Type) return same_bits(PyFloat_AS_DOUBLE(then), PyFloat_AS_DOUBLE(now));
  if (type == &PyComplex_Type) {
    const Py_complex was = PyComplex_AsCComplex(then), is = PyComplex_AsCComplex(now);
    return same_bits(was.real, is.real) && same_bits(was.imag, is.imag);
  }
  if (type == &PyTuple_Type) {
    const Py_ssize_t size = PyTuple_GET_SIZE(then);
    if (size != PyTuple_GET_SIZE(now)) return false;
    for (Py_ssize_t i = 0; i < size; ++i) {
      if (!same_value(PyTuple_GET_ITEM(then, i), PyTuple_GET_ITEM(now, i))) return false;
    }
    return true;
  }
  if (type == &PySlice_Type) {
    const auto* was = reinterpret_cast<PySliceObject*>(then);
    const auto* is = reinterpret_cast<PySliceObject*>(now);
    return same_value(was->start, is->start) && same_value(was->stop, is->stop) && same_value(was->step, is->step);
  }
  return is_plain(type) && equal(then, now);
}

bool same_kind_of_number(PyObject* then, PyObject* now, bool with_zero) {
  if (is_number(then)) return is_number(now) && (!with_zero || is_zero(then) == is_zero(now));
  if (with_zero && PyTuple_CheckExact(then)) {
    if (!PyTuple_CheckExact(now) || PyTuple_GET_SIZE(then) != PyTuple_GET_SIZE(now)) return false;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(then); ++i) {
      if (!same_kind_of_number(PyTuple_GET_ITEM(then, i), PyTuple_GET_ITEM(now, i), true)) return false;
    }
    return true;
  }
  return same_value(then, now);
}

std::string text_of(PyObject* object) {
  constexpr std::size_t kLongest = 60;
  if (object == nullptr) return "not there";
  PyTypeObject* type = Py_TYPE(object);
  std::string words;
  if (object == Py_None || type == &PyBool_Type || type == &PyFloat_Type || type == &PyTuple_Type || is_plain(type)) {
    PyObject* shown = PyObject_Repr(object);
    const char* text = shown == nullptr ? nullptr : PyUnicode_AsUTF8(shown);
    if (text != nullptr) words = text;
    Py_XDECREF(shown);
    PyErr_Clear();
  } else if (PyFunction_Check(object)) {
    const char* name = PyUnicode_AsUTF8(reinterpret_cast<PyFunctionObject*>(object)->func_qualname);
    words = std::string("the function ") + (name == nullptr ? "?" : name);
    PyErr_Clear();
  } else if (PyType_Check(object)) {
    words = std::string("the class ") + reinterpret_cast<PyTypeObject*>(object)->tp_name;
  } else {
    words = std::string("a ") + type->tp_name;
  }
  if (words.size() <= kLongest) return words;
  std::size_t end = kLongest;  // not within a character
  while (end > 0 && (static_cast<unsigned char>(words[end]) & 0xC0U) == 0x80U) --end;
  return words.substr(0, end) + "...";
}

}  // namespace

bool parse_mode(PyObject* object, Mode& out_mode) {
  if (PyTuple_Check(object)) {
    out_mode.kind = Mode::Kind::kParts;
    out_mode.parts.assign(static_cast<std::size_t>(PyTuple_GET_SIZE(object)), Mode{});
    for (std::size_t i = 0; i < out_mode.parts.size(); ++i) {
      if (!parse_mode(PyTuple_GET_ITEM(object, static_cast<Py_ssize_t>(i)), out_mode.parts[i])) return false;
    }
    return true;
  }
  static constexpr struct {
    const char* name;
    Mode::Kind kind;
  } kModes[] = {{"is", Mode::Kind::kIs},
                {"value", Mode::Kind::kValue},
                {"skip", Mode::Kind::kSkip},
                {"number", Mode::Kind::kNumber},
                {"zeroness", Mode::Kind::kZeroness}};
  for (const auto& known : kModes) {
    if (PyUnicode_Check(object) && PyUnicode_CompareWithASCIIString(object, known.name) == 0) {
      out_mode.kind = known.kind;
      return true;
    }
  }
  PyErr_Format(PyExc_ValueError,
               "%R is no way to compare: use 'is', 'value', 'skip', 'number', 'zeroness' or a tuple of them", object);
  return false;
}

bool same(PyObject* then, PyObject* now, const Mode& mode) {
  if (mode.kind == Mode::Kind::kSkip || then == now) return true;
  if (then == nullptr || now == nullptr) return false;
  switch (mode.kind) {
    case Mode::Kind::kIs:
      return false;
    case Mode::Kind::kValue:
      return same_value(then, now);
    case Mode::Kind::kSkip:
      return true;
    case Mode::Kind::kNumber:
      return same_kind_of_number(then, now, false);
    case Mode::Kind::kZeroness:
      return same_kind_of_number(then, now, true);
    case Mode::Kind::kParts:
      break;
  }
  const auto size = static_cast<Py_ssize_t>(mode.parts.size());
  if (!PyTuple_CheckExact(then) || !PyTuple_CheckExact(now) || PyTuple_GET_SIZE(then) != size ||
      PyTuple_GET_SIZE(now) != size) {
    return same_value(then, now);
  }
  for (Py_ssize_t i = 0; i < size; ++i) {
    if (!same(PyTuple_GET_ITEM(then, i), PyTuple_GET_ITEM(now, i), mode.parts[static_cast<std::size_t>(i)])) {
      return false;
    }
  }
  return true;
}

std::string in_words(PyObject* then, PyObject* now) {
  const std::string was = text_of(then), is = text_of(now);
  if (was == is) return "was " + was + ", is another one";
  return "was " + was + ", is " + is;
}

}  // namespace crucible::accelerate
