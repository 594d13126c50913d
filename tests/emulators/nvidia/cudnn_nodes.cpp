// See cudnn_nodes.hpp.
#include "tests/emulators/nvidia/cudnn_nodes.hpp"

#include <algorithm>

namespace crucible::emulator {

Sizes four(const CudnnDescriptor& descriptor, int attribute) {
  Sizes result = {};
  std::ranges::copy(descriptor.all<std::int64_t>(attribute), result.begin());
  return result;
}

bool flag(const CudnnDescriptor& tensor, int attribute) {
  const auto set = tensor.all<std::uint8_t>(attribute);
  return !set.empty() && set.front() != 0;
}

std::int64_t id_of(const CudnnDescriptor& tensor) { return tensor.one<std::int64_t>(CUDNN_ATTR_TENSOR_UNIQUE_ID); }
bool is_virtual(const CudnnDescriptor& tensor) { return flag(tensor, CUDNN_ATTR_TENSOR_IS_VIRTUAL); }
bool has_type(const CudnnDescriptor& tensor, cudnnDataType_t type) {
  return tensor.one<cudnnDataType_t>(CUDNN_ATTR_TENSOR_DATA_TYPE) == type;
}

std::optional<CudnnNode> read_node(const CudnnDescriptor& operation) {
  CudnnNode node{.type = operation.type};
  const auto computes_in = [](const CudnnDescriptor* how, int attribute, cudnnDataType_t type) {
    return how != nullptr && how->one<cudnnDataType_t>(attribute) == type;
  };
  if (operation.type == CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR) {
    if (!computes_in(operation.part(CUDNN_ATTR_OPERATION_MATMUL_DESC), CUDNN_ATTR_MATMUL_COMP_TYPE, CUDNN_DATA_FLOAT))
      return std::nullopt;
    node.x = operation.part(CUDNN_ATTR_OPERATION_MATMUL_ADESC);
    node.b = operation.part(CUDNN_ATTR_OPERATION_MATMUL_BDESC);
    node.y = operation.part(CUDNN_ATTR_OPERATION_MATMUL_CDESC);
  } else if (operation.type == CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR) {
    const CudnnDescriptor* const how = operation.part(CUDNN_ATTR_OPERATION_REDUCTION_DESC);
    if (!computes_in(how, CUDNN_ATTR_REDUCTION_COMP_TYPE, CUDNN_DATA_FLOAT)) return std::nullopt;
    node.mode = how->one<cudnnReduceTensorOp_t>(CUDNN_ATTR_REDUCTION_OPERATOR);
    node.x = operation.part(CUDNN_ATTR_OPERATION_REDUCTION_XDESC);
    node.y = operation.part(CUDNN_ATTR_OPERATION_REDUCTION_YDESC);
  } else if (operation.type == CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR) {
    const CudnnDescriptor* const how = operation.part(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR);
    if (how == nullptr) return std::nullopt;
    node.mode = how->one<cudnnPointwiseMode_t>(CUDNN_ATTR_POINTWISE_MODE);
    const auto axis = how->all<std::int64_t>(CUDNN_ATTR_POINTWISE_AXIS);
    if (!axis.empty()) node.axis = axis.front();
    node.x = operation.part(CUDNN_ATTR_OPERATION_POINTWISE_XDESC);
    node.b = operation.part(CUDNN_ATTR_OPERATION_POINTWISE_BDESC);
    node.t = operation.part(CUDNN_ATTR_OPERATION_POINTWISE_TDESC);
    node.y = operation.part(CUDNN_ATTR_OPERATION_POINTWISE_YDESC);
  } else if (operation.type == CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR) {
    node.x = operation.part(CUDNN_ATTR_OPERATION_RESHAPE_XDESC);
    node.y = operation.part(CUDNN_ATTR_OPERATION_RESHAPE_YDESC);
  } else {
    return std::nullopt;
  }
  return node.x == nullptr || node.y == nullptr ? std::nullopt : std::optional(node);
}

bool is_number(const CudnnDescriptor* tensor) {
  return tensor != nullptr && flag(*tensor, CUDNN_ATTR_TENSOR_IS_BY_VALUE) && has_type(*tensor, CUDNN_DATA_FLOAT) &&
         four(*tensor, CUDNN_ATTR_TENSOR_DIMENSIONS) == Sizes{1, 1, 1, 1};
}

float at(const AttentionGraph& a, const AttentionOperand& x, const Sizes& where) {
  std::int64_t index = 0;
  for (std::size_t i = 0; i < 4; ++i) index += where[i] * x.strides[i];
  return static_cast<float>(read_element(a.type, x.data, index));
}

float rounded(ElementType type, float value) {
  std::array<char, 8> place;
  write_element(type, place.data(), 0, static_cast<double>(value));
  return static_cast<float>(read_element(type, place.data(), 0));
}

const CudnnNode* CudnnNodes::producer(const CudnnDescriptor& tensor) const {
  const auto found =
      std::ranges::find_if(nodes_, [&](const CudnnNode& node) { return id_of(*node.y) == id_of(tensor); });
  return found == nodes_.end() || !is_virtual(*found->y) ? nullptr : &*found;
}

const CudnnNode* CudnnNodes::pointwise(const CudnnDescriptor& tensor, int mode) {
  const CudnnNode* const node = producer(tensor);
  if (node == nullptr || node->type != CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR || node->mode != mode)
    return nullptr;
  ++used_;
  return node;
}

bool CudnnNodes::is_reduced(const CudnnDescriptor& tensor, int mode, const CudnnDescriptor& of) {
  const CudnnNode* const node = producer(tensor);
  if (node == nullptr || node->type != CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR || node->mode != mode ||
      id_of(*node->x) != id_of(of))
    return false;
  const Sizes from = four(*node->x, CUDNN_ATTR_TENSOR_DIMENSIONS);
  ++used_;
  return four(*node->y, CUDNN_ATTR_TENSOR_DIMENSIONS) == Sizes{from[0], from[1], from[2], 1} &&
         has_type(*node->y, CUDNN_DATA_FLOAT);
}

const CudnnNode* CudnnNodes::find_scores(const CudnnDescriptor& tensor) {
  const CudnnDescriptor* scaled = &tensor;
  if (const CudnnNode* const select = pointwise(tensor, CUDNN_POINTWISE_BINARY_SELECT)) {
    if (!is_number(select->b) || select->t == nullptr || !is_causal(*select->t, *select->x)) return nullptr;
    found_.is_causal = true;
    found_.hidden_id = id_of(*select->b);
    scaled = select->x;
  }
  const CudnnNode* const multiplied = pointwise(*scaled, CUDNN_POINTWISE_MUL);
  if (multiplied == nullptr || !is_number(multiplied->b)) return nullptr;
  found_.scale_id = id_of(*multiplied->b);
  return product(*multiplied->x);
}

bool CudnnNodes::is_causal(const CudnnDescriptor& tensor, const CudnnDescriptor& of) {
  const CudnnNode* const compared = pointwise(tensor, CUDNN_POINTWISE_CMP_GE);
  if (compared == nullptr || compared->b == nullptr || !has_type(*compared->y, CUDNN_DATA_BOOLEAN)) return false;
  const CudnnNode *const row = pointwise(*compared->x, CUDNN_POINTWISE_GEN_INDEX), *const column = pointwise(
                                                                                       *compared->b,
                                                                                       CUDNN_POINTWISE_GEN_INDEX);
  const auto is_index = [&](const CudnnNode* node, std::int64_t axis) {
    return node != nullptr && node->axis == axis && id_of(*node->x) == id_of(of) &&
           has_type(*node->y, CUDNN_DATA_INT32);
  };
  return is_index(row, 2) && is_index(column, 3);
}

bool CudnnNodes::take(AttentionOperand& operand, const CudnnDescriptor& tensor) {
  if (is_virtual(tensor) || flag(tensor, CUDNN_ATTR_TENSOR_IS_BY_VALUE)) return false;
  operand.sizes = four(tensor, CUDNN_ATTR_TENSOR_DIMENSIONS);
  operand.strides = four(tensor, CUDNN_ATTR_TENSOR_STRIDES);
  operand.id = id_of(tensor);
  operand.alignment = tensor.one<std::int64_t>(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT);
  return has_type(tensor, type_);
}

const CudnnNode* CudnnNodes::product(const CudnnDescriptor& tensor) {
  const CudnnNode* const node = producer(tensor);
  if (node == nullptr || node->type != CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR ||
      !has_type(*node->y, CUDNN_DATA_FLOAT))
    return nullptr;
  ++used_;
  return node;
}

bool CudnnNodes::take_log_sums(const CudnnDescriptor& tensor) {
  if (is_virtual(tensor) || flag(tensor, CUDNN_ATTR_TENSOR_IS_BY_VALUE)) return false;
  found_.log_sums = {.sizes = four(tensor, CUDNN_ATTR_TENSOR_DIMENSIONS),
                     .strides = four(tensor, CUDNN_ATTR_TENSOR_STRIDES),
                     .id = id_of(tensor),
                     .alignment = tensor.one<std::int64_t>(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT)};
  return has_type(tensor, CUDNN_DATA_FLOAT);
}

bool CudnnNodes::take_turned(AttentionOperand& operand, const CudnnDescriptor& tensor) {
  if (!take(operand, tensor)) return false;
  std::swap(operand.sizes[2], operand.sizes[3]);
  std::swap(operand.strides[2], operand.strides[3]);
  return true;
}

void CudnnNodes::take_type(const CudnnDescriptor& tensor) {
  type_ = tensor.one<cudnnDataType_t>(CUDNN_ATTR_TENSOR_DATA_TYPE);
  found_.type = type_ == CUDNN_DATA_HALF       ? ElementType::kF16
                : type_ == CUDNN_DATA_BFLOAT16 ? ElementType::kBF16
                                               : ElementType::kF32;
}

bool CudnnNodes::fits(const CudnnDescriptor& scores) const {
  const AttentionGraph& a = found_;
  const Sizes sizes = {a.q.sizes[0], a.q.sizes[1], a.q.sizes[2], a.k.sizes[2]};
  return four(scores, CUDNN_ATTR_TENSOR_DIMENSIONS) == sizes && a.k.sizes[3] == a.q.sizes[3] &&
         a.v.sizes[2] == a.k.sizes[2] && a.o.sizes == Sizes{sizes[0], sizes[1], sizes[2], a.v.sizes[3]} &&
         std::equal(sizes.begin(), sizes.begin() + 2, a.k.sizes.begin()) &&
         std::equal(sizes.begin(), sizes.begin() + 2, a.v.sizes.begin()) &&
         (a.part == AttentionPart::kAlone || a.log_sums.sizes == Sizes{sizes[0], sizes[1], sizes[2], 1});
}

}  // namespace crucible::emulator
