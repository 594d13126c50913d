// Hashes of what each op computed, for `record --snapshot ops`: with them another execution of the file can be compared
// op by op. Kernels hand results and arguments to an OpHasher after the op ran; TraceStream asks the table
// when it writes the iteration. Nothing here runs unless the recorder's switch is on: reading every result costs more
// than most ops.
#pragma once

#include <ATen/core/IListRef.h>
#include <ATen/core/List.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/stack.h>

#include <array>
#include <cstdint>
#include <mutex>
#include <optional>
#include <tuple>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "frontends/torch/operators.hpp"

namespace crucible::recorder {

/// XXH3-64 (seed 0) of the elements, dense and row-major. 0: undefined, or its elements cannot be read (sparse, nested,
/// quantized, conjugate or negative views, no memory). Other devices are copied to the CPU. Threads: any.
std::uint64_t hash_elements(const at::Tensor& tensor);

/// The hashes of the ops of a recording, by sequence number, and which storages have memory that no op has filled: a
/// view of them is not hashed, for it would differ from run to run. Threads: any.
class OpHashTable {
 public:
  void keep(std::uint64_t sequence, std::vector<std::uint64_t> hashes);
  bool empty() const;
  /// Those of one op; none when it was not hashed. Call after recording.
  std::vector<std::uint64_t> find(std::uint64_t sequence) const;
  /// `storage` is the recorder's id.
  void set_filled(std::uint32_t storage, bool filled);
  bool is_filled(std::uint32_t storage) const;

 private:
  mutable std::mutex mutex_;  // guards both
  std::unordered_set<std::uint32_t> unfilled_;
  std::unordered_map<std::uint64_t, std::vector<std::uint64_t>> hashes_;
};

/// Hashes one op's results, then what it wrote in place. Threads: one, with the recording key shut out.
class OpHasher {
 public:
  explicit OpHasher(const Operator& op);

  /// For the boxed kernel, before the op runs: keeps the arguments that it will write, which the stack loses.
  void keep_written(at::ArrayRef<at::IValue> arguments);
  /// For the boxed kernel, after it ran: all of its results and what was kept.
  std::vector<std::uint64_t> hash(at::ArrayRef<at::IValue> results);

  /// For typed kernels, after the op ran.
  template <class Result, class... Arguments>
  std::vector<std::uint64_t> hash(const Result& result, const Arguments&... arguments) {
    add(result);
    forget_scratch();
    return hash_written(arguments...);
  }
  template <class... Arguments>
  std::vector<std::uint64_t> hash_written(const Arguments&... arguments) {
    std::size_t index = 0;
    written_part_ = true;
    ((writes(index++) ? add(arguments) : void()), ...);
    return std::move(hashes_);
  }

 private:
  bool writes(std::size_t argument) const { return argument < 64 && (written_ >> argument & 1) != 0; }

  void forget_scratch();
  void add(const at::Tensor& tensor);
  void add(const at::IValue& value);
  void add(at::TensorList tensors);
  void add(const at::ITensorListRef& tensors);
  void add(const std::vector<at::Tensor>& tensors) { add(at::TensorList(tensors)); }
  void add(const c10::List<std::optional<at::Tensor>>& tensors);
  void add(const std::optional<at::Tensor>& tensor) {
    if (tensor.has_value()) add(*tensor);
  }
  template <class... T>
  void add(const std::tuple<T...>& values) {
    std::apply([this](const auto&... value) { (add(value), ...); }, values);
  }
  template <class T>
  void add(const T&) {}  // a number: no content of its own

  std::uint64_t written_ = 0;  // bit i: the schema says that argument i is written
  bool is_view_ = false;   // its results are views of arguments
  bool written_part_ = false;  // what is added now are written arguments
  bool unfilled_ = false;  // its results are memory as it was found: their content is no result
  std::size_t scratch_ = SIZE_MAX;  // the result that is a workspace, not all of which is filled
  std::vector<std::uint64_t> hashes_;
  std::vector<at::IValue> kept_;
};

}  // namespace crucible::recorder
