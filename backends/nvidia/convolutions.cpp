// Convolutions by cuDNN: see cudnn.hpp. One is a graph of one operation; heuristics give engines for it, and the first
// whose plan can be built, whose numerics are allowed and whose workspace fits is taken. All descriptors of a call live
// as long as it does.
#include <algorithm>
#include <array>
#include <vector>

#include "backends/nvidia/cudnn_graph.hpp"
#include "backends/nvidia/device.hpp"
#include "backends/nvidia/options.hpp"
#include "plugins/sdk/error.hpp"

namespace crucible_nvidia {

using namespace crucible;

namespace {

/// What each kind of operation calls its parts.
struct Names {
  int descriptor, alpha, beta, convolution, x, weight, y;
};
Names names_of(std::uint32_t kind) {
  if (kind == CRUCIBLE_LIB_CONV2D)
    return {CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA,
            CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA,          CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC,
            CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X,             CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W,
            CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y};
  if (kind == CRUCIBLE_LIB_CONV2D_BACKWARD_INPUT)
    return {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR,
            CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA,
            CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA,
            CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC,
            CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX,
            CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W,
            CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY};
  return {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR,
          CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA,
          CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA,
          CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC,
          CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X,
          CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW,
          CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY};
}

Descriptor describe_tensor(const Cudnn& cudnn, const sdk::ConvolutionTensor& tensor, std::uint32_t dtype,
                           std::uint64_t alignment) {
  Descriptor d(cudnn, CUDNN_BACKEND_TENSOR_DESCRIPTOR, "a tensor");
  const int type = cudnn_type_of(dtype);
  d.set(CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &type);
  d.set(CUDNN_ATTR_TENSOR_DIMENSIONS, tensor.sizes);
  d.set(CUDNN_ATTR_TENSOR_STRIDES, tensor.strides);
  d.set(CUDNN_ATTR_TENSOR_UNIQUE_ID, tensor.view);
  d.set(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, static_cast<std::int64_t>(alignment));
  d.finalize();
  return d;
}

/// Sums are of f32 for all types.
Descriptor describe_convolution(const Cudnn& cudnn, const sdk::Convolution& c) {
  Descriptor d(cudnn, CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR, "a convolution");
  const int type = CUDNN_DATA_FLOAT, mode = CUDNN_CROSS_CORRELATION;
  d.set(CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &type);
  d.set(CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_TYPE_CONVOLUTION_MODE, 1, &mode);
  d.set(CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, 2);
  d.set(CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, c.stride);
  d.set(CUDNN_ATTR_CONVOLUTION_DILATIONS, c.dilation);
  d.set(CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, c.padding);
  d.set(CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, c.padding);
  d.finalize();
  return d;
}

}  // namespace

Convolutions::Convolutions(crucible_device& device, const Cudnn& cudnn)
    : cudnn_(cudnn), plans_(std::make_unique<CudnnPlans>()) {
  most_scratch_ = most_dnn_scratch(device.facts.memory_bytes);
  allows_tf32_ = options().get_bool("tf32");
  handle_ = start_cudnn(cudnn, device.facts.id);
}

Convolutions::~Convolutions() {
  plans_->clear();
  if (handle_ != nullptr) (void)cudnn_.cudnnDestroy(handle_);
}

std::unique_ptr<CudnnPlan> Convolutions::make(const sdk::Convolution& c, const std::uint64_t* alignments,
                                              std::uint64_t most_scratch) const {
  auto call = std::make_unique<CudnnPlan>();
  const Names names = names_of(c.kind);
  Descriptor operation(cudnn_, names.descriptor, "an operation");
  const auto part = [&](int attribute, Descriptor made) {
    operation.set(attribute, made);
    call->parts.push_back(std::move(made));
  };
  part(names.x, describe_tensor(cudnn_, c.x, c.dtype_of(c.x.view), alignments[c.x.view]));
  part(names.weight, describe_tensor(cudnn_, c.weight, c.dtype_of(c.weight.view), alignments[c.weight.view]));
  part(names.y, describe_tensor(cudnn_, c.y, c.dtype_of(c.y.view), alignments[c.y.view]));
  part(names.convolution, describe_convolution(cudnn_, c));
  const float one = 1, zero = 0;
  operation.set(names.alpha, CUDNN_TYPE_FLOAT, 1, &one);
  operation.set(names.beta, CUDNN_TYPE_FLOAT, 1, &zero);
  operation.finalize();
  std::vector<Descriptor> operations;
  operations.push_back(std::move(operation));
  if (find_plan(cudnn_, handle_, std::move(operations), {c.dtype, allows_tf32_, most_scratch}, *call)) return call;
  call->refusal = "convolution: " + cudnn_.describe() + " has no plan for " + c.shape() + " with " +
                  std::to_string(most_scratch) + " bytes of workspace";
  return call;
}

const CudnnPlan& Convolutions::find(const sdk::Convolution& c, const std::uint64_t* alignments,
                                    std::uint64_t most_scratch) {
  std::string key = c.shape();
  for (int view = 0; view < 3; ++view) key += " " + std::to_string(alignments[view]);
  key += " scratch " + std::to_string(most_scratch);
  return plans_->find(key, [&] { return make(c, alignments, most_scratch); });
}

/// What claim() chose, unless the buffers lie worse or the scratch is smaller than it was told: then what fits.
const CudnnPlan& Convolutions::fitting(const sdk::Convolution& c, const std::uint64_t* addresses,
                                       std::uint64_t scratch_bytes) {
  std::array<std::uint64_t, 3> alignments;
  for (int view = 0; view < 3; ++view)
    alignments[static_cast<std::size_t>(view)] = sdk::convolution_alignment(c, view, addresses[view]);
  return CudnnPlans::fitting([&](std::uint64_t limit) -> const CudnnPlan& { return find(c, alignments.data(), limit); },
                             most_scratch_, scratch_bytes == 0 ? 0 : addresses[3], scratch_bytes);
}

std::uint64_t Convolutions::scratch_bytes(const sdk::Convolution& c) {
  std::array<std::uint64_t, 3> alignments;
  for (int view = 0; view < 3; ++view)
    alignments[static_cast<std::size_t>(view)] = sdk::convolution_alignment(c, view, 0);
  const std::lock_guard lock(mutex_);
  return find(c, alignments.data(), most_scratch_).scratch_bytes;
}

void Convolutions::prepare(const sdk::Convolution& c, const std::uint64_t* addresses, std::uint64_t scratch_bytes) {
  const std::lock_guard lock(mutex_);
  (void)fitting(c, addresses, scratch_bytes);
}

void Convolutions::enqueue(const sdk::Convolution& c, const std::uint64_t* addresses, std::uint64_t scratch_bytes,
                           CUstream stream) {
  const std::lock_guard lock(mutex_);
  const CudnnPlan& call = fitting(c, addresses, scratch_bytes);
  std::vector<void*> places;
  for (int view = 0; view < 3; ++view) {
    places.push_back(reinterpret_cast<void*>(addresses[view] + static_cast<std::uint64_t>(c.tensor(view).offset) *
                                                                   c.element_bytes(view)));
  }
  void* const scratch = call.scratch_bytes == 0 ? nullptr : reinterpret_cast<void*>(addresses[3]);
  execute(cudnn_, handle_, call, {0, 1, 2}, places, scratch, stream, c.shape());
}

}  // namespace crucible_nvidia
