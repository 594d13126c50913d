// Tensors that are not one strided view of one storage: sparse, nested and quantized ones, views that are conjugated or
// negated on reading, zero tensors. A record keeps what they consist of, and each part that is a tensor is one like any
// other, with its storage, its identity and its bytes. Written by Encoder (op_scope.hpp), read back by TraceStream.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <unordered_map>
#include <vector>

#include "core/trace/trace.hpp"
#include "frontends/torch/op_scope.hpp"

namespace crucible::recorder {

class RecordReader;

/// Writes one item for `tensor`: Tag::kCompound with the number of parts, then kind, dtype, requires_grad, sizes,
/// strides, and per part its name and value. Returns what people call such tensors: "sparse_coo tensors". Never runs an
/// op.
const char* encode_compound(Encoder& encoder, const at::Tensor& tensor, Encoder::Access access);

/// Where new tensors go.
class TensorSink {
 public:
  virtual ~TensorSink() = default;
  virtual trace::TensorId add(const trace::Tensor& tensor) = 0;
  virtual void add(const trace::CompoundTensor& compound) = 0;
};

/// The compound tensors of one trace: the same parts are the same tensor. Threads: one.
class CompoundTensors {
 public:
  /// Reads the item whose first word, with the number of `parts`, has been taken. Adds it to `sink` when it is new.
  trace::Arg read(RecordReader& reader, std::uint64_t parts, TensorSink& sink);
  /// Reads the item of an op that is not kept, which may lack its end.
  static trace::Arg skip(RecordReader& reader, std::uint64_t parts);

 private:
  struct Known {
    trace::Tensor own;
    trace::CompoundTensor compound;
  };
  std::unordered_multimap<std::uint64_t, Known> known_;  // by the hash of both
};

}  // namespace crucible::recorder
