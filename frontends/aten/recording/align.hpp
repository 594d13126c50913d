// The recorded iterations side by side, in groups that run the same ops on the same sizes: which op of each stands at
// the same position, which storage plays the same part, and at which arguments numbers differ. It knows nothing of what
// ops mean.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "core/base/result.hpp"
#include "core/trace/trace.hpp"

namespace crucible::aten {

/// A number among an op's arguments: args[argument], or args[argument].list[element].
struct ArgumentPath {
  std::uint32_t position = 0;  // of the op in the iteration
  std::uint32_t argument = 0;
  std::int32_t element = -1;
  auto operator<=>(const ArgumentPath&) const = default;
};

/// A tensor that the framework reads in another way than it lies in memory: each number conjugated, or its sign
/// changed.
struct LazyView {
  trace::TensorId base = trace::kNone;  // the same view, as it lies
  bool conjugate = false, negative = false;
};

/// A tensor of which the framework keeps some elements alone: their places and what stands there are tensors of their
/// own.
struct SparseParts {
  trace::TensorId indices = trace::kNone, values = trace::kNone;
  std::int64_t sparse_dims = 0;  // how many of its dimensions the indices name; values have the others
  /// Of a matrix whose rows (or columns) lie one after the other: where each begins in `indices`, which name columns
  /// (rows) alone.
  trace::TensorId begins = trace::kNone;
  bool by_columns = false;
};

/// A tensor of tensors of different sizes, one after the other in one buffer, a list of elements.
struct NestedParts {
  trace::TensorId buffer = trace::kNone;
  std::vector<std::vector<std::int64_t>> sizes;  // of each tensor, the same in all iterations
};

/// Memory that something other than an op changed after ops of the same iteration had used it.
struct ChangedMemory {
  trace::StorageId storage = trace::kNone;
  const trace::External* bytes = nullptr;  // in Trace::externals
};
/// By the op before which it was changed, as an index in Trace::ops.
using Changes = std::map<std::uint32_t, std::vector<ChangedMemory>>;

/// Iterations of one group.
struct Alignment {
  std::unordered_map<trace::TensorId, LazyView> lazy;
  std::unordered_map<trace::TensorId, SparseParts> sparse;
  std::unordered_map<trace::TensorId, NestedParts> nested;
  std::unordered_set<trace::TensorId> zeros;  // tensors without memory: all elements are 0
  std::vector<std::uint32_t> iterations;        // indices in Trace::iterations: complete ones, ascending
  std::vector<std::vector<std::uint32_t>> ops;  // per iteration, per position: index in Trace::ops
  /// Per iteration: its storage -> the storage of the group's first that plays the same part, and back.
  std::vector<std::unordered_map<trace::StorageId, trace::StorageId>> to_first, from_first;
  std::set<ArgumentPath> differing;  // numbers that are not the same in all iterations
  /// Numbers of optimizers' ops count among those, but for 0, 1 and -1: the next iteration may have other ones.
  bool frees_numbers = false;
  /// Tensors of an op (by its position and the tensor's id in the first iteration) that differ in their offset alone:
  /// the offset in each iteration.
  std::map<std::pair<std::uint32_t, trace::TensorId>, std::vector<std::int64_t>> moved;

  /// Numbers of Python that entered as tensors and have another type in an iteration than in the first: that type, by
  /// the iteration and the storage of the first one.
  std::map<std::pair<std::size_t, trace::StorageId>, DType> number_dtypes;

  /// How the group's first iteration differs from that of the group before it was compared with, in words; "" of the
  /// first group.
  std::string difference;

  /// Per storage of the recording: the first iteration that touches it. Shared by the groups; null where there is one.
  std::shared_ptr<const std::vector<std::uint32_t>> first_seen;

  std::shared_ptr<const Changes> changes;  // of the whole recording; never null
  /// Of storages that some op of the recording takes for bytes: the floating-point numbers that others take them for.
  std::shared_ptr<const std::unordered_map<trace::StorageId, DType>> read_as_real;  // never null

  /// By storage: itself, or which one it is another name of (sharing.hpp). Shared by the groups; null where all are
  /// what they are.
  std::shared_ptr<const std::vector<trace::StorageId>> origins;

  std::size_t count() const { return iterations.size(); }
  trace::StorageId origin(trace::StorageId storage) const { return origins ? (*origins)[storage] : storage; }
  /// Whether iterations before the group's first had it.
  bool existed_before(trace::StorageId storage) const {
    return first_seen && storage < first_seen->size() && (*first_seen)[storage] < iterations[0];
  }
  /// The type that a number of Python, `first` in the first iteration, has in iteration `i`.
  DType number_dtype(std::size_t i, const trace::Tensor& first) const;
  /// The tensor itself, or what a lazy view is a view of.
  trace::TensorId base_of(trace::TensorId id) const {
    const auto found = lazy.find(id);
    return found == lazy.end() ? id : found->second.base;
  }
  /// The argument at `path` in iteration `i`.
  const trace::Arg& argument(const trace::Trace& trace, std::size_t i, const ArgumentPath& path) const;
};

/// Whether a number of an optimizer's op counts as one that differs, where they are freed.
inline bool is_free(double number) { return number != 0 && number != 1 && number != -1; }

/// Groups the complete iterations, up to the first that is not: those of a group differ in nothing but numbers and the
/// offsets of tensors in their storages. Groups stand in the order of their first iterations. Profiler marks and ops
/// that neither return nor write a tensor are left out. The work grows with the number of ops, whatever the number of
/// groups. Errors: kBadInput when no iteration is complete.
Result<std::vector<Alignment>> align(const trace::Trace& trace);

/// The argument in a few words, as messages show it: "2", "the Python number 0.5", "f32[3, 4] with strides [4, 1]".
std::string argument_text(const trace::Trace& trace, const trace::Arg& arg);

/// Whether it may be a number that differs between iterations. Which flags are none is the schema's affair.
inline bool is_number(const trace::Arg& arg) {
  using Kind = trace::Arg::Kind;
  return arg.kind == Kind::kInt || arg.kind == Kind::kDouble || arg.kind == Kind::kBool;
}

/// Every tensor id among `args`, in order; kNone for undefined ones where `keep_undefined`.
std::vector<trace::TensorId> tensors_in(const std::vector<trace::Arg>& args, bool keep_undefined = false);

}  // namespace crucible::aten
