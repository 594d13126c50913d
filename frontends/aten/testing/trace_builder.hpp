// Test support: traces written by hand, op by op, for the unit tests of this folder.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "core/graph/program.hpp"
#include "core/graph/reference.hpp"
#include "core/trace/memory_blob_store.hpp"
#include "core/trace/trace.hpp"

namespace crucible::aten {

class TraceBuilder {
 public:
  /// A new storage of `elements` elements.
  trace::StorageId storage(std::int64_t elements, DType dtype = DType::kF32);
  /// A view of a storage; without strides row-major.
  trace::TensorId view(trace::StorageId storage, std::vector<std::int64_t> sizes,
                       std::vector<std::int64_t> strides = {}, std::int64_t offset = 0, DType dtype = DType::kF32);
  /// A new storage and a row-major tensor that covers it.
  trace::TensorId fresh(std::vector<std::int64_t> sizes, DType dtype = DType::kF32);
  /// A sparse tensor of these parts, whether or not they fit.
  trace::TensorId sparse(std::vector<std::int64_t> sizes, trace::TensorId indices, trace::TensorId values,
                         std::int64_t sparse_dims);
  /// A Python number as the framework passes it: a 0-dim f64 tensor with bytes of its own.
  trace::TensorId python_number(double value);
  /// And a whole one: a 0-dim i64 tensor.
  trace::TensorId python_integer(std::int64_t value);

  static trace::Arg tensor(trace::TensorId id);
  static trace::Arg number(double value);
  static trace::Arg integer(std::int64_t value);
  static trace::Arg boolean(bool value);
  static trace::Arg none();
  static trace::Arg list(std::vector<trace::Arg> items);
  static trace::Arg integers(const std::vector<std::int64_t>& values);

  /// Records an op; `schema` is its full text. Returns its index.
  std::uint32_t op(const std::string& schema, std::vector<trace::Arg> args, std::vector<trace::Arg> outputs,
                   trace::Phase phase = trace::Phase::kForward);
  /// The ops that follow ran in this module.
  void module(const std::string& name);
  /// Bytes of a storage as the present iteration finds them.
  void external(trace::StorageId storage, const std::vector<float>& content, trace::Role role = trace::Role::kUnknown,
                const std::string& name = "");
  void external_bytes(trace::StorageId storage, std::span<const std::byte> content, trace::Role role,
                      const std::string& name);
  void draw(std::uint32_t op, std::uint32_t output, const std::vector<float>& content);
  void loss(trace::TensorId tensor, double value);
  /// What the present iteration gave back.
  void output(trace::TensorId tensor, const std::vector<float>& content, const std::string& name = "0");
  void final_state(trace::StorageId storage, const std::vector<float>& content, const std::string& name = "");
  /// Ends the present iteration; the next op begins another one.
  void end_iteration(bool complete = true);

  trace::StorageId storage_of(trace::TensorId id) const { return trace_.tensors[id].storage; }
  const trace::Tensor& tensor_of(trace::TensorId id) const { return trace_.tensors[id]; }
  const trace::Trace& trace();

 private:
  trace::Trace trace_;
  trace::Iteration present_;
  std::map<std::string, trace::SchemaId> schemas_;
  trace::ModuleId module_ = trace::kNone;
  std::shared_ptr<trace::MemoryBlobStore> blobs_ = std::make_shared<trace::MemoryBlobStore>();
};

/// The f32 elements of a buffer.
std::vector<float> floats(const graph::Bytes& bytes);

// Schemas that the tests use.
inline constexpr const char* kAdd = "aten::add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor";
inline constexpr const char* kAddInPlace =
    "aten::add_.Tensor(Tensor(a!) self, Tensor other, *, Scalar alpha=1) -> Tensor(a!)";
inline constexpr const char* kMul = "aten::mul.Tensor(Tensor self, Tensor other) -> Tensor";
inline constexpr const char* kMulInPlace = "aten::mul_.Tensor(Tensor(a!) self, Tensor other) -> Tensor(a!)";
inline constexpr const char* kSum = "aten::sum(Tensor self, *, ScalarType? dtype=None) -> Tensor";
inline constexpr const char* kTranspose = "aten::t(Tensor(a) self) -> Tensor(a)";
inline constexpr const char* kCopyInPlace =
    "aten::copy_(Tensor(a!) self, Tensor src, bool non_blocking=False) -> Tensor(a!)";
inline constexpr const char* kZero = "aten::zero_(Tensor(a!) self) -> Tensor(a!)";

}  // namespace crucible::aten
