// A record of a value that left looks like an op's: "python::numpy(Tensor(a) self) -> (Scalar[] values, int sum)", with
// line, module and phase. The values are there when they are few; the sum is XXH3-64 of the elements, dense and
// row-major.
#include "frontends/torch/leaving.hpp"

#include <ATen/Functions.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <structmember.h>
#include <torch/csrc/Storage.h>
#include <torch/csrc/autograd/python_variable.h>
#include <torch/library.h>

#include <array>
#include <cstddef>
#include <exception>
#include <optional>
#include <string>
#include <string_view>

#include "frontends/torch/data_input.hpp"
#include "frontends/torch/op_scope.hpp"
#include "frontends/torch/record_function.hpp"

namespace crucible::recorder {

namespace {

/// Ways by which values leave. `quiet`: what the original does to give them are no ops of the program's (printing a
/// tensor takes dozens).
struct Way {
  const char* name;
  bool quiet = false;
  bool only_unseen = false;  // where the operator that gives the value is recorded, it says everything
  bool by_program =
      false;  // the framework's own code does this for purposes of its own (to tell storages apart, to pickle a tensor)
};
constexpr std::array kWays = {
    Way{"numpy"},
    Way{"tolist"},
    Way{"dlpack"},
    Way{.name = "data_ptr", .by_program = true},
    Way{.name = "print", .quiet = true},
    Way{"pickle"},
    Way{.name = "storage", .by_program = true},
    Way{"share_memory"},
    Way{.name = "item", .only_unseen = true},
    Way{.name = "nothing", .quiet = true},  // data that arrives: a tensor is put together of what another process sent
};
constexpr std::string_view kNothing = "nothing";
constexpr std::int64_t kFew = 16;

/// Operators of the namespace "python", which nothing calls: they are there for their schemas.
const Operator& operator_of(std::size_t way) {
  static std::array<const Operator*, kWays.size()> known{};
  if (known[way] == nullptr) {
    static auto* const library =
        new torch::Library(torch::Library::FRAGMENT, "python", std::nullopt, __FILE__, __LINE__);  // for good
    const std::string name = kWays[way].name;
    const c10::OperatorName full("python::" + name, "");
    auto& dispatcher = c10::Dispatcher::singleton();
    const std::string schema = name + "(Tensor(a) self) -> (Scalar[] values, int sum)";
    if (!dispatcher.findOp(full)) library->def(schema.c_str());
    known[way] = &Recorder::instance().operators().find_or_add(*dispatcher.findOp(full));
  }
  return *known[way];
}

/// The elements if they are few and real numbers.
void encode_values(Encoder& encoder, const at::Tensor& tensor, bool readable) {
  const std::int64_t count = readable && !tensor.is_complex() ? tensor.numel() : kFew + 1;
  if (count > kFew) return encoder.list(0);
  encoder.list(static_cast<std::size_t>(count));
  if (count == 0) return;
  const bool is_real = tensor.is_floating_point();
  const at::Tensor flat = tensor.detach().to(at::kCPU, is_real ? at::kDouble : at::kLong).reshape({-1});
  for (std::int64_t i = 0; i < count; ++i) {
    is_real ? encoder.real(flat.const_data_ptr<double>()[i]) : encoder.integer(flat.const_data_ptr<std::int64_t>()[i]);
  }
}

/// Whether the calling thread's ops are recorded; `hidden`: inside something of the framework's that shuts tracers out
/// while it reads values (torch.tensor of a list of tensors).
bool is_recorded_here(bool& hidden) {
  hidden = false;
  if (!is_thread_on()) return false;
  if (!c10::impl::tls_is_dispatch_key_excluded(c10::DispatchKey::Fake)) return true;
  hidden = c10::impl::tls_is_dispatch_key_excluded(c10::DispatchKey::DeferredInit);
  return false;
}

/// Whether the Python code that is running lies in the framework's folder. Threads: holds the GIL.
bool is_framework_calling() {
  static const std::string folder = [] {
    PyObject* torch = PyImport_ImportModule("torch");
    PyObject* file = torch == nullptr ? nullptr : PyObject_GetAttrString(torch, "__file__");
    const char* path = file == nullptr ? nullptr : PyUnicode_AsUTF8(file);
    std::string found = path == nullptr ? "" : path;
    PyErr_Clear();
    Py_XDECREF(file);
    Py_XDECREF(torch);
    return found.substr(0, found.rfind('/') + 1);
  }();
  PyFrameObject* frame = PyEval_GetFrame();  // borrowed
  if (frame == nullptr || folder.empty()) return false;
  PyCodeObject* code = PyFrame_GetCode(frame);
  const char* file = PyUnicode_AsUTF8(code->co_filename);
  const bool is_framework = file != nullptr && std::string_view(file).starts_with(folder);
  if (file == nullptr) PyErr_Clear();
  Py_DECREF(code);
  return is_framework;
}

bool is_known(Recorder& recorder, const at::Tensor& tensor) {
  if (!tensor.has_storage()) return true;  // of several parts: each is looked up when it is written
  const Locked locked(recorder.lock(), Recorder::me());
  auto& storages = const_cast<StorageTable&>(recorder.state().storages);  // looking a storage up changes nothing
  return storages.find(tensor.storage().unsafeGetStorageImpl()) != nullptr;
}

/// Writes the record, where the value is one of the recorded program's.
void note(std::size_t way, const at::Tensor& tensor) {
  Recorder& recorder = Recorder::instance();
  if (!recorder.is_recording() || !tensor.defined() || tensor.is_meta()) return;
  using K = c10::DispatchKey;
  const auto keys = tensor.key_set();
  if (keys.has_any(c10::DispatchKeySet({K::Python, K::FuncTorchBatched, K::FuncTorchGradWrapper, K::Functionalize})))
    return;
  bool hidden = false;
  const bool recorded = is_recorded_here(hidden);
  if (!recorded && !hidden && is_thread_on()) return;  // inside an op that is recorded as one
  if (recorded && kWays[way].only_unseen) return;
  if (!is_known(recorder, tensor)) return;
  OpScope scope(operator_of(way));
  if (!scope.is_open()) return;
  scope.encoder().tensor(tensor, Encoder::Access::kView);
  scope.before_run();
  const PlainOps plain;
  const std::uint64_t sum = hash_elements(tensor);
  if (!scope.after_run()) return;
  encode_values(scope.encoder(), tensor, sum != 0);
  scope.encoder().integer(static_cast<std::int64_t>(sum));
  scope.finish();
}

/// The tensor, or all bytes of the storage.
std::optional<at::Tensor> tensor_of(PyObject* object) {
  if (THPVariable_Check(object)) return THPVariable_Unpack(object);
  if (!THPStorage_Check(object)) return std::nullopt;
  const c10::Storage& storage = THPStorage_Unpack(object);
  if (storage.unsafeGetStorageImpl() == nullptr || storage.device().is_meta()) return std::nullopt;
  const PlainOps plain;
  return at::empty({0}, at::TensorOptions().dtype(at::kByte).device(storage.device())).set_(storage);
}

struct Leaving {
  PyObject_HEAD vectorcallfunc call;
  PyObject* original;
  std::size_t way;
};

thread_local int depth = 0;  // of stand-ins: what one does to give its values is not told again

PyObject* call_leaving(PyObject* self, PyObject* const* args, std::size_t count, PyObject* names) {
  const auto* leaving = reinterpret_cast<Leaving*>(self);
  const bool makes_data = makes_input();  // what is read for it is told as such
  if (makes_data && depth == 0 && PyVectorcall_NARGS(count) > 0 && !kWays[leaving->way].by_program &&
      !kWays[leaving->way].only_unseen) {
    note_read_for_input(args[0]);
  }
  const bool watched = !makes_data && depth == 0 && PyVectorcall_NARGS(count) > 0 &&
                       Recorder::instance().is_recording() &&
                       !(kWays[leaving->way].by_program && is_framework_calling());
  if (!watched) return PyObject_Vectorcall(leaving->original, args, count, names);
  try {
    const auto tensor = kWays[leaving->way].name == kNothing ? std::nullopt : tensor_of(args[0]);
    if (tensor) note(leaving->way, *tensor);
  } catch (const std::exception&) {
    // Its elements cannot be read (a device that failed): the call itself will say so, or does not mind.
  }
  std::optional<c10::impl::ExcludeDispatchKeyGuard> quiet;
  if (kWays[leaving->way].quiet) quiet.emplace(c10::DispatchKey::Fake);
  ++depth;
  PyObject* result = PyObject_Vectorcall(leaving->original, args, count, names);
  --depth;
  return result;
}

PyObject* bind_leaving(PyObject* self, PyObject* object, PyObject*) {
  return object == nullptr || object == Py_None ? Py_NewRef(self) : PyMethod_New(self, object);
}

/// Pickled it is the name of what it stands in for, which other processes have.
PyObject* reduce_leaving(PyObject* self, PyObject*) {
  return PyObject_GetAttrString(reinterpret_cast<Leaving*>(self)->original, "__qualname__");
}

PyObject* attribute_of_leaving(PyObject* self, PyObject* name) {
  const char* text = PyUnicode_AsUTF8(name);
  if (text == nullptr) return nullptr;
  if (std::string_view(text).starts_with("__reduce")) return PyObject_GenericGetAttr(self, name);
  PyObject* found = PyObject_GetAttr(reinterpret_cast<Leaving*>(self)->original, name);
  if (found != nullptr || PyErr_ExceptionMatches(PyExc_AttributeError) == 0) return found;
  PyErr_Clear();
  return PyObject_GenericGetAttr(self, name);
}

void free_leaving(PyObject* self) {
  PyTypeObject* type = Py_TYPE(self);
  Py_DECREF(reinterpret_cast<Leaving*>(self)->original);
  type->tp_free(self);
  Py_DECREF(type);
}

PyTypeObject* make_type(const char* name, bool binds) {
  static PyMemberDef members[] = {{"__vectorcalloffset__", T_PYSSIZET, offsetof(Leaving, call), READONLY, nullptr},
                                  {nullptr, 0, 0, 0, nullptr}};
  static PyMethodDef methods[] = {{"__reduce__", reduce_leaving, METH_NOARGS, nullptr}, {nullptr, nullptr, 0, nullptr}};
  PyType_Slot slots[] = {{Py_tp_call, reinterpret_cast<void*>(PyVectorcall_Call)},
                         {Py_tp_getattro, reinterpret_cast<void*>(attribute_of_leaving)},
                         {Py_tp_dealloc, reinterpret_cast<void*>(free_leaving)},
                         {Py_tp_members, members},
                         {Py_tp_methods, methods},
                         {binds ? Py_tp_descr_get : 0, binds ? reinterpret_cast<void*>(bind_leaving) : nullptr},
                         {0, nullptr}};
  const unsigned long flags =
      Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_VECTORCALL | (binds ? Py_TPFLAGS_METHOD_DESCRIPTOR : 0);
  PyType_Spec spec{name, sizeof(Leaving), 0, static_cast<unsigned int>(flags), slots};
  return reinterpret_cast<PyTypeObject*>(PyType_FromSpec(&spec));
}

}  // namespace

PyObject* wrap_leaving(PyObject*, PyObject* args) {
  const char* name = nullptr;
  PyObject* original = nullptr;
  if (PyArg_ParseTuple(args, "sO", &name, &original) == 0) return nullptr;
  std::size_t way = 0;
  while (way < kWays.size() && std::string_view(kWays[way].name) != name) ++way;
  if (way == kWays.size()) {
    PyErr_Format(PyExc_ValueError, "values do not leave by '%s'", name);
    return nullptr;
  }
  static PyTypeObject* const method = make_type("crucible_torch._recorder.LeavingMethod", true);
  static PyTypeObject* const function = make_type("crucible_torch._recorder.LeavingFunction", false);
  // A function in a module binds nothing; whatever stands in a class does.
  PyTypeObject* const type = PyCFunction_Check(original) ? function : method;
  if (type == nullptr) return nullptr;
  auto* made = PyObject_New(Leaving, type);
  if (made == nullptr) return nullptr;
  made->call = call_leaving;
  made->original = Py_NewRef(original);
  made->way = way;
  return reinterpret_cast<PyObject*>(made);
}

}  // namespace crucible::recorder
