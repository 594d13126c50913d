// Which storages an op touches and what it does to them: reads, writes, or replaces without reading. Found from the
// schema's text and from a short list of operators; what an op computes is not known here. For trimming and optimizing,
// so that in doubt an argument counts as read and written.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/trace/compounds.hpp"
#include "core/trace/trace.hpp"

namespace crucible::trace {

/// One tensor among the arguments of an op; of a compound tensor there is one use per part.
struct TensorUse {
  TensorId tensor = kNone;
  StorageId storage = kNone;  // never kNone: tensors without a storage are left out
  bool is_written = false;
  bool is_replaced = false;  // every byte of the storage is written, and none of them read
  bool is_viewed = false;    // a result is a view of it, and its elements are not read
};

/// Remembers what it found out about each schema. Threads: one caller at a time. The trace must outlive it.
class OpEffects {
 public:
  explicit OpEffects(const Trace& trace);
  /// Of the op's arguments, in their order, lists and compound tensors flattened.
  std::vector<TensorUse> uses(const Op& op);
  /// Storages of the op's results, in their order; those that are among its arguments too included.
  std::vector<StorageId> results(const Op& op) const;

 private:
  struct Argument {
    std::string name;
    bool is_written = false;  // says the schema: "Tensor(a!) self"
    bool is_aliased = false;  // it says anything at all about aliasing: "Tensor(a) self"
  };
  struct Effects {
    bool is_known = false;
    std::vector<Argument> arguments;
    bool writes_all = false;       // collectives write without saying so
    bool writes_running = false;   // batch norm writes running_mean and running_var without saying so
    bool replaces_first = false;   // zero_, copy_, normal_ ...
  };
  const Effects& effects(SchemaId schema);
  /// Tensors of `arg` with a storage, parts of compound tensors instead of the whole.
  void collect(const Arg& arg, std::vector<TensorId>& tensors, int depth) const;

  const Trace& trace_;
  std::vector<Effects> effects_;  // by schema
  Compounds compounds_;
};

/// True when the tensor's elements are all bytes of its storage, each once.
bool covers_storage(const Trace& trace, const Tensor& tensor);

/// The declarations between the schema's brackets, "*" left out: {"Tensor(a!) self", "Scalar alpha=1"}.
std::vector<std::string_view> argument_declarations(std::string_view schema_text);

}  // namespace crucible::trace
