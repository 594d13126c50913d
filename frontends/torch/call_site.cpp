// Walks Python frames from the innermost one outwards. In-place reading is sound because a thread's frames change only
// while it runs Python code, and here it is inside one call into C++; a frame holds its code and its `self` alive.
#define Py_BUILD_CORE 1  // for the layout of _PyInterpreterFrame
#include "frontends/torch/call_site.hpp"

#if PY_VERSION_HEX >= 0x030B0000 && PY_VERSION_HEX < 0x030C0000
#include <internal/pycore_frame.h>
#define CRUCIBLE_READS_FRAMES 1
#else
#define CRUCIBLE_READS_FRAMES 0
#endif
#undef Py_BUILD_CORE

#include <c10/core/impl/LocalDispatchKeySet.h>

#include <algorithm>
#include <map>
#include <unordered_map>
#include <utility>

namespace crucible::recorder {

namespace {

/// Holds the GIL and sets the present Python exception aside. Code run under it may call back into Python.
class WithPython {
 public:
  WithPython() : gil_(PyGILState_Ensure()) { PyErr_Fetch(&type_, &value_, &traceback_); }
  ~WithPython() {
    PyErr_Restore(type_, value_, traceback_);
    PyGILState_Release(gil_);
  }
  WithPython(const WithPython&) = delete;

 private:
  PyGILState_STATE gil_;
  PyObject *type_ = nullptr, *value_ = nullptr, *traceback_ = nullptr;
};

std::string text_of(PyObject* object) {
  const char* text = object == nullptr ? nullptr : PyUnicode_AsUTF8(object);
  if (text == nullptr) PyErr_Clear();
  return text == nullptr ? "?" : text;
}

}  // namespace

struct CallSites::Tables {
  PyCodeObject* module_call = nullptr;  // owned, as are all pointers below
  PyObject* name_modules = nullptr;
  std::vector<std::string> framework_folders;
  std::unordered_map<PyCodeObject*, CodeKind> codes;
  std::map<std::pair<PyCodeObject*, int>, std::uint32_t> sites;  // its code objects are those of `codes`
  std::unordered_map<PyObject*, std::uint32_t> modules;
};

void CallSites::start(PyObject* module_call, std::vector<std::string> framework_folders, PyObject* name_modules,
                      Way way) {
  stop();
  sites_.clear();
  modules_.clear();
  ++generation_;
  way_ = way == Way::kInPlace && !CRUCIBLE_READS_FRAMES ? Way::kPublicApi : way;
  tables_ = new Tables;
  PyObject* code = PyObject_GetAttrString(module_call, "__code__");
  if (code == nullptr || !PyCode_Check(code)) {
    PyErr_Clear();
    Py_CLEAR(code);
  }
  tables_->module_call = reinterpret_cast<PyCodeObject*>(code);
  tables_->framework_folders = std::move(framework_folders);
  Py_INCREF(name_modules);
  tables_->name_modules = name_modules;
}

void CallSites::stop() {
  if (tables_ == nullptr) return;
  Tables* tables = std::exchange(tables_, nullptr);
  ++generation_;
  Py_XDECREF(tables->module_call);
  Py_XDECREF(tables->name_modules);
  for (auto& [code, kind] : tables->codes) Py_DECREF(code);
  for (auto& [module, id] : tables->modules) Py_DECREF(module);
  delete tables;
}

CallSites::CodeKind CallSites::kind_of(PyCodeObject* code) {
  if (tables_ == nullptr) return CodeKind::kFramework;
  const auto [place, is_new] = tables_->codes.try_emplace(code, CodeKind::kUser);
  if (is_new) {
    Py_INCREF(code);
    const std::string file = text_of(code->co_filename);
    if (code == tables_->module_call) {
      place->second = CodeKind::kModuleCall;
    } else if (file.starts_with("<frozen ")) {
      place->second = CodeKind::kFramework;
    } else {
      for (const std::string& folder : tables_->framework_folders) {
        if (file.starts_with(folder)) place->second = CodeKind::kFramework;
      }
    }
  }
  return place->second;
}

std::uint32_t CallSites::site_of(PyCodeObject* code, int instruction) {
  if (tables_ == nullptr) return kNoSite;
  kind_of(code);  // holds the code object
  const auto [place, is_new] = tables_->sites.try_emplace({code, instruction}, 0);
  if (is_new) {
    const int line = PyCode_Addr2Line(code, instruction);
    SourceLine source{text_of(code->co_filename), line < 0 ? 0u : static_cast<std::uint32_t>(line),
                      text_of(code->co_qualname)};
    std::uint32_t id = 0;
    while (id < sites_.size() && (sites_[id].line != source.line || sites_[id].file != source.file ||
                                  sites_[id].function != source.function)) {
      ++id;
    }
    if (id == sites_.size()) sites_.push_back(std::move(source));
    place->second = id;
  }
  return place->second;
}

std::uint32_t CallSites::module_of(PyObject* module, PyObject* outermost) {
  if (tables_ == nullptr) return kNoSite;
  if (const auto known = tables_->modules.find(module); known != tables_->modules.end()) return known->second;
  const auto add = [this](PyObject* object, std::string name) {
    const auto [place, is_new] = tables_->modules.try_emplace(object, static_cast<std::uint32_t>(modules_.size()));
    if (!is_new) return;
    Py_INCREF(object);
    modules_.push_back(std::move(name));
  };
  PyObject* names = PyObject_CallFunctionObjArgs(tables_->name_modules, outermost, nullptr);
  for (Py_ssize_t i = 0; names != nullptr && PyList_Check(names) && i < PyList_GET_SIZE(names); ++i) {
    PyObject* pair = PyList_GET_ITEM(names, i);
    if (PyTuple_Check(pair) && PyTuple_GET_SIZE(pair) == 2)
      add(PyTuple_GET_ITEM(pair, 0), text_of(PyTuple_GET_ITEM(pair, 1)));
  }
  Py_XDECREF(names);
  PyErr_Clear();
  add(module, Py_TYPE(module)->tp_name);  // a module that its root does not list
  return tables_->modules.at(module);
}

inline CallSites::CodeKind CallSiteCache::kind_of(CallSites& shared, PyCodeObject* code) {
  const std::uint32_t* known = codes_.find(code);
  return known != nullptr ? static_cast<CallSites::CodeKind>(*known) : learn_kind(shared, code);
}

CallSites::CodeKind CallSiteCache::learn_kind(CallSites& shared, PyCodeObject* code) {
  const WithPython python;
  const CallSites::CodeKind kind = shared.kind_of(code);
  codes_.remember(code, static_cast<std::uint32_t>(kind));
  return kind;
}

inline std::uint32_t CallSiteCache::site_of(CallSites& shared, PyCodeObject* code, const void* instruction) {
  const std::uint32_t* known = sites_.find(instruction);
  return known != nullptr ? *known : learn_site(shared, code, instruction);
}

void CallSiteCache::forget(std::uint32_t generation) {
  generation_ = generation;
  path_.length = 0;
  codes_.clear();
  sites_.clear();
  modules_.clear();
}

#if CRUCIBLE_READS_FRAMES

namespace {

/// The first argument of a frame of nn.Module.__call__, borrowed, or null.
PyObject* self_of(const _PyInterpreterFrame* frame) {
  PyObject* self = frame->f_code->co_argcount > 0 ? frame->localsplus[0] : nullptr;
  return self != nullptr && PyCell_Check(self) ? PyCell_GET(self) : self;
}

}  // namespace

std::uint32_t CallSiteCache::learn_site(CallSites& shared, PyCodeObject* code, const void* instruction) {
  const WithPython python;
  const auto offset = static_cast<const _Py_CODEUNIT*>(instruction) - _PyCode_CODE(code);
  return sites_.remember(instruction,
                         shared.site_of(code, static_cast<int>(offset) * static_cast<int>(sizeof(_Py_CODEUNIT))));
}

std::uint32_t CallSiteCache::module_of(CallSites& shared, PyObject* module, void* frame) {
  if (const std::uint32_t* known = modules_.find(module); known != nullptr) return *known;
  PyObject* outermost = module;
  for (auto* f = static_cast<_PyInterpreterFrame*>(frame); f != nullptr; f = f->previous) {
    if (kind_of(shared, f->f_code) == CallSites::CodeKind::kModuleCall && self_of(f) != nullptr) outermost = self_of(f);
  }
  const WithPython python;
  const c10::impl::ExcludeDispatchKeyGuard unrecorded(c10::DispatchKey::Fake);
  return modules_.remember(module, shared.module_of(module, outermost));
}

inline bool CallSiteCache::is_on_path(const void* innermost, bool want_module) const {
  const auto* frame = static_cast<const _PyInterpreterFrame*>(innermost);
  if (path_.length == 0 || path_.wanted_module != want_module) return false;
  for (const Step *step = path_.steps.data(), *const end = step + path_.length; step != end;
       ++step, frame = frame->previous) {
    if (frame != step->frame || frame->prev_instr != step->instruction) return false;
    if (step->module != nullptr && frame->localsplus[0] != step->module) return false;
  }
  return true;
}

CallSite CallSiteCache::find_in_frames(CallSites& shared, bool want_module) {
  const PyThreadState* thread = python_thread_ != nullptr ? python_thread_ : PyGILState_GetThisThreadState();
  if (thread == nullptr || thread->cframe == nullptr) return {};  // a thread of the framework: no Python below
  _PyInterpreterFrame* const innermost = thread->cframe->current_frame;
  if (is_on_path(innermost, want_module)) [[likely]] return path_.found;
  // Kept out of line: what is run for most ops stays short. A search that leads to no site, takes many steps or meets a
  // module that a cell holds is not remembered.
  const auto search = [this, &shared, innermost, want_module]() __attribute__((noinline)) {
    CallSite found;
    std::size_t steps = 0;
    bool is_plain = true;
    _PyInterpreterFrame* frame = innermost;
    for (; frame != nullptr; frame = frame->previous) {
      PyObject* self = nullptr;
      switch (kind_of(shared, frame->f_code)) {
        case CallSites::CodeKind::kFramework: break;
        case CallSites::CodeKind::kModuleCall:
          if (found.module != kNoSite) break;
          self = self_of(frame);
          is_plain &= self != nullptr && self == frame->localsplus[0];
          if (self != nullptr) found.module = module_of(shared, self, frame);
          break;
        case CallSites::CodeKind::kUser:
          if (found.site == kNoSite) found.site = site_of(shared, frame->f_code, frame->prev_instr);
          break;
      }
      if (steps < kMostSteps) path_.steps[steps] = {frame, frame->prev_instr, self};
      ++steps;
      if (found.site != kNoSite && (found.module != kNoSite || !want_module)) break;
    }
    path_.length = frame != nullptr && is_plain && steps <= kMostSteps ? steps : 0;
    path_.wanted_module = want_module;
    path_.found = found;
    return found;
  };
  return search();
}

#else

std::uint32_t CallSiteCache::learn_site(CallSites&, PyCodeObject*, const void*) { return kNoSite; }
std::uint32_t CallSiteCache::module_of(CallSites&, PyObject*, void*) { return kNoSite; }
CallSite CallSiteCache::find_in_frames(CallSites&, bool) { return {}; }

#endif

CallSite CallSiteCache::find_with_api(CallSites& shared, bool want_module) {
  CallSite found;
  if (PyGILState_GetThisThreadState() == nullptr) return found;
  const WithPython python;
  PyObject* innermost = nullptr;
  PyObject* outermost = nullptr;
  PyFrameObject* frame = PyThreadState_GetFrame(PyThreadState_Get());
  while (frame != nullptr) {
    PyCodeObject* code = PyFrame_GetCode(frame);
    const CallSites::CodeKind kind = shared.kind_of(code);
    if (kind == CallSites::CodeKind::kUser && found.site == kNoSite)
      found.site = shared.site_of(code, PyFrame_GetLasti(frame));
    if (kind == CallSites::CodeKind::kModuleCall && (found.site == kNoSite || want_module)) {
      PyObject* locals = PyObject_GetAttrString(reinterpret_cast<PyObject*>(frame), "f_locals");
      PyObject* self = locals == nullptr ? nullptr : PyMapping_GetItemString(locals, "self");
      Py_XDECREF(locals);
      if (self == nullptr) {
        PyErr_Clear();
      } else {
        if (innermost == nullptr) innermost = Py_NewRef(self);
        Py_XSETREF(outermost, self);
      }
    }
    Py_DECREF(code);
    if (found.site != kNoSite && !want_module) Py_CLEAR(frame);
    if (frame != nullptr) Py_SETREF(frame, PyFrame_GetBack(frame));
  }
  if (innermost != nullptr) {
    const c10::impl::ExcludeDispatchKeyGuard unrecorded(c10::DispatchKey::Fake);
    found.module = shared.module_of(innermost, outermost);
  }
  Py_XDECREF(innermost);
  Py_XDECREF(outermost);
  return found;
}

}  // namespace crucible::recorder
