// Attentions by cuDNN: see cudnn.hpp. One is a graph of a dozen operations, those of the formula one by one, whose
// results between are virtual: the library knows the form and has one kernel for it. The order and the dtypes are what
// its documentation of fused attention asks for. What it takes without saying so, real_cudnn_test.cpp asks of it:
// - the logarithm of each row's sum belongs to the form though nobody reads it outside of training: without it there is
//   no engine for the graph;
// - the gradient multiplies its sums of rows by a number, which dropout would have and is 1 here: without it there are
//   engines, but with six bytes of workspace for each score instead of two.
#include <limits>
#include <utility>

#include "backends/nvidia/cudnn_graph.hpp"
#include "backends/nvidia/device.hpp"
#include "plugins/sdk/error.hpp"

namespace crucible_nvidia {

using namespace crucible;

namespace {

constexpr std::size_t kOldestAttention = 8903;  // whose engines take any numbers of rows
constexpr std::uint32_t kF32 = 8;               // DType, part of the ABI
constexpr std::uint64_t kAlignment = 16;        // of tensors that lie in no buffer: they have any
using Four = std::array<std::int64_t, 4>;

/// Numbers of tensors: of the description's buffers in their order, of the two that are given as numbers, then of
/// virtual ones.
constexpr std::int64_t kScale = sdk::kMostAttentionTensors, kHidden = kScale + 1, kOne = kScale + 2,
                       kFirstVirtual = kScale + 3;
using Alignments = std::array<std::uint64_t, sdk::kMostAttentionTensors>;

/// Operations of one graph, and the descriptors that they refer to.
class AttentionGraph {
 public:
  AttentionGraph(const Cudnn& cudnn, const sdk::Attention& attention, const Alignments& alignments, CudnnPlan& call)
      : cudnn_(cudnn), attention_(attention), alignments_(alignments), parts_(call.parts) {}

  std::vector<Descriptor> build() {
    const auto &q = attention_.tensors[0].sizes, &k = attention_.tensors[1].sizes;
    scores_ = {q[0], q[1], q[2], k[2]};
    rows_ = {q[0], q[1], q[2], 1};
    if (attention_.part == sdk::AttentionPart::kBackward) {
      backward();
    } else {
      forward();
    }
    return std::move(operations_);
  }

 private:
  using Handle = cudnnBackendDescriptor_t;

  void forward() {
    Handle x = scores();
    Handle const top = reduce(CUDNN_REDUCE_TENSOR_MAX, x);
    x = pointwise(CUDNN_POINTWISE_SUB, x, top, CUDNN_DATA_FLOAT);
    x = pointwise(CUDNN_POINTWISE_EXP, x, nullptr, CUDNN_DATA_FLOAT);
    Handle const total = reduce(CUDNN_REDUCE_TENSOR_ADD, x);
    log_sum(top, total);
    // What the second product multiplies is of the values' dtype.
    x = pointwise(CUDNN_POINTWISE_DIV, x, total, cudnn_type_of(attention_.dtype));
    matmul(x, operand(sdk::kV), operand(sdk::kO));
  }

  /// p = exp(scores - log sums); dv = p^T do; ds = scale p (do v^T - sums of rows of do o); dq = ds k; dk = ds^T q.
  void backward() {
    const int type = cudnn_type_of(attention_.dtype);
    Handle const gradient = operand(sdk::kDO);
    Handle inner = result(attention_.tensors[sdk::kO].sizes, CUDNN_DATA_FLOAT);
    pointwise_into(inner, CUDNN_POINTWISE_MUL, gradient, operand(sdk::kO));
    inner = reduce(CUDNN_REDUCE_TENSOR_ADD, inner);
    inner = pointwise_into(result(rows_, CUDNN_DATA_FLOAT), CUDNN_POINTWISE_MUL, inner, number(kOne));
    Handle p = pointwise(CUDNN_POINTWISE_SUB, scores(), log_sums(), CUDNN_DATA_FLOAT);
    p = pointwise(CUDNN_POINTWISE_EXP, p, nullptr, CUDNN_DATA_FLOAT);
    matmul(turned(p), gradient, operand(sdk::kDV));
    Handle ds = result(scores_, CUDNN_DATA_FLOAT);
    matmul(gradient, transposed(sdk::kV), ds);
    ds = pointwise(CUDNN_POINTWISE_SUB, ds, inner, CUDNN_DATA_FLOAT);
    ds = pointwise(CUDNN_POINTWISE_MUL, ds, p, CUDNN_DATA_FLOAT);
    ds = pointwise(CUDNN_POINTWISE_MUL, ds, number(kScale), type);
    matmul(ds, operand(sdk::kK), operand(sdk::kDQ));
    matmul(turned(ds), operand(sdk::kQ), operand(sdk::kDK));
  }

  /// Scaled, and hidden ones with a number of their own.
  Handle scores() {
    Handle x = result(scores_, CUDNN_DATA_FLOAT);
    matmul(operand(sdk::kQ), transposed(sdk::kK), x);
    x = pointwise(CUDNN_POINTWISE_MUL, x, number(kScale), CUDNN_DATA_FLOAT);
    if (!attention_.is_causal) return x;
    Handle const row = index(x, 2);
    Handle const column = index(x, 3);
    Handle const seen = pointwise(CUDNN_POINTWISE_CMP_GE, row, column, CUDNN_DATA_BOOLEAN, CUDNN_DATA_BOOLEAN);
    return pointwise(CUDNN_POINTWISE_BINARY_SELECT, x, number(kHidden), CUDNN_DATA_FLOAT, CUDNN_DATA_FLOAT, seen);
  }

  Handle keep(Descriptor made) {
    made.finalize();
    return parts_.emplace_back(std::move(made)).get();
  }

  Descriptor tensor(std::int64_t id, int type, const Four& sizes, const Four& strides, std::uint64_t alignment) {
    Descriptor d(cudnn_, CUDNN_BACKEND_TENSOR_DESCRIPTOR, "a tensor");
    d.set(CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &type);
    d.set(CUDNN_ATTR_TENSOR_DIMENSIONS, sizes);
    d.set(CUDNN_ATTR_TENSOR_STRIDES, strides);
    d.set(CUDNN_ATTR_TENSOR_UNIQUE_ID, id);
    d.set(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, static_cast<std::int64_t>(alignment));
    return d;
  }
  Handle operand(std::size_t i) {
    const sdk::AttentionTensor& t = attention_.tensors[i];
    return keep(
        tensor(static_cast<std::int64_t>(i), cudnn_type_of(attention_.dtype), t.sizes, t.strides, alignments_[i]));
  }
  /// As [batch, heads, width, keys].
  Handle transposed(std::size_t i) {
    sdk::AttentionTensor t = attention_.tensors[i];
    std::swap(t.sizes[2], t.sizes[3]);
    std::swap(t.strides[2], t.strides[3]);
    return keep(
        tensor(static_cast<std::int64_t>(i), cudnn_type_of(attention_.dtype), t.sizes, t.strides, alignments_[i]));
  }
  Handle log_sums() {
    const sdk::AttentionTensor& t = attention_.tensors[sdk::kLogSums];
    return keep(tensor(sdk::kLogSums, CUDNN_DATA_FLOAT, t.sizes, t.strides, alignments_[sdk::kLogSums]));
  }
  Handle number(std::int64_t id) {
    Descriptor d = tensor(id, CUDNN_DATA_FLOAT, {1, 1, 1, 1}, {1, 1, 1, 1}, kAlignment);
    constexpr bool kYes = true;
    d.set(CUDNN_ATTR_TENSOR_IS_BY_VALUE, CUDNN_TYPE_BOOLEAN, 1, &kYes);
    return keep(std::move(d));
  }
  Handle result(const Four& sizes, int type) {
    return virtual_tensor(sizes, {sizes[1] * sizes[2] * sizes[3], sizes[2] * sizes[3], sizes[3], 1}, type);
  }
  Handle virtual_tensor(const Four& sizes, const Four& strides, int type) {
    Descriptor d = tensor(next_++, type, sizes, strides, kAlignment);
    constexpr bool kYes = true;
    d.set(CUDNN_ATTR_TENSOR_IS_VIRTUAL, CUDNN_TYPE_BOOLEAN, 1, &kYes);
    return keep(std::move(d));
  }

  void add(Descriptor operation) {
    operation.finalize();
    operations_.push_back(std::move(operation));
  }

  void matmul(Handle a, Handle b, Handle c) {
    Descriptor how(cudnn_, CUDNN_BACKEND_MATMUL_DESCRIPTOR, "a matrix product");
    const int type = CUDNN_DATA_FLOAT;
    how.set(CUDNN_ATTR_MATMUL_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &type);
    Descriptor operation(cudnn_, CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR, "an operation");
    operation.set(CUDNN_ATTR_OPERATION_MATMUL_DESC, keep(std::move(how)));
    operation.set(CUDNN_ATTR_OPERATION_MATMUL_ADESC, a);
    operation.set(CUDNN_ATTR_OPERATION_MATMUL_BDESC, b);
    operation.set(CUDNN_ATTR_OPERATION_MATMUL_CDESC, c);
    add(std::move(operation));
  }

  Handle pointwise(int mode, Handle x, Handle b, int type, int computed = CUDNN_DATA_FLOAT, Handle t = nullptr,
                   std::int64_t axis = -1) {
    return pointwise_into(result(scores_, type), mode, x, b, computed, t, axis);
  }
  Handle pointwise_into(Handle y, int mode, Handle x, Handle b, int computed = CUDNN_DATA_FLOAT, Handle t = nullptr,
                        std::int64_t axis = -1) {
    Descriptor how(cudnn_, CUDNN_BACKEND_POINTWISE_DESCRIPTOR, "a pointwise operation");
    how.set(CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, 1, &mode);
    how.set(CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_TYPE_DATA_TYPE, 1, &computed);
    if (axis >= 0) how.set(CUDNN_ATTR_POINTWISE_AXIS, axis);
    Descriptor operation(cudnn_, CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR, "an operation");
    operation.set(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, keep(std::move(how)));
    operation.set(CUDNN_ATTR_OPERATION_POINTWISE_XDESC, x);
    if (b != nullptr) operation.set(CUDNN_ATTR_OPERATION_POINTWISE_BDESC, b);
    if (t != nullptr) operation.set(CUDNN_ATTR_OPERATION_POINTWISE_TDESC, t);
    operation.set(CUDNN_ATTR_OPERATION_POINTWISE_YDESC, y);
    add(std::move(operation));
    return y;
  }
  /// The logarithm of each row's sum of exponentials: its greatest score and the logarithm of what that leaves.
  void log_sum(Handle top, Handle total) {
    Handle const logarithm = pointwise_into(result(rows_, CUDNN_DATA_FLOAT), CUDNN_POINTWISE_LOG, total, nullptr);
    Handle const sums = attention_.part == sdk::AttentionPart::kForward ? log_sums() : result(rows_, CUDNN_DATA_FLOAT);
    pointwise_into(sums, CUDNN_POINTWISE_ADD, top, logarithm);
  }
  /// Scores with their last two dimensions in turn, in the dtype of what they are multiplied with.
  Handle turned(Handle x) {
    const Four sizes = {scores_[0], scores_[1], scores_[3], scores_[2]};
    Handle const y = virtual_tensor(sizes, {sizes[1] * sizes[2] * sizes[3], sizes[2] * sizes[3], 1, sizes[2]},
                                    cudnn_type_of(attention_.dtype));
    Descriptor operation(cudnn_, CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR, "an operation");
    operation.set(CUDNN_ATTR_OPERATION_RESHAPE_XDESC, x);
    operation.set(CUDNN_ATTR_OPERATION_RESHAPE_YDESC, y);
    add(std::move(operation));
    return y;
  }
  /// The number of an element along a dimension.
  Handle index(Handle x, std::int64_t axis) {
    return pointwise(CUDNN_POINTWISE_GEN_INDEX, x, nullptr, CUDNN_DATA_INT32, CUDNN_DATA_INT32, nullptr, axis);
  }

  /// Over the last dimension.
  Handle reduce(int kind, Handle x) {
    Descriptor how(cudnn_, CUDNN_BACKEND_REDUCTION_DESCRIPTOR, "a reduction");
    const int type = CUDNN_DATA_FLOAT;
    how.set(CUDNN_ATTR_REDUCTION_OPERATOR, CUDNN_TYPE_REDUCTION_OPERATOR_TYPE, 1, &kind);
    how.set(CUDNN_ATTR_REDUCTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &type);
    Descriptor operation(cudnn_, CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR, "an operation");
    operation.set(CUDNN_ATTR_OPERATION_REDUCTION_DESC, keep(std::move(how)));
    operation.set(CUDNN_ATTR_OPERATION_REDUCTION_XDESC, x);
    Handle const y = result(rows_, CUDNN_DATA_FLOAT);
    operation.set(CUDNN_ATTR_OPERATION_REDUCTION_YDESC, y);
    add(std::move(operation));
    return y;
  }

  const Cudnn& cudnn_;
  const sdk::Attention& attention_;
  const Alignments& alignments_;
  std::vector<Descriptor>& parts_;
  std::vector<Descriptor> operations_;
  Four scores_ = {}, rows_ = {};  // sizes: of all scores, of one number for each row of them
  std::int64_t next_ = kFirstVirtual;
};

}  // namespace

Attentions::Attentions(crucible_device& device, const Cudnn& cudnn)
    : cudnn_(cudnn), plans_(std::make_unique<CudnnPlans>()) {
  most_scratch_ = most_dnn_scratch(device.facts.memory_bytes);
  handle_ = start_cudnn(cudnn, device.facts.id);
}

Attentions::~Attentions() {
  plans_->clear();
  if (handle_ != nullptr) (void)cudnn_.cudnnDestroy(handle_);
}

std::unique_ptr<CudnnPlan> Attentions::make(const sdk::Attention& a, const Alignments& alignments,
                                            std::uint64_t most_scratch) const {
  auto call = std::make_unique<CudnnPlan>();
  if (a.dtype == kF32) {
    call->refusal = "attention: cuDNN has none of f32, only of f16 and bf16";
  } else if (cudnn_.version < kOldestAttention) {
    call->refusal = "attention: " + cudnn_.describe() + " is older than 8.9.3, which has it";
  } else if (!find_plan(cudnn_, handle_, AttentionGraph(cudnn_, a, alignments, *call).build(),
                        {a.dtype, false, most_scratch}, *call)) {
    call->refusal = "attention: " + cudnn_.describe() + " has no plan for " + a.shape() + " with " +
                    std::to_string(most_scratch) + " bytes of workspace";
  }
  return call;
}

const CudnnPlan& Attentions::find(const sdk::Attention& a, const Alignments& alignments, std::uint64_t most_scratch) {
  std::string key = a.shape();
  for (std::size_t i = 0; i < a.count(); ++i) key += " " + std::to_string(alignments[i]);
  key += " scratch " + std::to_string(most_scratch);
  return plans_->find(key, [&] { return make(a, alignments, most_scratch); });
}

const CudnnPlan& Attentions::fitting(const sdk::Attention& a, const std::uint64_t* addresses,
                                     std::uint64_t scratch_bytes) {
  Alignments alignments = {};
  for (std::size_t i = 0; i < a.count(); ++i) alignments[i] = sdk::attention_alignment(a, i, addresses[i]);
  return CudnnPlans::fitting([&](std::uint64_t limit) -> const CudnnPlan& { return find(a, alignments, limit); },
                             most_scratch_, scratch_bytes == 0 ? 0 : addresses[a.count()], scratch_bytes);
}

std::uint64_t Attentions::scratch_bytes(const sdk::Attention& a) {
  Alignments alignments = {};
  for (std::size_t i = 0; i < a.count(); ++i) alignments[i] = sdk::attention_alignment(a, i, 0);
  const std::lock_guard lock(mutex_);
  return find(a, alignments, most_scratch_).scratch_bytes;
}

void Attentions::prepare(const sdk::Attention& a, const std::uint64_t* addresses, std::uint64_t scratch_bytes) {
  const std::lock_guard lock(mutex_);
  (void)fitting(a, addresses, scratch_bytes);
}

void Attentions::enqueue(const sdk::Attention& a, const std::uint64_t* addresses, std::uint64_t scratch_bytes,
                         CUstream stream) {
  const std::lock_guard lock(mutex_);
  const CudnnPlan& call = fitting(a, addresses, scratch_bytes);
  std::vector<std::int64_t> ids;
  std::vector<void*> places;
  for (std::size_t i = 0; i < a.count(); ++i) {
    ids.push_back(static_cast<std::int64_t>(i));
    places.push_back(
        reinterpret_cast<void*>(addresses[i] + static_cast<std::uint64_t>(a.tensors[i].offset) * a.element_bytes(i)));
  }
  // Taken while they are enqueued. What is hidden has the least number: minus infinity less itself would be none.
  float scale = static_cast<float>(a.scale), hidden = std::numeric_limits<float>::lowest(), one = 1;
  ids.push_back(kScale);
  places.push_back(&scale);
  if (a.is_causal) {
    ids.push_back(kHidden);
    places.push_back(&hidden);
  }
  if (a.part == sdk::AttentionPart::kBackward) {
    ids.push_back(kOne);
    places.push_back(&one);
  }
  void* const scratch = call.scratch_bytes == 0 ? nullptr : reinterpret_cast<void*>(addresses[a.count()]);
  execute(cudnn_, handle_, call, ids, places, scratch, stream, a.shape());
}

}  // namespace crucible_nvidia
