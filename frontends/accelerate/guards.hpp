// What must be as it was for a recorded call to be answered without its Python: dicts, lists, sets, cells, functions,
// classes, tensors and the framework's own state, noted once and compared before each call. The walk that finds them is
// Python's (package/crucible_torch/accelerate/visible.py); this file knows how to compare them in nanoseconds.
#pragma once

#include <Python.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

namespace crucible::accelerate {

/// How a Python value is compared with what it was.
struct Mode {
  enum class Kind : std::uint8_t {
    kIs,        ///< the same object
    kValue,     ///< same type and equal, floats by their bits; objects that are no plain values by identity
    kSkip,      ///< not at all
    kNumber,    ///< an int or a float, whatever its value; anything else as kValue
    kZeroness,  ///< as kNumber, and zero where it was zero; of a tuple, each of its elements
    kParts,     ///< a tuple whose elements have modes of their own
  };
  Kind kind = Kind::kValue;
  std::vector<Mode> parts;
};

/// Parses "is", "value", "skip", "number", "zeroness" or a tuple of modes; false with a Python exception set.
bool parse_mode(PyObject* object, Mode& out_mode);

/// Whether `now` is as `then` was; either may be null, which stands for a name that is not there.
bool same(PyObject* then, PyObject* now, const Mode& mode);

/// "was True, is False": the two values in words.
std::string in_words(PyObject* then, PyObject* now);

/// A tensor's identity and everything of it that decides which ops run on which memory. Holds no reference to the
/// implementation or its storage: one more use would change what autograd does.
struct TensorLook {
  static constexpr std::size_t kInlineDims = 5;
  const void* impl = nullptr;
  const void* storage = nullptr;
  const void* data = nullptr;
  const void* meta = nullptr;  ///< where autograd's part lay, to fetch it early; not compared
  std::size_t storage_bytes = 0;
  std::int64_t offset = 0;
  std::uint64_t keys = 0;
  std::uint16_t dtype = 0;
  std::uint16_t dims = 0;
  bool requires_grad = false;
  bool leaf = true;
  bool retains_grad = false;
  bool hooks = false;
  std::int64_t shape[2 * kInlineDims] = {};
  std::vector<std::int64_t> long_shape;  ///< sizes, then strides, of a tensor of more dimensions

  static TensorLook of(PyObject* tensor);
  /// Whether the tensor looks as it did, without making another look of it.
  bool holds(PyObject* tensor) const;
  /// What is different now.
  std::string difference(PyObject* tensor) const;
  /// Begins to bring in what holds() will read: between two calls the caches hold other things.
  void prefetch(PyObject* tensor) const {
    constexpr std::size_t kLine = 64;
    __builtin_prefetch(tensor);
    for (const void* place : {impl, storage, meta}) {
      __builtin_prefetch(place);
      __builtin_prefetch(static_cast<const char*>(place) + kLine);
    }
    __builtin_prefetch(static_cast<const char*>(impl) + 2 * kLine);
  }
};

/// The framework's settings that decide which ops run: modes of this thread and flags of the process.
struct TorchState {
  static constexpr std::size_t kCount = 29;
  std::int64_t values[kCount] = {};

  static TorchState now();
  /// The first setting that differs, in words; nothing when all are as they were.
  std::optional<std::string> difference(const TorchState& then) const;
};

/// All that is watched. Threads: every member is called with the GIL held. Owns: a reference to each Python object.
class Guards {
 public:
  Guards() = default;
  Guards(const Guards&) = delete;
  Guards& operator=(const Guards&) = delete;
  ~Guards() { clear(); }

  // Each returns false with a Python exception set when its argument is not what it watches.
  bool watch_dict(PyObject* dict, const char* path, PyObject* modes);
  bool watch_keys(PyObject* dict, const char* path);
  bool watch_list(PyObject* list, const char* path, const Mode& mode);
  bool watch_set(PyObject* set, const char* path);
  bool watch_cell(PyObject* cell, const char* path, const Mode& mode);
  bool watch_function(PyObject* function, const char* path);
  bool watch_type(PyObject* object, const char* path);
  bool watch_class(PyObject* type, const char* path, PyObject* names);
  bool watch_tensor(PyObject* tensor, const char* path);
  void watch_state();

  /// The first difference in words; nothing when all is as it was. A Python exception may be set afterwards.
  std::optional<std::string> check();

  int traverse(visitproc visit, void* arg) const;
  void clear();
  /// How many things of each kind are watched, as a new dict.
  PyObject* counts() const;

 private:
  struct Entry {
    PyObject* key;
    Py_hash_t hash;
    PyObject* value;  // null: the key is not there
    Mode mode;
  };
  struct DictTag {  // what the short cut reads, close together
    PyObject* dict;
    std::uint64_t tag;
  };
  struct DictWatch {
    std::string path;
    std::vector<Entry> entries;
    std::vector<PyObject*> keys;  // in their order, when `all_keys`
    bool all_keys = false;
    bool ordered = false;  // an OrderedDict: its order changes without its tag
  };
  struct ListWatch {
    PyObject* list;
    std::vector<PyObject*> elements;
    Mode mode;
    std::string path;
  };
  struct SetWatch {
    PyObject* set;
    PyObject* copy;
    std::string path;
  };
  struct CellWatch {
    PyObject* cell;
    PyObject* value;
    Mode mode;
    std::string path;
  };
  struct FunctionWatch {
    PyObject* function;
    PyObject* code;
    PyObject* defaults;
    PyObject* keyword_defaults;
    std::string path;
  };
  struct TypeWatch {
    PyObject* object;
    PyTypeObject* type;
    PyObject** dict_place;  // where the object keeps its __dict__; null: it has none
    PyObject* dict;
    std::string path;
  };
  struct ClassWatch {
    PyTypeObject* type;
    unsigned int version;  // 0: it has none, all names are compared each time
    std::vector<Entry> entries;
    std::string path;
  };
  struct TensorWatch {
    PyObject* tensor;
    PyTypeObject* type;
    TensorLook look;
  };

  DictWatch* dict_watch(PyObject* dict, const char* path);
  std::optional<std::string> dict_difference(std::size_t index);
  std::optional<std::string> keys_difference(std::size_t index) const;
  std::optional<std::string> list_difference(const ListWatch& watch) const;
  std::optional<std::string> set_difference(const SetWatch& watch) const;
  std::optional<std::string> function_difference(const FunctionWatch& watch) const;
  std::optional<std::string> type_difference(const TypeWatch& watch) const;
  std::optional<std::string> class_difference(ClassWatch& watch) const;
  std::optional<std::string> containers_difference();

  std::optional<TorchState> state_;
  std::vector<DictTag> tags_;
  std::vector<DictWatch> dicts_;
  std::unordered_map<PyObject*, std::size_t> index_of_dict_;
  std::vector<std::size_t> ordered_;
  std::vector<ListWatch> lists_;
  std::vector<SetWatch> sets_;
  std::vector<CellWatch> cells_;
  std::vector<FunctionWatch> functions_;
  std::vector<TypeWatch> types_;
  std::vector<ClassWatch> classes_;
  std::vector<TensorWatch> tensors_;
  std::vector<std::string> tensor_paths_;
};

/// Adds the type `Guards` to the module; false with a Python exception set.
bool add_guards(PyObject* module);

}  // namespace crucible::accelerate
