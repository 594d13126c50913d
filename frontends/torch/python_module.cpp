// The extension module crucible_torch._recorder: what Python's hooks call. Plain CPython functions, because a call
// through the framework's own operators costs microseconds. The policy (when to start, what is an iteration, what goes
// into the file's metadata) is Python's: package/crucible_torch/session.py.
#include <ATen/Functions.h>
#include <Python.h>
#include <torch/csrc/autograd/python_variable.h>

#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

#include <exception>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/trace/trace_file.hpp"
#include "core/trace/unrecorded.hpp"
#include "core/trace/values_returned.hpp"
#include "frontends/torch/interrupts.hpp"
#include "frontends/torch/kernels.hpp"
#include "frontends/torch/python_hooks.hpp"
#include "frontends/torch/recorder.hpp"
#include "frontends/torch/trace_stream.hpp"

namespace crucible::recorder {

namespace {

/// Runs `body`, which returns a new reference; an exception becomes Python's RuntimeError.
template <class Body>
PyObject* guarded(Body body) {
  try {
    return body();
  } catch (const std::exception& error) {
    PyErr_SetString(PyExc_RuntimeError, error.what());
    return nullptr;
  }
}

PyObject* none() { Py_RETURN_NONE; }

PyObject* install(PyObject*, PyObject* args) {
  const char* name = nullptr;
  if (PyArg_ParseTuple(args, "s", &name) == 0) return nullptr;
  return guarded([name] {
    const std::string path = name;
    const Path chosen = path == "boxed"             ? Path::kBoxed
                        : path == "per_op"          ? Path::kPerOp
                        : path == "record_function" ? Path::kRecordFunction
                        : path == "scout"           ? Path::kScout
                                                    : Path::kTyped;
    return PyUnicode_FromString(install_kernels(chosen).c_str());
  });
}

PyObject* uninstall(PyObject*, PyObject*) {
  return guarded([] {
    uninstall_kernels();
    return none();
  });
}

/// Runs one operator with the key on and tells whether the recorder saw it.
PyObject* self_test(PyObject*, PyObject*) {
  return guarded([] {
    Recorder& recorder = Recorder::instance();
    const at::Tensor one = at::ones({1});
    recorder.start();
    try {
      (void)at::neg(one);
    } catch (const std::exception&) {  // a kernel of somebody else's on our key: the op is not seen
    }
    recorder.stop();
    const bool seen = recorder.state().next_sequence > 0 && recorder.state().open.externals.size() == 1;
    recorder.clear();
    return PyBool_FromLong(seen ? 1 : 0);
  });
}

PyObject* start(PyObject*, PyObject* args) {
  PyObject *module_call = nullptr, *folders = nullptr, *name_modules = nullptr;
  int way = 1;
  if (PyArg_ParseTuple(args, "OO!Oi", &module_call, &PyList_Type, &folders, &name_modules, &way) == 0) return nullptr;
  std::vector<std::string> framework_folders;
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(folders); ++i) {
    const char* folder = PyUnicode_AsUTF8(PyList_GET_ITEM(folders, i));
    if (folder == nullptr) return nullptr;
    framework_folders.emplace_back(folder);
  }
  return guarded([&] {
    Recorder& recorder = Recorder::instance();
    recorder.call_sites().start(module_call, std::move(framework_folders), name_modules,
                                way == 0   ? CallSites::Way::kPublicApi
                                : way == 1 ? CallSites::Way::kInPlace
                                           : CallSites::Way::kNot);
    recorder.start();
    return none();
  });
}

PyObject* end_iteration(PyObject*, PyObject*) {
  return guarded([] {
    const bool kept = Recorder::instance().end_iteration();
    if (kept) cover_late_operators();
    return PyBool_FromLong(kept ? 1 : 0);
  });
}

PyObject* stop(PyObject*, PyObject*) {
  return guarded([] {
    Recorder::instance().stop();
    Recorder::instance().call_sites().stop();
    return none();
  });
}

PyObject* clear(PyObject*, PyObject*) {
  return guarded([] {
    Recorder::instance().clear();
    return none();
  });
}

PyObject* set_phase(PyObject*, PyObject* const* args, Py_ssize_t count) {
  const long phase = count == 1 ? PyLong_AsLong(args[0]) : -1;
  if (phase < 0 || phase > 2) {
    if (PyErr_Occurred() == nullptr)
      PyErr_SetString(PyExc_ValueError, "a phase is 0 (forward), 1 (backward) or 2 (optimizer)");
    return nullptr;
  }
  const trace::Phase before = Recorder::instance().phase();
  Recorder::instance().set_phase(static_cast<trace::Phase>(phase));
  return PyLong_FromLong(static_cast<long>(before));
}

PyObject* name_tensor(PyObject*, PyObject* args) {
  PyObject* tensor = nullptr;
  const char* name = nullptr;
  int role = 0, final = 0, is_live = 0;
  if (PyArg_ParseTuple(args, "Osip|p", &tensor, &name, &role, &final, &is_live) == 0) return nullptr;
  return guarded([&] {
    if (THPVariable_Check(tensor) && role >= 0 && role <= static_cast<int>(trace::Role::kInput)) {
      Recorder::instance().name_tensor(THPVariable_Unpack(tensor), name, static_cast<trace::Role>(role), final != 0,
                                       is_live != 0);
    }
    return none();
  });
}

PyObject* leave_out(PyObject*, PyObject*) {
  Recorder::instance().leave_out();
  Py_RETURN_NONE;
}

/// pause(), resume(), pass_over(), join_thread(), leave_thread(): calls the recorder's method of that name.
template <void (Recorder::*kMethod)()>
PyObject* call_recorder(PyObject*, PyObject*) {
  return guarded([] {
    (Recorder::instance().*kMethod)();
    return none();
  });
}

PyObject* joined_threads(PyObject*, PyObject*) {
  return PyLong_FromUnsignedLong(Recorder::instance().joined_threads());
}

PyObject* ops_of_iteration(PyObject*, PyObject*) {
  return PyLong_FromUnsignedLongLong(Recorder::instance().ops_of_iteration());
}

PyObject* add_output(PyObject*, PyObject* args) {
  PyObject* tensor = nullptr;
  const char* name = nullptr;
  if (PyArg_ParseTuple(args, "sO", &name, &tensor) == 0) return nullptr;
  return guarded([&] {
    if (THPVariable_Check(tensor)) Recorder::instance().add_output(name, THPVariable_Unpack(tensor));
    return none();
  });
}

PyObject* watch(PyObject*, PyObject* args) {
  int signal = 0, replace_default = 0;
  if (PyArg_ParseTuple(args, "ip", &signal, &replace_default) == 0) return nullptr;
  return PyBool_FromLong(watch_signal(signal, replace_default != 0) ? 1 : 0);
}

PyObject* arrived(PyObject*, PyObject* signal) {
  const long number = PyLong_AsLong(signal);
  if (number == -1 && PyErr_Occurred() != nullptr) return nullptr;
  return PyBool_FromLong(signal_arrived(static_cast<int>(number)) ? 1 : 0);
}

PyObject* unwatch(PyObject*, PyObject* signal) {
  const long number = PyLong_AsLong(signal);
  if (number == -1 && PyErr_Occurred() != nullptr) return nullptr;
  unwatch_signal(static_cast<int>(number));
  Py_RETURN_NONE;
}

/// What the file says of values that left and came back, in words; "" when none did, or it cannot be read.
std::string values_returned(const char* path) {
  const Result<trace::Trace> trace = trace::read_file(path);
  if (!trace) return "";
  const std::optional<trace::ValuesReturned> found = trace::values_returned(*trace);
  return found ? found->text : "";
}

/// {"iterations", "ops", "ops_per_iteration", "overhead_ns_per_op", "not_recorded", "values_returned"} of a written
/// file.
PyObject* summary_of(const Written& written, std::uint64_t overhead_ns_per_op, const std::string& returned) {
  PyObject* counts = PyList_New(0);
  unsigned long long ops = 0;
  for (const std::uint64_t in_iteration : written.ops_per_iteration) {
    PyObject* count = PyLong_FromUnsignedLongLong(in_iteration);
    PyList_Append(counts, count);
    Py_XDECREF(count);
    ops += in_iteration;
  }
  PyObject* not_recorded = PyList_New(0);
  for (const Written::NotRecorded& item : written.not_recorded) {
    PyObject* entry = Py_BuildValue("{s:s,s:K,s:s}", "what", item.what.c_str(), "count",
                                    static_cast<unsigned long long>(item.count), "site", item.site.c_str());
    if (entry != nullptr) PyList_Append(not_recorded, entry);
    Py_XDECREF(entry);
  }
  return Py_BuildValue("{s:n,s:K,s:N,s:K,s:N,s:s}", "iterations",
                       static_cast<Py_ssize_t>(written.ops_per_iteration.size()), "ops", ops, "ops_per_iteration",
                       counts, "overhead_ns_per_op", static_cast<unsigned long long>(overhead_ns_per_op),
                       "not_recorded", not_recorded, "values_returned", returned.c_str());
}

/// The texts of a list of Python's; other things in it are passed over.
std::vector<std::string> texts_of(PyObject* list) {
  std::vector<std::string> texts;
  for (Py_ssize_t i = 0; PyList_Check(list) && i < PyList_GET_SIZE(list); ++i) {
    const char* text = PyUnicode_Check(PyList_GET_ITEM(list, i)) ? PyUnicode_AsUTF8(PyList_GET_ITEM(list, i)) : nullptr;
    if (text != nullptr) texts.emplace_back(text);
  }
  PyErr_Clear();
  return texts;
}

/// What write() and stream_to() are called with, `paths` being (folders, last folders, user) or None
/// (crucible_torch/paths.py); false when an exception is set.
bool parse_metadata(PyObject* args, const char*& path, trace::Metadata& metadata,
                    std::optional<trace::PathShortener>& paths) {
  const char *framework = nullptr, *frontend = nullptr, *command = nullptr, *created = nullptr, *reason = nullptr;
  unsigned int warmup = 0;
  int rank = -1, world_size = 1;
  const char* precision = "";
  PyObject* known = nullptr;
  if (PyArg_ParseTuple(args, "ssssssI|iiOs", &path, &framework, &frontend, &command, &created, &reason, &warmup, &rank,
                       &world_size, &known, &precision) == 0) {
    return false;
  }
  PyObject *folders = nullptr, *last = nullptr;
  const char* user = nullptr;
  if (known != nullptr && known != Py_None) {
    if (PyArg_ParseTuple(known, "O!O!s", &PyList_Type, &folders, &PyList_Type, &last, &user) == 0) return false;
    paths.emplace(texts_of(folders), texts_of(last), user);
  }
  metadata.framework = framework;
  metadata.frontend = frontend;
  metadata.command = command;
  metadata.created = created;
  metadata.incomplete_reason = reason;
  metadata.warmup_iterations = warmup;
  metadata.precision = precision;
  if (rank >= 0) {
    metadata.rank = static_cast<std::uint32_t>(rank);
    metadata.world_size = static_cast<std::uint32_t>(world_size);
  }
  return true;
}

PyObject* stream_to(PyObject*, PyObject* args) {
  const char* path = nullptr;
  trace::Metadata metadata;
  std::optional<trace::PathShortener> paths;
  if (!parse_metadata(args, path, metadata, paths)) return nullptr;
  return guarded([&]() -> PyObject* {
    Recorder& recorder = Recorder::instance();
    Result<std::unique_ptr<TraceStream>> stream = TraceStream::create(recorder, path, metadata, std::move(paths));
    if (!stream) {
      PyErr_SetString(PyExc_RuntimeError, stream.error().message.c_str());
      return nullptr;
    }
    recorder.stream_to(std::move(*stream));
    return none();
  });
}

PyObject* write(PyObject* self, PyObject* args) {
  const char* path = nullptr;
  trace::Metadata metadata;
  std::optional<trace::PathShortener> paths;  // the stream has its own
  if (!parse_metadata(args, path, metadata, paths)) return nullptr;
  Recorder& recorder = Recorder::instance();
  if (recorder.stream() == nullptr) {
    PyObject* opened = stream_to(self, args);
    if (opened == nullptr) return nullptr;
    Py_DECREF(opened);
  }
  return guarded([&]() -> PyObject* {
    const Result<Written> written = recorder.stream()->finish(std::move(metadata));
    if (!written) {
      PyErr_SetString(PyExc_RuntimeError, written.error().message.c_str());
      return nullptr;
    }
    return summary_of(*written, recorder.overhead_ns_per_op(), recorder.leaves_out() ? "" : values_returned(path));
  });
}

PyObject* snapshot_ops(PyObject*, PyObject* on) {
  const int wanted = PyObject_IsTrue(on);
  if (wanted < 0) return nullptr;
  Recorder::instance().hash_ops(wanted != 0);
  Py_RETURN_NONE;
}

PyObject* flushes_denormals(PyObject*, PyObject*) {
#if defined(__x86_64__)
  constexpr unsigned int kFlushes =
      0x8040;  // results to zero, operands as zero: what torch.set_flush_denormal switches
  return PyBool_FromLong((_mm_getcsr() & kFlushes) != 0 ? 1 : 0);
#else
  Py_RETURN_FALSE;
#endif
}

PyObject* note_setting(PyObject*, PyObject* words) {
  const char* text = PyUnicode_AsUTF8(words);
  if (text == nullptr) return nullptr;
  return guarded([text] {
    Recorder& recorder = Recorder::instance();
    const Locked locked(recorder.lock(), Recorder::me());
    recorder.count_not_recorded(text, kNoSite);
    return none();
  });
}

PyObject* note_unseen(PyObject*, PyObject* args) {
  const char *before = nullptr, *after = nullptr;
  if (PyArg_ParseTuple(args, "ss", &before, &after) == 0) return nullptr;
  return guarded([before, after] {
    Recorder& recorder = Recorder::instance();
    const CallSite call = recorder.thread().call_sites.find(recorder.call_sites(), false);
    const Locked locked(recorder.lock(), Recorder::me());
    recorder.count_not_recorded(trace::changed_memory_text(before, after, ""), call.site);
    return none();
  });
}

PyObject* measures(PyObject*, PyObject*) {
  return guarded([] {
    const Recorder& recorder = Recorder::instance();
    const Measures measures = recorder.measures();
    const TraceStream* stream = recorder.stream();
    const std::optional<std::string> failure = stream == nullptr ? std::nullopt : stream->failure();
    return Py_BuildValue(
        "{s:K,s:K,s:K,s:K,s:K,s:K,s:n,s:n,s:i,s:i,s:z}", "waits",
        static_cast<unsigned long long>(stream == nullptr ? 0 : stream->waits()), "wait_ns",
        static_cast<unsigned long long>(stream == nullptr ? 0 : stream->wait_ns()), "ops",
        static_cast<unsigned long long>(measures.ops), "overhead_ns_per_op",
        static_cast<unsigned long long>(measures.overhead_ns_per_op), "copy_ns",
        static_cast<unsigned long long>(measures.copy_ns), "boundary_ns",
        static_cast<unsigned long long>(measures.boundary_ns), "log_bytes", static_cast<Py_ssize_t>(measures.log_bytes),
        "copied_bytes", static_cast<Py_ssize_t>(measures.copied_bytes), "complete_iterations",
        static_cast<int>(measures.complete_iterations), "passed_over", static_cast<int>(measures.passed_over),
        "failure", failure.has_value() ? failure->c_str() : nullptr);
  });
}

PyMethodDef functions[] = {
    {"install", install, METH_VARARGS,
     "install('typed' | 'boxed' | 'per_op' | 'record_function'): registers the kernels; returns what was installed."},
    {"uninstall", uninstall, METH_NOARGS, "Takes the kernels back."},
    {"self_test", self_test, METH_NOARGS, "Whether an op with the key on is seen; the kernels must be installed."},
    {"start", start, METH_VARARGS,
     "start(Module.__call__, framework folders, name_modules, how call sites are read: 0 public API, 1 in place, 2 not "
     "at all):\n"
     "the first iteration begins."},
    {"end_iteration", end_iteration, METH_NOARGS,
     "The next iteration begins. False: recording was switched off meanwhile."},
    {"stop", stop, METH_NOARGS, "Switches recording off."},
    {"clear", clear, METH_NOARGS, "Forgets what was recorded."},
    {"set_phase", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(set_phase)), METH_FASTCALL,
     "set_phase(0 forward | 1 backward | 2 optimizer): returns what it was."},
    {"name_tensor", name_tensor, METH_VARARGS,
     "name_tensor(tensor, name, role, final, is_live=False): what its storage is to the program; of one that is live "
     "the\n"
     "file has no bytes."},
    {"leave_out", leave_out, METH_NOARGS, "Bytes of outputs and of what random ops draw are not kept."},
    {"pause", call_recorder<&Recorder::pause>, METH_NOARGS, "Ops pass unseen until resume()."},
    {"resume", call_recorder<&Recorder::resume>, METH_NOARGS, "Ends a pause."},
    {"take_over", call_recorder<&Recorder::take_over>, METH_NOARGS,
     "In a pause: the calling thread is the one that is recorded from resume() on."},
    {"pass_over", call_recorder<&Recorder::pass_over>, METH_NOARGS, "The present iteration is left out of the file."},
    {"join_thread", call_recorder<&Recorder::join_thread>, METH_NOARGS, "Records the calling thread too."},
    {"leave_thread", call_recorder<&Recorder::leave_thread>, METH_NOARGS, "Ends that."},
    {"joined_threads", joined_threads, METH_NOARGS, "How many threads have joined and not left."},
    {"ops_of_iteration", ops_of_iteration, METH_NOARGS,
     "How many ops the iteration that is running has so far, but for those that only read."},
    {"add_output", add_output, METH_VARARGS, "add_output(name, tensor): what the present iteration gave back."},
    {"watch_signal", watch, METH_VARARGS,
     "watch_signal(number, replace_default): notes it; the handler that was there is called."},
    {"signal_arrived", arrived, METH_O, "Whether a watched signal has arrived."},
    {"unwatch_signal", unwatch, METH_O, "Puts the former handler back."},
    {"stream_to", stream_to, METH_VARARGS,
     "stream_to(path, framework, frontend, command, created, incomplete_reason, warmup, "
     "rank or -1, world size): writes from now on, at each iteration's end."},
    {"write", write, METH_VARARGS,
     "write(path, framework, frontend, command, created, incomplete_reason, warmup, rank or -1, world size): the "
     "file."},
    {"snapshot_ops", snapshot_ops, METH_O,
     "snapshot_ops(bool): whether a hash of each op's results is kept from now on."},
    {"flushes_denormals", flushes_denormals, METH_NOARGS, "Whether the calling thread's denormal numbers become zero."},
    {"note_unseen", note_unseen, METH_VARARGS,
     "note_unseen(before, after): something that is no op may have changed memory between the two, at this line."},
    {"note_setting", note_setting, METH_O,
     "note_setting(words): a setting that a replay does not follow, for the file."},
    {"measures", measures, METH_NOARGS, "Counts and times so far."},
    {nullptr, nullptr, 0, nullptr},
};

PyModuleDef module_definition{PyModuleDef_HEAD_INIT,
                              "crucible_torch._recorder",
                              "Records what a PyTorch program executes; see docs/recording.md.",
                              -1,
                              functions,
                              nullptr,
                              nullptr,
                              nullptr,
                              nullptr};

}  // namespace

}  // namespace crucible::recorder

PyMODINIT_FUNC PyInit__recorder() {
  PyObject* module = PyModule_Create(&crucible::recorder::module_definition);
  if (module != nullptr) PyModule_AddFunctions(module, crucible::recorder::hook_functions);
  if (module != nullptr) PyModule_AddStringConstant(module, "built_for_torch", CRUCIBLE_TORCH_VERSION);
  return module;
}
