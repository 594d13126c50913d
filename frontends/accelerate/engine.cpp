// Who calls holds the GIL, but for compile() and the run itself, which let it go. All else is a few loads and compares
// per tensor: this is the path of a call.
#include "frontends/accelerate/engine.hpp"

#include <ATen/Functions.h>
#include <ATen/ops/empty_strided.h>
#include <torch/csrc/Dtype.h>
#include <torch/csrc/DynamicTypes.h>
#include <torch/csrc/autograd/python_variable.h>

#include <algorithm>
#include <bit>
#include <chrono>
#include <cstring>
#include <mutex>
#include <new>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "frontends/accelerate/compile.hpp"
#include "frontends/accelerate/description.hpp"
#include "frontends/accelerate/engine_memory.hpp"
#include "frontends/accelerate/python_objects.hpp"

namespace crucible::accelerate {
namespace {

using Kind = runtime::BoundForm::Kind;

struct ProgramObject {
  PyObject_HEAD Engine* engine;
};

Engine& engine_of(PyObject* self) { return *reinterpret_cast<ProgramObject*>(self)->engine; }

int clear(PyObject* self) {
  Engine* const engine = reinterpret_cast<ProgramObject*>(self)->engine;
  if (engine == nullptr) return 0;
  engine->written.clear();
  for (PyObject*& object : engine->bound) Py_CLEAR(object);
  for (OutputSpec& output : engine->outputs) {
    Py_CLEAR(output.parameter);
    output.last.reset();
    output.spare.reset();
  }
  for (GradSpec& grad : engine->grads) Py_CLEAR(grad.parameter);
  return 0;
}

int traverse(PyObject* self, visitproc visit, void* arg) {
  const Engine* const engine = reinterpret_cast<ProgramObject*>(self)->engine;
  if (engine == nullptr) return 0;
  for (PyObject* const object : engine->bound) Py_VISIT(object);
  for (const OutputSpec& output : engine->outputs) Py_VISIT(output.parameter);
  for (const GradSpec& grad : engine->grads) Py_VISIT(grad.parameter);
  return 0;
}

void dealloc(PyObject* self) {
  PyObject_GC_UnTrack(self);
  clear(self);
  Engine* const engine = std::exchange(reinterpret_cast<ProgramObject*>(self)->engine, nullptr);
  if (engine != nullptr) {
    const ReleaseGil released;  // memory that a device gives back may take a while
    delete engine;
  }
  Py_TYPE(self)->tp_free(self);
}

PyObject* info(PyObject* self, PyObject*) {
  return guarded([&] { return describe(engine_of(self).compiled); });
}

/// bind(place, tensor): the place is the tensor's memory from now on.
PyObject* bind(PyObject* self, PyObject* args) {
  Py_ssize_t place = 0;
  PyObject* object = nullptr;
  if (PyArg_ParseTuple(args, "nO", &place, &object) == 0) return nullptr;
  return guarded([&]() -> PyObject* {
    Engine& engine = engine_of(self);
    const auto& places = engine.compiled.executable->places();
    if (place < 0 || static_cast<std::size_t>(place) >= places.size() || !THPVariable_Check(object)) {
      PyErr_SetString(PyExc_ValueError, "bind(place, tensor): a place that there is, and a tensor");
      return nullptr;
    }
    const auto k = static_cast<std::size_t>(place);
    const at::Tensor& tensor = THPVariable_Unpack(object);
    const bool is_whole = places[k].is_draw ? covers(tensor, places[k].size_bytes)
                                            : tensor.has_storage() && tensor.device().is_cpu() &&
                                                  tensor.storage().nbytes() == places[k].size_bytes;
    if (!is_whole) {
      PyErr_Format(PyExc_ValueError, "the tensor of place %zd is not %llu bytes of the processor's memory", place,
                   static_cast<unsigned long long>(places[k].size_bytes));
      return nullptr;
    }
    void* const memory = places[k].is_draw ? tensor.data_ptr() : tensor.storage().mutable_data();
    if (const Result<void> done = bind_memory(engine, k, memory); !done) return raise(done.error());
    std::erase(engine.written, engine.bound[k]);
    if (places[k].is_written) engine.written.push_back(object);
    Py_XSETREF(engine.bound[k], Py_NewRef(object));
    return none();
  });
}

/// set_inputs([place, ...]): what run()'s tensors are.
PyObject* set_inputs(PyObject* self, PyObject* list) {
  Engine& engine = engine_of(self);
  std::vector<std::size_t> places;
  for (Py_ssize_t i = 0; i < PySequence_Size(list); ++i) {
    const Ref item(PySequence_GetItem(list, i));
    const std::size_t place = item ? PyLong_AsSize_t(item.get()) : 0;
    if (PyErr_Occurred() != nullptr) return nullptr;
    places.push_back(place);
  }
  engine.inputs = std::move(places);
  return none();
}

bool read_numbers(PyObject* sequence, std::vector<std::int64_t>& into) {
  for (Py_ssize_t i = 0; i < PySequence_Size(sequence); ++i) {
    const Ref item(PySequence_GetItem(sequence, i));
    into.push_back(item ? PyLong_AsLongLong(item.get()) : 0);
  }
  return PyErr_Occurred() == nullptr;
}

/// add_output(place, sizes, strides, turned, dtype, parameter or None): a result of run(), or a parameter's gradient,
/// which is copied to the strides `turned` where those are given.
PyObject* add_output(PyObject* self, PyObject* args) {
  Py_ssize_t place = 0;
  PyObject *sizes = nullptr, *strides = nullptr, *turned = nullptr, *dtype = nullptr, *parameter = nullptr;
  if (PyArg_ParseTuple(args, "nOOOOO", &place, &sizes, &strides, &turned, &dtype, &parameter) == 0) return nullptr;
  return guarded([&]() -> PyObject* {
    OutputSpec spec;
    spec.place = static_cast<std::size_t>(place);
    if (!read_numbers(sizes, spec.sizes) || !read_numbers(strides, spec.strides) || !read_numbers(turned, spec.turned))
      return nullptr;
    if (!THPDtype_Check(dtype) || spec.place >= engine_of(self).compiled.executable->places().size()) {
      PyErr_SetString(PyExc_ValueError, "add_output(place, sizes, strides, turned, dtype, parameter)");
      return nullptr;
    }
    spec.dtype = reinterpret_cast<THPDtype*>(dtype)->scalar_type;
    if (parameter != Py_None) spec.parameter = Py_NewRef(parameter);
    engine_of(self).outputs.push_back(std::move(spec));
    return none();
  });
}

/// add_grad(parameter, is_there, is_cleared, place or -1, strides): what its gradient is when a call begins and ends.
PyObject* add_grad(PyObject* self, PyObject* args) {
  PyObject* parameter = nullptr;
  int is_there = 0, is_cleared = 0;
  Py_ssize_t place = -1;
  PyObject* strides = nullptr;
  if (PyArg_ParseTuple(args, "OppnO", &parameter, &is_there, &is_cleared, &place, &strides) == 0) return nullptr;
  GradSpec spec{.parameter = parameter, .is_there = is_there != 0, .is_cleared = is_cleared != 0};
  if (place >= 0) spec.place = static_cast<std::size_t>(place);
  if (!read_numbers(strides, spec.strides)) return nullptr;
  Py_INCREF(parameter);
  engine_of(self).grads.push_back(std::move(spec));
  return none();
}

/// The first index that eager would refuse, in words; "" where there is none.
Result<bool> indices_hold(Engine& engine) {
  runtime::Executable* const bounds = engine.compiled.bounds.get();
  if (bounds == nullptr) return true;
  std::size_t place = 0;
  while (bounds->places()[place].kind != Kind::kOutput) ++place;
  engine.indices.resize(bounds->places()[place].size_bytes / sizeof(std::int64_t) + 2);
  auto at = reinterpret_cast<std::uintptr_t>(engine.indices.data());
  at = (at + runtime::Executable::kBoundAlignment - 1) / runtime::Executable::kBoundAlignment *
       runtime::Executable::kBoundAlignment;
  auto* const found = reinterpret_cast<std::int64_t*>(at);
  CRUCIBLE_TRY_VOID(bounds->bind(place, found));
  CRUCIBLE_TRY_VOID(bounds->run());
  for (std::size_t i = 0; i < engine.compiled.bounds_of.size(); ++i) {
    const graph::Bound& bound = engine.compiled.bounds_of[i];
    if (found[2 * i] < bound.low || found[2 * i + 1] > bound.high) return false;
  }
  return true;
}

enum class Ran : std::uint8_t { kDone, kIndexOutside };

/// Adds to what the plan took.
Result<void> timed(Engine& engine, Result<void> (runtime::Executable::*part)()) {
  const auto began = std::chrono::steady_clock::now();
  Result<void> ran = ((*engine.compiled.executable).*part)();
  engine.plan_ns +=
      static_cast<std::uint64_t>(std::chrono::nanoseconds(std::chrono::steady_clock::now() - began).count());
  return ran;
}

/// The run, or its first part where there are values that decide whether it counts.
Result<Ran> run_bound(Engine& engine) {
  CRUCIBLE_TRY(const bool holds, indices_hold(engine));
  if (!holds) return Ran::kIndexOutside;
  engine.plan_ns = 0;
  const bool is_split = !engine.deciding.empty();
  if (is_split) save_places(engine);
  const Result<void> ran = timed(engine, is_split ? &runtime::Executable::run_first : &runtime::Executable::run);
  return ran ? Result<Ran>(Ran::kDone) : ran.error();
}

bool read_slots(Engine& engine, PyObject* numbers) {
  const std::vector<graph::Slot>& slots = engine.compiled.slots;
  if (!PyTuple_Check(numbers) && !PyList_Check(numbers)) {
    PyErr_SetString(PyExc_TypeError, "the numbers of the slots are a tuple or a list");
    return false;
  }
  if (PySequence_Fast_GET_SIZE(numbers) != static_cast<Py_ssize_t>(slots.size())) {
    PyErr_Format(PyExc_ValueError, "%zd numbers for %zu slots", PySequence_Fast_GET_SIZE(numbers), slots.size());
    return false;
  }
  engine.bits.clear();
  for (std::size_t i = 0; i < slots.size(); ++i) {
    PyObject* const number = PySequence_Fast_GET_ITEM(numbers, static_cast<Py_ssize_t>(i));
    engine.bits.push_back(slots[i].is_integer ? static_cast<std::uint64_t>(PyLong_AsLongLong(number))
                                              : std::bit_cast<std::uint64_t>(PyFloat_AsDouble(number)));
  }
  return PyErr_Occurred() == nullptr;
}

/// decide_by([output, ...]): results that say whether a run counts. run() asks as soon as they are there.
PyObject* decide_by(PyObject* self, PyObject* list) {
  return guarded([&]() -> PyObject* {
    Engine& engine = engine_of(self);
    std::vector<std::size_t> places;
    engine.deciding.clear();
    for (Py_ssize_t i = 0; i < PySequence_Size(list); ++i) {
      const Ref item(PySequence_GetItem(list, i));
      const std::size_t output = item ? PyLong_AsSize_t(item.get()) : 0;
      if (PyErr_Occurred() != nullptr) return nullptr;
      if (output >= engine.outputs.size()) return PyErr_Format(PyExc_ValueError, "there is no result %zu", output);
      engine.deciding.push_back(output);
      places.push_back(engine.outputs[output].place);
    }
    if (const Result<void> split = engine.compiled.executable->split_after(places); !split) return raise(split.error());
    const std::vector<std::size_t>& early = engine.compiled.executable->written_first();
    for (OutputSpec& output : engine.outputs) output.is_early = std::ranges::find(early, output.place) != early.end();
    return none();
  });
}

/// The second part of a run, if `decide` says of the deciding results that it counts; false with everything put back
/// where it does not. Errors: none where Python has raised, also with everything put back; those of the plan.
std::optional<Result<bool>> run_rest(Engine& engine, const std::vector<at::Tensor>& results, PyObject* decide) {
  const Ref asked(PyList_New(0));
  bool is_asked = static_cast<bool>(asked);
  for (const std::size_t output : engine.deciding)
    is_asked = is_asked && append(asked.get(), THPVariable_Wrap(results[output]));
  const Ref answer(is_asked ? PyObject_CallOneArg(decide, asked.get()) : nullptr);
  const int counts = answer ? PyObject_IsTrue(answer.get()) : -1;
  if (counts <= 0) put_back(engine);
  if (counts < 0) return std::nullopt;
  if (counts == 0) return Result<bool>(false);
  const ReleaseGil released;
  const Result<void> ran = timed(engine, &runtime::Executable::run_rest);
  return ran ? Result<bool>(true) : Result<bool>(ran.error());
}

/// run(tensors, numbers, decide): a list of the results; or, with nothing changed, in words why the call has to be
/// eager's.
PyObject* run(PyObject* self, PyObject* const* args, Py_ssize_t count) {
  if ((count != 2 && count != 3) || !PyTuple_Check(args[0]) || (count == 2 && !engine_of(self).deciding.empty())) {
    PyErr_SetString(PyExc_TypeError, "run(tuple of tensors, numbers, what decides of the deciding results)");
    return nullptr;
  }
  return guarded([&]() -> PyObject* {
    Engine& engine = engine_of(self);
    const std::unique_lock lock(engine.mutex, std::try_to_lock);
    if (!lock) return PyUnicode_FromString("another thread is in a call of it");
    if (PyTuple_GET_SIZE(args[0]) != static_cast<Py_ssize_t>(engine.inputs.size())) {
      PyErr_Format(PyExc_ValueError, "%zd tensors for %zu inputs", PyTuple_GET_SIZE(args[0]), engine.inputs.size());
      return nullptr;
    }
    if (const char* const reason = gradients_differ(engine)) return PyUnicode_FromString(reason);
    for (const GradSpec& grad : engine.grads) {
      if (!grad.place) continue;
      const at::Tensor& tensor = THPVariable_Unpack(grad.parameter).grad();
      if (const Result<void> done = bind_memory(engine, *grad.place, tensor.mutable_data_ptr()); !done)
        return raise(done.error());
    }
    if (!read_slots(engine, args[1])) return nullptr;
    runtime::Executable& executable = *engine.compiled.executable;
    engine.held.clear();
    const struct Dropped {
      std::vector<at::Tensor>& held;
      ~Dropped() { held.clear(); }
    } dropped{engine.held};
    for (std::size_t i = 0; i < engine.inputs.size(); ++i) {
      at::Tensor tensor = THPVariable_Unpack(PyTuple_GET_ITEM(args[0], static_cast<Py_ssize_t>(i)));
      const runtime::BoundForm::Place& place = executable.places()[engine.inputs[i]];
      const auto alignment = static_cast<std::int64_t>(runtime::Executable::kBoundAlignment);
      const bool lies_well =
          covers(tensor, place.size_bytes) && reinterpret_cast<std::int64_t>(tensor.const_data_ptr()) % alignment == 0;
      if (!lies_well) tensor = tensor.detach().clone();
      if (const char* const reason = argument_differs(engine, tensor, place.size_bytes))
        return PyUnicode_FromString(reason);
      if (const Result<void> done = bind_memory(engine, engine.inputs[i], tensor.mutable_data_ptr()); !done)
        return raise(done.error());
      engine.held.push_back(std::move(tensor));
    }
    const Ref results(PyList_New(0));
    std::vector<std::pair<OutputSpec*, at::Tensor>> given;
    for (OutputSpec& output : engine.outputs) {
      at::Tensor tensor = memory_of(output);
      if (const Result<void> done = executable.bind(output.place, tensor.mutable_data_ptr()); !done)
        return raise(done.error());
      given.emplace_back(&output, std::move(tensor));
    }
    if (const Result<void> done = executable.set_slots(engine.bits); !done) return raise(done.error());
    Result<Ran> ran = Ran::kDone;
    {
      const ReleaseGil released;
      ran = run_bound(engine);
    }
    if (!ran) return raise(ran.error());
    if (*ran == Ran::kIndexOutside)
      return PyUnicode_FromString("an index is out of range, a mask picks more or fewer, or torch raises for a value");
    if (!engine.deciding.empty()) {
      std::vector<at::Tensor> results_so_far;
      results_so_far.reserve(given.size());
      for (const auto& [output, tensor] : given) results_so_far.push_back(tensor);
      const std::optional<Result<bool>> counts = run_rest(engine, results_so_far, args[2]);
      if (!counts) return nullptr;
      if (!*counts) return raise(counts->error());
      if (!**counts) Py_RETURN_NONE;
    }
    ++engine.runs;
    bump_versions(engine);
    for (const GradSpec& grad : engine.grads) {
      if (grad.place) THPVariable_Unpack(grad.parameter).grad().unsafeGetTensorImpl()->bump_version();
      if (grad.is_cleared) THPVariable_Unpack(grad.parameter).mutable_grad().reset();
    }
    for (auto& [output, tensor] : given) {
      if (!output->turned.empty()) {
        at::Tensor turned = at::empty_strided(output->sizes, output->turned, tensor.options());
        turned.copy_(tensor);
        tensor = std::move(turned);
      }
      if (output->parameter != nullptr) {
        THPVariable_Unpack(output->parameter).mutable_grad() = tensor;
      } else if (!append(results.get(), THPVariable_Wrap(tensor))) {
        return nullptr;
      }
    }
    return Py_NewRef(results.get());
  });
}

/// why_not(tensors): why run() with these would leave the call to eager, as far as that is known before a run; or None.
PyObject* why_not(PyObject* self, PyObject* tensors) {
  return guarded([&]() -> PyObject* {
    const Engine& engine = engine_of(self);
    if (!PyTuple_Check(tensors) || PyTuple_GET_SIZE(tensors) != static_cast<Py_ssize_t>(engine.inputs.size())) {
      PyErr_SetString(PyExc_TypeError, "why_not(tuple of run()'s tensors)");
      return nullptr;
    }
    const char* reason = gradients_differ(engine);
    for (std::size_t i = 0; reason == nullptr && i < engine.inputs.size(); ++i) {
      const at::Tensor& tensor = THPVariable_Unpack(PyTuple_GET_ITEM(tensors, static_cast<Py_ssize_t>(i)));
      const std::uint64_t size_bytes = engine.compiled.executable->places()[engine.inputs[i]].size_bytes;
      if (covers(tensor, size_bytes)) {
        reason = argument_differs(engine, tensor, size_bytes);
      } else if (tensor.numel() * static_cast<std::int64_t>(tensor.itemsize()) !=
                 static_cast<std::int64_t>(size_bytes)) {
        reason = "an argument has another size";
      }
    }
    return reason == nullptr ? none() : PyUnicode_FromString(reason);
  });
}

/// run_beside([(place, tensor), ...], run()'s arguments): a run that has other tensors in the place of states, whose
/// versions do not rise. It is one call, so that no interrupt comes while the states are not where they belong.
PyObject* run_beside(PyObject* self, PyObject* const* args, Py_ssize_t count) {
  if (count < 1 || !PyList_Check(args[0])) {
    PyErr_SetString(PyExc_TypeError, "run_beside(list of (place, tensor), run()'s arguments)");
    return nullptr;
  }
  return guarded([&]() -> PyObject* {
    Engine& engine = engine_of(self);
    std::vector<std::pair<std::size_t, at::Tensor>> beside;
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(args[0]); ++i) {
      Py_ssize_t place = 0;
      PyObject* tensor = nullptr;
      if (PyArg_ParseTuple(PyList_GET_ITEM(args[0], i), "nO", &place, &tensor) == 0) return nullptr;
      const auto& places = engine.compiled.executable->places();
      if (place < 0 || static_cast<std::size_t>(place) >= places.size() || !THPVariable_Check(tensor) ||
          THPVariable_Unpack(tensor).storage().nbytes() != places[static_cast<std::size_t>(place)].size_bytes) {
        PyErr_Format(PyExc_ValueError, "the tensor beside place %zd does not fit", place);
        return nullptr;
      }
      beside.emplace_back(static_cast<std::size_t>(place), THPVariable_Unpack(tensor));
    }
    struct Back {
      Engine& engine;
      std::vector<PyObject*> written = {};
      std::vector<std::pair<std::size_t, void*>> memory = {};
      ~Back() {
        for (const auto& [place, address] : memory) static_cast<void>(bind_memory(engine, place, address));
        engine.written = std::move(written);
      }
    } back{engine};
    back.written = std::exchange(engine.written, {});
    for (const auto& [place, tensor] : beside) {
      back.memory.emplace_back(place, const_cast<void*>(engine.compiled.executable->bound(place)));
      if (const Result<void> done = bind_memory(engine, place, tensor.storage().mutable_data()); !done)
        return raise(done.error());
    }
    return run(self, args + 1, count - 1);
  });
}

/// plan_ns(): what the plan took in the last run.
PyObject* plan_ns(PyObject* self, PyObject*) { return PyLong_FromUnsignedLongLong(engine_of(self).plan_ns); }

/// runs(): how many runs were made, all of them.
PyObject* runs(PyObject* self, PyObject*) { return PyLong_FromUnsignedLongLong(engine_of(self).runs); }

/// forget_grads(): gradients that were given are written no more, whoever has them.
PyObject* forget_grads(PyObject* self, PyObject*) {
  for (OutputSpec& output : engine_of(self).outputs) {
    output.last.reset();
    output.spare.reset();
  }
  return none();
}

/// give_back_arena(): the memory of temporary tensors goes back to the system until the next run.
PyObject* give_back(PyObject* self, PyObject*) {
  give_back_arena(engine_of(self));
  return none();
}

PyMethodDef methods[] = {
    {"info", info, METH_NOARGS, "What was compiled, as a dict."},
    {"bind", bind, METH_VARARGS, "bind(place, tensor): the place is all of the tensor's memory from now on."},
    {"set_inputs", set_inputs, METH_O, "set_inputs([place, ...]): what run()'s tensors are."},
    {"add_output", add_output, METH_VARARGS,
     "add_output(place, sizes, strides, turned, dtype, parameter or None): a result of run(), or a parameter's "
     "gradient,\n"
     "copied to the strides `turned` where those are given."},
    {"add_grad", add_grad, METH_VARARGS,
     "add_grad(parameter, is_there, is_cleared, place or -1, strides there): its gradient when a call begins, that it\n"
     "has none at the end, or the place that it is."},
    {"plan_ns", plan_ns, METH_NOARGS, "Nanoseconds that the plan took in the last run, without what is around it."},
    {"runs", runs, METH_NOARGS, "How many runs were made: one that did not count is none."},
    {"forget_grads", forget_grads, METH_NOARGS, "Gradients that were given so far are not written again."},
    {"decide_by", decide_by, METH_O,
     "decide_by([result, ...]): results that say whether a run counts; run() asks as soon as they are there."},
    {"run", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(run)), METH_FASTCALL,
     "run(tensors, numbers of the slots, decide): a list of the results; or a text that says why eager has to do it,\n"
     "or None where decide(deciding results) was false, and nothing has changed then."},
    {"give_back_arena", give_back, METH_NOARGS,
     "The memory of temporary tensors goes back to the system until the next run."},
    {"why_not", why_not, METH_O,
     "why_not(tensors): why run() with these would leave the call to eager, as far as that is known before; or None."},
    {"run_beside", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(run_beside)), METH_FASTCALL,
     "run_beside([(place, tensor), ...], run()'s arguments): a run that has other tensors in the place of states."},
    {nullptr, nullptr, 0, nullptr},
};

PyType_Slot type_slots[] = {
    {Py_tp_dealloc, reinterpret_cast<void*>(dealloc)},
    {Py_tp_traverse, reinterpret_cast<void*>(traverse)},
    {Py_tp_clear, reinterpret_cast<void*>(clear)},
    {Py_tp_methods, methods},
    {Py_tp_doc, const_cast<char*>("Observed calls, compiled: made by compile().")},
    {0, nullptr},
};

PyType_Spec type_spec = {"crucible_torch._accelerate.Program", sizeof(ProgramObject), 0,
                         Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_DISALLOW_INSTANTIATION, type_slots};
PyObject* program_type = nullptr;  // lives as long as the process

PyObject* compile_file(PyObject*, PyObject* args) {
  const char *file = nullptr, *prefix = nullptr;
  if (PyArg_ParseTuple(args, "ss", &file, &prefix) == 0) return nullptr;
  return guarded([&]() -> PyObject* {
    const std::string path = file, in_front = prefix;
    Result<Compiled> compiled = Error{ErrorCode::kInternal, ""};
    {
      const ReleaseGil released;
      compiled = compile(path, in_front);
      give_back_memory();
    }
    if (!compiled) return raise(compiled.error());
    auto engine = std::make_unique<Engine>();
    engine->compiled = *std::move(compiled);
    engine->bound.assign(engine->compiled.executable->places().size(), nullptr);
    give_back_arena(*engine);  // eager calls go on until it is wanted
    for (auto& [place, bytes] : engine->compiled.own) {
      if (const Result<void> done = bind_memory(*engine, place, bytes.data()); !done) return raise(done.error());
    }
    auto* const object = PyObject_GC_New(ProgramObject, reinterpret_cast<PyTypeObject*>(program_type));
    if (object == nullptr) return nullptr;
    object->engine = engine.release();
    PyObject_GC_Track(object);
    return reinterpret_cast<PyObject*>(object);
  });
}

PyObject* open(PyObject*, PyObject*) {
  return guarded([]() -> PyObject* {
    Result<void> opened;
    {
      const ReleaseGil released;
      opened = open_device();
    }
    return opened ? none() : raise(opened.error());
  });
}

PyObject* trim(PyObject*, PyObject*) {
  {
    const ReleaseGil released;
    give_back_memory();
  }
  Py_RETURN_NONE;
}

PyObject* to_background(PyObject*, PyObject*) {
  become_background();
  Py_RETURN_NONE;
}

PyMethodDef functions[] = {
    {"compile", compile_file, METH_VARARGS,
     "compile(file, prefix): the observed calls of a recording as a Program; RuntimeError says why there is none."},
    {"open_device", open, METH_NOARGS, "Opens the device that compiled calls run on; its threads start here."},
    {"give_back_memory", trim, METH_NOARGS, "What was freed goes back to the system."},
    {"become_background", to_background, METH_NOARGS,
     "The calling thread gives way to all others of the machine, from now on."},
    {nullptr, nullptr, 0, nullptr},
};

}  // namespace

bool add_engine(PyObject* module) {
  if (program_type == nullptr) program_type = PyType_FromSpec(&type_spec);
  if (program_type == nullptr || PyModule_AddFunctions(module, functions) != 0) return false;
  return PyModule_AddObjectRef(module, "Program", program_type) == 0;
}

}  // namespace crucible::accelerate
