// Making, setting and checking descriptors: see cudnn_descriptors.hpp.
#include "tests/emulators/nvidia/cudnn_descriptors.hpp"

#include <algorithm>
#include <mutex>
#include <set>

namespace crucible::emulator {
namespace {

constexpr std::int64_t kMostOps = 32, kRank = 4, kSpatial = 2;

/// Which attributes a type of descriptor may be given, of which type, how many elements, and whether it needs them.
struct Attribute {
  cudnnBackendDescriptorType_t descriptor;
  int name;
  cudnnBackendAttributeType_t type;
  std::int64_t fewest, most;
  bool is_needed = true;
};

constexpr auto kTensor = CUDNN_BACKEND_TENSOR_DESCRIPTOR;
constexpr auto kMatmul = CUDNN_BACKEND_MATMUL_DESCRIPTOR;
constexpr auto kMatmulOp = CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR;
constexpr auto kPointwise = CUDNN_BACKEND_POINTWISE_DESCRIPTOR;
constexpr auto kPointwiseOp = CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR;
constexpr auto kReduction = CUDNN_BACKEND_REDUCTION_DESCRIPTOR;
constexpr auto kReductionOp = CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR;
constexpr auto kReshapeOp = CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR;
constexpr auto kConvolution = CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR;
constexpr auto kForward = CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR;
constexpr auto kData = CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR;
constexpr auto kFilter = CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR;
constexpr auto kGraph = CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR;
constexpr auto kHeuristic = CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR;
constexpr auto kPlan = CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR;
constexpr auto kPack = CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR;
constexpr auto kRefers = CUDNN_TYPE_BACKEND_DESCRIPTOR;

constexpr Attribute kAttributes[] = {
    {kTensor, CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, 1, 1},
    {kTensor, CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, kRank, kRank},
    {kTensor, CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, kRank, kRank},
    {kTensor, CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, 1, 1},
    {kTensor, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, CUDNN_TYPE_INT64, 1, 1},
    {kTensor, CUDNN_ATTR_TENSOR_IS_VIRTUAL, CUDNN_TYPE_BOOLEAN, 1, 1, false},
    {kTensor, CUDNN_ATTR_TENSOR_IS_BY_VALUE, CUDNN_TYPE_BOOLEAN, 1, 1, false},
    {kMatmul, CUDNN_ATTR_MATMUL_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, 1, 1},
    {kMatmulOp, CUDNN_ATTR_OPERATION_MATMUL_DESC, kRefers, 1, 1},
    {kMatmulOp, CUDNN_ATTR_OPERATION_MATMUL_ADESC, kRefers, 1, 1},
    {kMatmulOp, CUDNN_ATTR_OPERATION_MATMUL_BDESC, kRefers, 1, 1},
    {kMatmulOp, CUDNN_ATTR_OPERATION_MATMUL_CDESC, kRefers, 1, 1},
    {kPointwise, CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, 1, 1},
    {kPointwise, CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_TYPE_DATA_TYPE, 1, 1},
    {kPointwise, CUDNN_ATTR_POINTWISE_AXIS, CUDNN_TYPE_INT64, 1, 1, false},
    {kPointwiseOp, CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, kRefers, 1, 1},
    {kPointwiseOp, CUDNN_ATTR_OPERATION_POINTWISE_XDESC, kRefers, 1, 1},
    {kPointwiseOp, CUDNN_ATTR_OPERATION_POINTWISE_BDESC, kRefers, 1, 1, false},
    {kPointwiseOp, CUDNN_ATTR_OPERATION_POINTWISE_TDESC, kRefers, 1, 1, false},
    {kPointwiseOp, CUDNN_ATTR_OPERATION_POINTWISE_YDESC, kRefers, 1, 1},
    {kReduction, CUDNN_ATTR_REDUCTION_OPERATOR, CUDNN_TYPE_REDUCTION_OPERATOR_TYPE, 1, 1},
    {kReduction, CUDNN_ATTR_REDUCTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, 1, 1},
    {kReductionOp, CUDNN_ATTR_OPERATION_REDUCTION_DESC, kRefers, 1, 1},
    {kReductionOp, CUDNN_ATTR_OPERATION_REDUCTION_XDESC, kRefers, 1, 1},
    {kReductionOp, CUDNN_ATTR_OPERATION_REDUCTION_YDESC, kRefers, 1, 1},
    {kReshapeOp, CUDNN_ATTR_OPERATION_RESHAPE_XDESC, kRefers, 1, 1},
    {kReshapeOp, CUDNN_ATTR_OPERATION_RESHAPE_YDESC, kRefers, 1, 1},
    {kConvolution, CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, 1, 1},
    {kConvolution, CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_TYPE_CONVOLUTION_MODE, 1, 1},
    {kConvolution, CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, CUDNN_TYPE_INT64, 1, 1},
    {kConvolution, CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, CUDNN_TYPE_INT64, kSpatial, kSpatial},
    {kConvolution, CUDNN_ATTR_CONVOLUTION_DILATIONS, CUDNN_TYPE_INT64, kSpatial, kSpatial},
    {kConvolution, CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, CUDNN_TYPE_INT64, kSpatial, kSpatial},
    {kConvolution, CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, CUDNN_TYPE_INT64, kSpatial, kSpatial},
    {kForward, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X, kRefers, 1, 1},
    {kForward, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W, kRefers, 1, 1},
    {kForward, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y, kRefers, 1, 1},
    {kForward, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC, kRefers, 1, 1},
    {kForward, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA, CUDNN_TYPE_FLOAT, 1, 1},
    {kForward, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA, CUDNN_TYPE_FLOAT, 1, 1},
    {kData, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX, kRefers, 1, 1},
    {kData, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W, kRefers, 1, 1},
    {kData, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY, kRefers, 1, 1},
    {kData, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC, kRefers, 1, 1},
    {kData, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA, CUDNN_TYPE_FLOAT, 1, 1},
    {kData, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA, CUDNN_TYPE_FLOAT, 1, 1},
    {kFilter, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X, kRefers, 1, 1},
    {kFilter, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW, kRefers, 1, 1},
    {kFilter, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY, kRefers, 1, 1},
    {kFilter, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC, kRefers, 1, 1},
    {kFilter, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA, CUDNN_TYPE_FLOAT, 1, 1},
    {kFilter, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA, CUDNN_TYPE_FLOAT, 1, 1},
    {kGraph, 800 /* CUDNN_ATTR_OPERATIONGRAPH_HANDLE, deprecated in 9 */, CUDNN_TYPE_HANDLE, 1, 1},
    {kGraph, CUDNN_ATTR_OPERATIONGRAPH_OPS, kRefers, 1, kMostOps},
    {kHeuristic, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, kRefers, 1, 1},
    {kHeuristic, CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, 1, 1},
    {kPlan, 400 /* CUDNN_ATTR_EXECUTION_PLAN_HANDLE, deprecated in 9 */, CUDNN_TYPE_HANDLE, 1, 1},
    {kPlan, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, kRefers, 1, 1},
    {kPack, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64, 1, 16},
    {kPack, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, 1, 16},
    {kPack, CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, 1, 1, false},
};

std::size_t bytes_of(cudnnBackendAttributeType_t type) {
  if (type == CUDNN_TYPE_BOOLEAN) return 1;
  const bool is_small = type == CUDNN_TYPE_DATA_TYPE || type == CUDNN_TYPE_CONVOLUTION_MODE ||
                        type == CUDNN_TYPE_HEUR_MODE || type == CUDNN_TYPE_FLOAT || type == CUDNN_TYPE_POINTWISE_MODE ||
                        type == CUDNN_TYPE_REDUCTION_OPERATOR_TYPE;
  return is_small ? 4 : 8;
}

struct Living {
  std::mutex mutex;
  std::set<const void*> all;
};
Living& living() {
  static Living& them = *new Living;
  return them;
}

}  // namespace

CudnnDescriptor* living_descriptor(const void* handle) {
  const std::lock_guard lock(living().mutex);
  return living().all.contains(handle) ? static_cast<CudnnDescriptor*>(const_cast<void*>(handle)) : nullptr;
}

std::vector<const CudnnDescriptor*> CudnnDescriptor::parts(int attribute) const {
  std::vector<const CudnnDescriptor*> found;
  for (const void* const handle : all<void*>(attribute)) {
    const CudnnDescriptor* const descriptor = living_descriptor(handle);
    found.push_back(descriptor != nullptr && descriptor->is_finalized ? descriptor : nullptr);
  }
  return found;
}

const CudnnDescriptor* CudnnDescriptor::part(int attribute) const {
  const auto found = parts(attribute);
  return found.empty() ? nullptr : found.front();
}

cudnnStatus_t check_complete(const CudnnDescriptor& descriptor) {
  for (const Attribute& attribute : kAttributes) {
    if (attribute.descriptor != descriptor.type) continue;
    const bool is_set = descriptor.values.contains(attribute.name);
    if (!is_set && attribute.is_needed) return CUDNN_STATUS_BAD_PARAM;
    if (is_set && attribute.type == kRefers && std::ranges::count(descriptor.parts(attribute.name), nullptr) > 0)
      return CUDNN_STATUS_BAD_PARAM_NOT_FINALIZED;
  }
  return CUDNN_STATUS_SUCCESS;
}

}  // namespace crucible::emulator

using namespace crucible::emulator;

cudnnStatus_t cudnnBackendCreateDescriptor(cudnnBackendDescriptorType_t type, cudnnBackendDescriptor_t* out) {
  if (out == nullptr) return CUDNN_STATUS_BAD_PARAM_NULL_POINTER;
  bool is_known = type == CUDNN_BACKEND_ENGINE_DESCRIPTOR || type == CUDNN_BACKEND_ENGINECFG_DESCRIPTOR;
  for (const Attribute& attribute : kAttributes) is_known |= attribute.descriptor == type;
  if (!is_known) return CUDNN_STATUS_NOT_SUPPORTED;
  auto* const made = new CudnnDescriptor{.type = type, .is_finalized = false, .values = {}, .engine = -1};
  const std::lock_guard lock(living().mutex);
  living().all.insert(made);
  *out = made;
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendDestroyDescriptor(cudnnBackendDescriptor_t handle) {
  CudnnDescriptor* const descriptor = living_descriptor(handle);
  if (descriptor == nullptr) return CUDNN_STATUS_BAD_PARAM;
  const std::lock_guard lock(living().mutex);
  living().all.erase(handle);
  delete descriptor;
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendSetAttribute(cudnnBackendDescriptor_t handle, cudnnBackendAttributeName_t name,
                                       cudnnBackendAttributeType_t type, int64_t count, const void* values) {
  CudnnDescriptor* const descriptor = living_descriptor(handle);
  if (descriptor == nullptr || values == nullptr) return CUDNN_STATUS_BAD_PARAM_NULL_POINTER;
  if (descriptor->is_finalized) return CUDNN_STATUS_NOT_INITIALIZED;
  for (const Attribute& attribute : kAttributes) {
    if (attribute.descriptor != descriptor->type || attribute.name != static_cast<int>(name)) continue;
    if (attribute.type != type) return CUDNN_STATUS_BAD_PARAM_ATTRIBUTE_TYPE;
    if (count < attribute.fewest || count > attribute.most) return CUDNN_STATUS_BAD_PARAM_OUT_OF_BOUND;
    const auto* const bytes = static_cast<const std::byte*>(values);
    descriptor->values[attribute.name] = {type, {bytes, bytes + static_cast<std::size_t>(count) * bytes_of(type)}};
    if (type == kRefers && std::ranges::count(descriptor->parts(attribute.name), nullptr) > 0)
      return CUDNN_STATUS_BAD_PARAM_NOT_FINALIZED;
    return CUDNN_STATUS_SUCCESS;
  }
  return CUDNN_STATUS_BAD_PARAM;
}
