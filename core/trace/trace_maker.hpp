// For tests: a recording written down op by op, and a small training program made with it. Not part of the library.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "core/trace/memory_blob_store.hpp"
#include "core/trace/trace.hpp"

namespace crucible::trace::samples {

class TraceMaker {
 public:
  TraceMaker();
  /// A dense f32 tensor over a storage of its own.
  TensorId tensor(std::vector<std::int64_t> sizes);
  /// A dense f32 tensor at the start of the storage of `other`.
  TensorId view(TensorId other, std::vector<std::int64_t> sizes);
  void begin_iteration();
  /// Appends an op; its schema is the whole text ("aten::mul.Tensor(Tensor self, ...) -> Tensor"). Returns its index.
  std::uint32_t op(const std::string& schema, std::vector<Arg> args, std::vector<Arg> outputs);
  /// The storage's bytes before the next op, elements counting up from `first`.
  void external(TensorId tensor, Role role, const std::string& name, float first);
  void final_state(TensorId tensor, Role role, const std::string& name, float first);
  BlobId blob(TensorId tensor, float first);
  Trace take();
  Trace trace;

 private:
  std::shared_ptr<MemoryBlobStore> store_;
};

Arg tensor_of(TensorId id);
Arg number(double value);
Arg integer(std::int64_t value);
Arg list_of(std::vector<Arg> elements);

struct TrainingOptions {
  std::uint32_t iterations = 4;
  double rate = 0.1;         // of the optimizer, a scalar argument
  std::int64_t batch = 8;    // rows of the input
  float weight = 1;          // its first element
  bool extra_op = false;     // another aten::relu in iteration 1
};

/// Per iteration: h = mm(x, w); y = relu(h); s = sum(y); item(s); w.add_(g, -rate), where x is an input that is taken
/// in every iteration, w a parameter that is taken in iteration 0 and written in each, and t a buffer that is taken in
/// iteration 0, read in each and never written. Final states: w and t. One loss per iteration.
Trace training_trace(const TrainingOptions& options = {});

}  // namespace crucible::trace::samples
