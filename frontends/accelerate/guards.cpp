// Watching Python's containers and finding the first difference. A dict is passed by its version tag (PEP 509) where
// Python has one, a class by its own; only what moved is compared, and what was equal after all is passed again.
#include "frontends/accelerate/guards.hpp"

#include <algorithm>
#include <utility>

namespace crucible::accelerate {

namespace {

#if PY_VERSION_HEX < 0x030D0000
#if defined(__GNUC__)
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"  // 3.12 says that the tag will go: 3.13 has another branch
#endif
std::uint64_t tag_of(PyObject* dict) { return reinterpret_cast<PyDictObject*>(dict)->ma_version_tag; }
bool passes(PyObject* dict, std::uint64_t tag) { return tag_of(dict) == tag; }
/// A borrowed reference, or null; the key's hash is known, so no code of the key's class runs.
PyObject* value_of(PyObject* dict, PyObject* key, Py_hash_t hash) { return _PyDict_GetItem_KnownHash(dict, key, hash); }
#else
std::uint64_t tag_of(PyObject*) { return 0; }
bool passes(PyObject*, std::uint64_t) { return false; }
PyObject* value_of(PyObject* dict, PyObject* key, Py_hash_t) { return PyDict_GetItemWithError(dict, key); }
#endif

unsigned int version_of(PyTypeObject* type) {
  return PyType_HasFeature(type, Py_TPFLAGS_VALID_VERSION_TAG) != 0 ? type->tp_version_tag : 0;
}

/// Where the object's `__dict__` is kept, at an address that stays; null where it has none that can be watched.
PyObject** dict_place(PyObject* object) {
#if PY_VERSION_HEX < 0x030D0000
  PyObject** place = _PyObject_GetDictPtr(object);
  return place != nullptr && *place != nullptr ? place : nullptr;
#else
  (void)object;
  return nullptr;  // the dicts of 3.13 are found by PyObject_GenericGetDict alone, see type_difference
#endif
}

PyObject* kept(PyObject* object) {
  Py_XINCREF(object);
  return object;
}

std::string key_text(PyObject* key) {
  if (!PyUnicode_CheckExact(key) && !PyLong_CheckExact(key)) return std::string("a ") + Py_TYPE(key)->tp_name;
  PyObject* shown = PyObject_Repr(key);
  const char* text = shown == nullptr ? nullptr : PyUnicode_AsUTF8(shown);
  std::string words = text == nullptr ? "?" : text;
  Py_XDECREF(shown);
  PyErr_Clear();
  return words;
}

/// "net.training" for an attribute's dict ("net.__dict__"), "table['a']" for any other.
std::string place(const std::string& path, PyObject* key) {
  constexpr const char* kSuffix = ".__dict__";
  const std::string suffix = kSuffix;
  if (path.ends_with(suffix) && PyUnicode_CheckExact(key)) {
    const char* name = PyUnicode_AsUTF8(key);
    if (name != nullptr) return path.substr(0, path.size() - suffix.size()) + "." + name;
    PyErr_Clear();
  }
  return path + "[" + key_text(key) + "]";
}

bool same_key(PyObject* then, PyObject* now) { return same(then, now, Mode{}); }

bool is_ordered(PyObject* dict) { return PyODict_Check(dict) && PyDict_GET_SIZE(dict) > 1; }

bool fail(const char* path, const char* wanted, PyObject* got) {
  PyErr_Format(PyExc_TypeError, "%s is no %s but a %s", path, wanted, Py_TYPE(got)->tp_name);
  return false;
}

std::vector<PyObject*> kept_elements(PyObject* sequence) {
  std::vector<PyObject*> elements;
  PyObject* fast = PySequence_Fast(sequence, "not a sequence");
  if (fast == nullptr) return elements;
  for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(fast); ++i) {
    elements.push_back(kept(PySequence_Fast_GET_ITEM(fast, i)));
  }
  Py_DECREF(fast);
  return elements;
}

void release(std::vector<PyObject*>& objects) {
  for (PyObject* object : objects) Py_XDECREF(object);
  objects.clear();
}

}  // namespace

Guards::DictWatch* Guards::dict_watch(PyObject* dict, const char* path) {
  if (!PyDict_Check(dict)) {
    fail(path, "dict", dict);
    return nullptr;
  }
  const auto [found, fresh] = index_of_dict_.try_emplace(dict, dicts_.size());
  if (fresh) {
    dicts_.push_back({.path = path, .entries = {}, .keys = {}});
    tags_.push_back({.dict = kept(dict), .tag = tag_of(dict)});
  }
  return &dicts_[found->second];
}

bool Guards::watch_dict(PyObject* dict, const char* path, PyObject* modes) {
  if (!PyDict_Check(modes)) return fail("modes", "dict", modes);
  DictWatch* watch = dict_watch(dict, path);
  if (watch == nullptr) return false;
  PyObject *key = nullptr, *name = nullptr;
  Py_ssize_t at = 0;
  while (PyDict_Next(modes, &at, &key, &name) != 0) {
    Mode mode;
    if (!parse_mode(name, mode)) return false;
    if (mode.kind == Mode::Kind::kSkip) continue;
    const Py_hash_t hash = PyObject_Hash(key);
    if (hash == -1) return false;
    PyObject* value = value_of(dict, key, hash);
    if (value == nullptr && PyErr_Occurred() != nullptr) return false;
    watch->entries.push_back({.key = kept(key), .hash = hash, .value = kept(value), .mode = std::move(mode)});
  }
  return true;
}

bool Guards::watch_keys(PyObject* dict, const char* path) {
  DictWatch* watch = dict_watch(dict, path);
  if (watch == nullptr) return false;
  if (watch->all_keys) return true;
  PyObject* keys = PyODict_Check(dict) ? PySequence_List(dict) : PyDict_Keys(dict);
  if (keys == nullptr) return false;
  watch->keys = kept_elements(keys);
  Py_DECREF(keys);
  watch->all_keys = true;
  watch->ordered = is_ordered(dict);
  if (watch->ordered) ordered_.push_back(index_of_dict_.at(dict));
  return PyErr_Occurred() == nullptr;
}

bool Guards::watch_list(PyObject* list, const char* path, const Mode& mode) {
  if (!PyList_Check(list)) return fail(path, "list", list);
  lists_.push_back({.list = kept(list), .elements = kept_elements(list), .mode = mode, .path = path});
  return true;
}

bool Guards::watch_set(PyObject* set, const char* path) {
  if (!PyAnySet_Check(set)) return fail(path, "set", set);
  PyObject* copy = PyFrozenSet_New(set);
  if (copy == nullptr) return false;
  sets_.push_back({.set = kept(set), .copy = copy, .path = path});
  return true;
}

bool Guards::watch_cell(PyObject* cell, const char* path, const Mode& mode) {
  if (!PyCell_Check(cell)) return fail(path, "cell", cell);
  cells_.push_back({.cell = kept(cell), .value = kept(PyCell_GET(cell)), .mode = mode, .path = path});
  return true;
}

bool Guards::watch_function(PyObject* function, const char* path) {
  if (!PyFunction_Check(function)) return fail(path, "function", function);
  const auto* parts = reinterpret_cast<PyFunctionObject*>(function);
  functions_.push_back({.function = kept(function),
                        .code = kept(parts->func_code),
                        .defaults = kept(parts->func_defaults),
                        .keyword_defaults = kept(parts->func_kwdefaults),
                        .path = path});
  return true;
}

bool Guards::watch_type(PyObject* object, const char* path) {
  PyObject* dict = PyObject_GenericGetDict(object, nullptr);  // makes it where it is made late
  if (dict == nullptr) PyErr_Clear();
  types_.push_back({.object = kept(object),
                    .type = reinterpret_cast<PyTypeObject*>(kept(reinterpret_cast<PyObject*>(Py_TYPE(object)))),
                    .dict_place = dict == nullptr ? nullptr : dict_place(object),
                    .dict = dict,
                    .path = path});
  return true;
}

bool Guards::watch_class(PyObject* type, const char* path, PyObject* names) {
  if (!PyType_Check(type)) return fail(path, "class", type);
  PyObject* list = PySequence_List(names);
  if (list == nullptr) return false;
  ClassWatch watch{.type = reinterpret_cast<PyTypeObject*>(kept(type)), .version = 0, .entries = {}, .path = path};
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(list); ++i) {
    PyObject* name = PyList_GET_ITEM(list, i);
    if (!PyUnicode_Check(name)) continue;
    PyObject* value = _PyType_Lookup(watch.type, name);
    watch.entries.push_back({.key = kept(name), .hash = 0, .value = kept(value), .mode = Mode{}});
  }
  Py_DECREF(list);
  watch.version = version_of(watch.type);
  classes_.push_back(std::move(watch));
  return true;
}

void Guards::watch_state() { state_ = TorchState::now(); }

std::optional<std::string> Guards::keys_difference(std::size_t index) const {
  const DictWatch& watch = dicts_[index];
  PyObject* dict = tags_[index].dict;
  std::size_t next = 0;
  if (PyODict_Check(dict)) {  // its order is its own, not that of the dict below
    if (static_cast<std::size_t>(PyDict_GET_SIZE(dict)) == watch.keys.size() && watch.keys.empty()) return std::nullopt;
    PyObject* keys = PySequence_List(dict);
    if (keys == nullptr) return std::nullopt;
    std::optional<std::string> found;
    const auto size = static_cast<std::size_t>(PyList_GET_SIZE(keys));
    for (; next < size && !found; ++next) {
      PyObject* key = PyList_GET_ITEM(keys, static_cast<Py_ssize_t>(next));
      if (next >= watch.keys.size() || !same_key(watch.keys[next], key)) {
        found = place(watch.path, key) + ": was not at this place";
      }
    }
    Py_DECREF(keys);
    if (found) return found;
  } else {
    PyObject *key = nullptr, *value = nullptr;
    Py_ssize_t at = 0;
    for (; PyDict_Next(dict, &at, &key, &value) != 0; ++next) {
      if (next >= watch.keys.size() || !same_key(watch.keys[next], key)) {
        return place(watch.path, key) + ": was not at this place";
      }
    }
  }
  if (next < watch.keys.size()) return place(watch.path, watch.keys[next]) + ": was there, is not there";
  return std::nullopt;
}

std::optional<std::string> Guards::dict_difference(std::size_t index) {
  DictTag& tag = tags_[index];
  const std::uint64_t now = tag_of(tag.dict);
  for (const Entry& entry : dicts_[index].entries) {
    PyObject* value = value_of(tag.dict, entry.key, entry.hash);
    if (!same(entry.value, value, entry.mode)) {
      return place(dicts_[index].path, entry.key) + ": " + in_words(entry.value, value);
    }
  }
  if (dicts_[index].all_keys) {
    if (std::optional<std::string> found = keys_difference(index)) return found;
  }
  tag.tag = now;
  return std::nullopt;
}

std::optional<std::string> Guards::list_difference(const ListWatch& watch) const {
  const auto size = static_cast<std::size_t>(PyList_GET_SIZE(watch.list));
  for (std::size_t i = 0; i < std::min(size, watch.elements.size()); ++i) {
    PyObject* now = PyList_GET_ITEM(watch.list, static_cast<Py_ssize_t>(i));
    if (!same(watch.elements[i], now, watch.mode)) {
      return watch.path + "[" + std::to_string(i) + "]: " + in_words(watch.elements[i], now);
    }
  }
  if (size == watch.elements.size()) return std::nullopt;
  return watch.path + ": had " + std::to_string(watch.elements.size()) + " elements, has " + std::to_string(size);
}

std::optional<std::string> Guards::set_difference(const SetWatch& watch) const {
  if (PySet_GET_SIZE(watch.set) == PySet_GET_SIZE(watch.copy)) {
    PyObject* more = PyObject_CallMethod(watch.copy, "issuperset", "O", watch.set);
    const bool equal = more == Py_True;
    Py_XDECREF(more);
    PyErr_Clear();
    if (equal) return std::nullopt;
  }
  return watch.path + ": other elements than before";
}

std::optional<std::string> Guards::function_difference(const FunctionWatch& watch) const {
  const auto* now = reinterpret_cast<PyFunctionObject*>(watch.function);
  if (now->func_code != watch.code) return watch.path + ".__code__: was replaced";
  if (!same(watch.defaults, now->func_defaults, Mode{})) {
    return watch.path + ".__defaults__: " + in_words(watch.defaults, now->func_defaults);
  }
  if (now->func_kwdefaults != watch.keyword_defaults) return watch.path + ".__kwdefaults__: was replaced";
  return std::nullopt;
}

std::optional<std::string> Guards::type_difference(const TypeWatch& watch) const {
  if (Py_TYPE(watch.object) != watch.type) {
    return watch.path + ".__class__: was " + watch.type->tp_name + ", is " + Py_TYPE(watch.object)->tp_name;
  }
  if (watch.dict == nullptr) return std::nullopt;
  PyObject* dict = watch.dict_place != nullptr ? *watch.dict_place : PyObject_GenericGetDict(watch.object, nullptr);
  const bool same_dict = dict == watch.dict;
  if (watch.dict_place == nullptr) Py_XDECREF(dict);
  if (same_dict) return std::nullopt;
  PyErr_Clear();
  return watch.path + ".__dict__: was replaced";
}

std::optional<std::string> Guards::class_difference(ClassWatch& watch) const {
  for (const Entry& entry : watch.entries) {
    PyObject* value = _PyType_Lookup(watch.type, entry.key);
    if (!same(entry.value, value, entry.mode)) {
      return watch.path + "." + PyUnicode_AsUTF8(entry.key) + ": " + in_words(entry.value, value);
    }
  }
  watch.version = version_of(watch.type);
  return std::nullopt;
}

std::optional<std::string> Guards::containers_difference() {
  for (const ListWatch& watch : lists_) {
    if (auto found = list_difference(watch)) return found;
  }
  for (const SetWatch& watch : sets_) {
    if (auto found = set_difference(watch)) return found;
  }
  for (const CellWatch& watch : cells_) {
    PyObject* now = PyCell_GET(watch.cell);
    if (!same(watch.value, now, watch.mode)) return watch.path + ": " + in_words(watch.value, now);
  }
  for (const FunctionWatch& watch : functions_) {
    if (auto found = function_difference(watch)) return found;
  }
  for (const TypeWatch& watch : types_) {
    if (auto found = type_difference(watch)) return found;
  }
  for (ClassWatch& watch : classes_) {
    if (watch.version != 0 && version_of(watch.type) == watch.version) continue;
    if (auto found = class_difference(watch)) return found;
  }
  return std::nullopt;
}

std::optional<std::string> Guards::check() {
  if (state_) {
    if (auto found = TorchState::now().difference(*state_)) return found;
  }
  constexpr std::size_t kDictsAhead = 24;
  for (std::size_t i = 0; i < tags_.size(); ++i) {
    if (i + kDictsAhead < tags_.size()) __builtin_prefetch(tags_[i + kDictsAhead].dict);
    if (passes(tags_[i].dict, tags_[i].tag)) continue;
    if (auto found = dict_difference(i)) return found;
  }
  for (const std::size_t index : ordered_) {
    if (auto found = keys_difference(index)) return found;
  }
  if (auto found = containers_difference()) return found;
  constexpr std::size_t kAhead = 8;
  for (std::size_t i = 0; i < tensors_.size(); ++i) {
    if (i + kAhead < tensors_.size()) tensors_[i + kAhead].look.prefetch(tensors_[i + kAhead].tensor);
    const TensorWatch& watch = tensors_[i];
    if (Py_TYPE(watch.tensor) != watch.type) return tensor_paths_[i] + ": has another class";
    if (watch.look.holds(watch.tensor)) continue;
    const std::string found = watch.look.difference(watch.tensor);
    if (!found.empty()) return tensor_paths_[i] + ": " + found;
  }
  return std::nullopt;
}

int Guards::traverse(visitproc visit, void* arg) const {
  for (const DictTag& tag : tags_) Py_VISIT(tag.dict);
  for (const DictWatch& watch : dicts_) {
    for (const Entry& entry : watch.entries) {
      Py_VISIT(entry.key);
      Py_VISIT(entry.value);
    }
    for (PyObject* key : watch.keys) Py_VISIT(key);
  }
  for (const ListWatch& watch : lists_) {
    Py_VISIT(watch.list);
    for (PyObject* element : watch.elements) Py_VISIT(element);
  }
  for (const SetWatch& watch : sets_) {
    Py_VISIT(watch.set);
    Py_VISIT(watch.copy);
  }
  for (const CellWatch& watch : cells_) {
    Py_VISIT(watch.cell);
    Py_VISIT(watch.value);
  }
  for (const FunctionWatch& watch : functions_) {
    Py_VISIT(watch.function);
    Py_VISIT(watch.code);
    Py_VISIT(watch.defaults);
    Py_VISIT(watch.keyword_defaults);
  }
  for (const TypeWatch& watch : types_) {
    Py_VISIT(watch.object);
    Py_VISIT(watch.type);
    Py_VISIT(watch.dict);
  }
  for (const ClassWatch& watch : classes_) {
    Py_VISIT(watch.type);
    for (const Entry& entry : watch.entries) Py_VISIT(entry.value);
  }
  for (const TensorWatch& watch : tensors_) Py_VISIT(watch.tensor);
  return 0;
}

void Guards::clear() {
  // What is given back may run code that looks at this object: it is empty before the first reference goes.
  std::vector<PyObject*> objects;
  for (const DictTag& tag : tags_) objects.push_back(tag.dict);
  for (DictWatch& watch : dicts_) {
    for (const Entry& entry : watch.entries) objects.insert(objects.end(), {entry.key, entry.value});
    objects.insert(objects.end(), watch.keys.begin(), watch.keys.end());
  }
  for (ListWatch& watch : lists_) {
    objects.push_back(watch.list);
    objects.insert(objects.end(), watch.elements.begin(), watch.elements.end());
  }
  for (const SetWatch& watch : sets_) objects.insert(objects.end(), {watch.set, watch.copy});
  for (const CellWatch& watch : cells_) objects.insert(objects.end(), {watch.cell, watch.value});
  for (const FunctionWatch& watch : functions_) {
    objects.insert(objects.end(), {watch.function, watch.code, watch.defaults, watch.keyword_defaults});
  }
  for (const TypeWatch& watch : types_) {
    objects.insert(objects.end(), {watch.object, reinterpret_cast<PyObject*>(watch.type), watch.dict});
  }
  for (ClassWatch& watch : classes_) {
    objects.push_back(reinterpret_cast<PyObject*>(watch.type));
    for (const Entry& entry : watch.entries) objects.insert(objects.end(), {entry.key, entry.value});
  }
  for (const TensorWatch& watch : tensors_) objects.push_back(watch.tensor);
  state_.reset();
  tags_.clear();
  dicts_.clear();
  index_of_dict_.clear();
  ordered_.clear();
  lists_.clear();
  sets_.clear();
  cells_.clear();
  functions_.clear();
  types_.clear();
  classes_.clear();
  tensors_.clear();
  tensor_paths_.clear();
  release(objects);
}

PyObject* Guards::counts() const {
  std::size_t keys = 0;
  for (const DictWatch& watch : dicts_) keys += watch.entries.size();
  return Py_BuildValue("{s:n,s:n,s:n,s:n,s:n,s:n,s:n,s:n,s:n}", "dicts", static_cast<Py_ssize_t>(dicts_.size()), "keys",
                       static_cast<Py_ssize_t>(keys), "lists", static_cast<Py_ssize_t>(lists_.size()), "sets",
                       static_cast<Py_ssize_t>(sets_.size()), "cells", static_cast<Py_ssize_t>(cells_.size()),
                       "functions", static_cast<Py_ssize_t>(functions_.size()), "objects",
                       static_cast<Py_ssize_t>(types_.size()), "classes", static_cast<Py_ssize_t>(classes_.size()),
                       "tensors", static_cast<Py_ssize_t>(tensors_.size()));
}

}  // namespace crucible::accelerate
