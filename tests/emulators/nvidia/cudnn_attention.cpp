// See cudnn_attention.hpp.
#include "tests/emulators/nvidia/cudnn_attention.hpp"

#include <algorithm>
#include <cmath>

namespace crucible::emulator {
namespace {

using Sizes = std::array<std::int64_t, 4>;

constexpr std::int64_t kWidestHead = 128, kWidthStep = 8, kAlignment = 16;  // of the first generations that have it

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

/// An operation with its tensors: null where it has none, or where they do not live any more.
struct Node {
  cudnnBackendDescriptorType_t type;
  int mode = -1;  // of a pointwise operation or a reduction
  std::int64_t axis = -1;
  const CudnnDescriptor *x = nullptr, *b = nullptr, *t = nullptr, *y = nullptr;
};

std::optional<Node> read_node(const CudnnDescriptor& operation) {
  Node node{.type = operation.type};
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
  } else {
    return std::nullopt;
  }
  return node.x == nullptr || node.y == nullptr ? std::nullopt : std::optional(node);
}

/// From the result back to queries and keys.
class Matcher {
 public:
  explicit Matcher(std::vector<Node> nodes) : nodes_(std::move(nodes)) {}

  std::optional<AttentionGraph> run() {
    const auto last = std::ranges::find_if(nodes_, [](const Node& node) { return !is_virtual(*node.y); });
    if (last == nodes_.end() || last->type != CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR) return std::nullopt;
    ++used_;
    const Node* const divided = pointwise(*last->x, CUDNN_POINTWISE_DIV);
    if (divided == nullptr || divided->b == nullptr) return std::nullopt;
    const Node* const powers = pointwise(*divided->x, CUDNN_POINTWISE_EXP);
    if (powers == nullptr || !is_reduced(*divided->b, CUDNN_REDUCE_TENSOR_ADD, *powers->y)) return std::nullopt;
    const Node* const difference = pointwise(*powers->x, CUDNN_POINTWISE_SUB);
    if (difference == nullptr || difference->b == nullptr ||
        !is_reduced(*difference->b, CUDNN_REDUCE_TENSOR_MAX, *difference->x))
      return std::nullopt;
    if (!has_log_sum(*difference->b, *divided->b)) return std::nullopt;
    const Node* const first = find_scores(*difference->x);
    if (first == nullptr || used_ != nodes_.size()) return std::nullopt;
    return place(*first, *last, *divided);
  }

 private:
  /// The node that makes a virtual tensor; each may be asked for as often as the form has it.
  const Node* producer(const CudnnDescriptor& tensor) const {
    const auto found = std::ranges::find_if(nodes_, [&](const Node& node) { return id_of(*node.y) == id_of(tensor); });
    return found == nodes_.end() || !is_virtual(*found->y) ? nullptr : &*found;
  }
  const Node* pointwise(const CudnnDescriptor& tensor, int mode) {
    const Node* const node = producer(tensor);
    if (node == nullptr || node->type != CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR || node->mode != mode)
      return nullptr;
    ++used_;
    return node;
  }
  bool is_reduced(const CudnnDescriptor& tensor, int mode, const CudnnDescriptor& of) {
    const Node* const node = producer(tensor);
    if (node == nullptr || node->type != CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR || node->mode != mode ||
        id_of(*node->x) != id_of(of))
      return false;
    const Sizes from = four(*node->x, CUDNN_ATTR_TENSOR_DIMENSIONS);
    ++used_;
    return four(*node->y, CUDNN_ATTR_TENSOR_DIMENSIONS) == Sizes{from[0], from[1], from[2], 1} &&
           has_type(*node->y, CUDNN_DATA_FLOAT);
  }
  /// The logarithm of each row's sum: its maximum and the logarithm of what was added up. The real library has an
  /// engine for the form with it alone, read or not.
  bool has_log_sum(const CudnnDescriptor& top, const CudnnDescriptor& total) {
    const auto reader = [&](int mode, const CudnnDescriptor& x, const CudnnDescriptor* b) {
      const auto found = std::ranges::find_if(nodes_, [&](const Node& node) {
        return node.type == CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR && node.mode == mode &&
               id_of(*node.x) == id_of(x) && (node.b == nullptr) == (b == nullptr) &&
               (b == nullptr || id_of(*node.b) == id_of(*b)) && has_type(*node.y, CUDNN_DATA_FLOAT) &&
               four(*node.y, CUDNN_ATTR_TENSOR_DIMENSIONS) == four(x, CUDNN_ATTR_TENSOR_DIMENSIONS);
      });
      return found == nodes_.end() ? nullptr : &*found;
    };
    const Node* const logarithm = reader(CUDNN_POINTWISE_LOG, total, nullptr);
    if (logarithm == nullptr || reader(CUDNN_POINTWISE_ADD, top, logarithm->y) == nullptr) return false;
    used_ += 2;
    return true;
  }
  static bool is_number(const CudnnDescriptor* tensor) {
    return tensor != nullptr && flag(*tensor, CUDNN_ATTR_TENSOR_IS_BY_VALUE) && has_type(*tensor, CUDNN_DATA_FLOAT) &&
           four(*tensor, CUDNN_ATTR_TENSOR_DIMENSIONS) == Sizes{1, 1, 1, 1};
  }

  /// What is masked and scaled: the first product.
  const Node* find_scores(const CudnnDescriptor& tensor) {
    const CudnnDescriptor* scaled = &tensor;
    if (const Node* const select = pointwise(tensor, CUDNN_POINTWISE_BINARY_SELECT)) {
      if (!is_number(select->b) || select->t == nullptr || !is_causal(*select->t, *select->x)) return nullptr;
      found_.is_causal = true;
      found_.hidden_id = id_of(*select->b);
      scaled = select->x;
    }
    const Node* const multiplied = pointwise(*scaled, CUDNN_POINTWISE_MUL);
    if (multiplied == nullptr || !is_number(multiplied->b)) return nullptr;
    found_.scale_id = id_of(*multiplied->b);
    const Node* const first = producer(*multiplied->x);
    if (first == nullptr || first->type != CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR ||
        !has_type(*first->y, CUDNN_DATA_FLOAT))
      return nullptr;
    ++used_;
    return first;
  }
  /// The row's number is at least the column's.
  bool is_causal(const CudnnDescriptor& tensor, const CudnnDescriptor& of) {
    const Node* const compared = pointwise(tensor, CUDNN_POINTWISE_CMP_GE);
    if (compared == nullptr || compared->b == nullptr || !has_type(*compared->y, CUDNN_DATA_BOOLEAN)) return false;
    const Node *const row = pointwise(*compared->x, CUDNN_POINTWISE_GEN_INDEX), *const column = pointwise(
                                                                                    *compared->b,
                                                                                    CUDNN_POINTWISE_GEN_INDEX);
    const auto is_index = [&](const Node* node, std::int64_t axis) {
      return node != nullptr && node->axis == axis && id_of(*node->x) == id_of(of) &&
             has_type(*node->y, CUDNN_DATA_INT32);
    };
    return is_index(row, 2) && is_index(column, 3);
  }

  bool take(AttentionOperand& operand, const CudnnDescriptor& tensor) {
    if (is_virtual(tensor) || flag(tensor, CUDNN_ATTR_TENSOR_IS_BY_VALUE)) return false;
    operand.sizes = four(tensor, CUDNN_ATTR_TENSOR_DIMENSIONS);
    operand.strides = four(tensor, CUDNN_ATTR_TENSOR_STRIDES);
    operand.id = id_of(tensor);
    operand.alignment = tensor.one<std::int64_t>(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT);
    return has_type(tensor, type_);
  }
  std::optional<AttentionGraph> place(const Node& first, const Node& last, const Node& divided) {
    type_ = first.x->one<cudnnDataType_t>(CUDNN_ATTR_TENSOR_DATA_TYPE);
    AttentionGraph& a = found_;
    if (!take(a.q, *first.x) || !take(a.k, *first.b) || !take(a.v, *last.b) || !take(a.o, *last.y) ||
        !has_type(*divided.y, type_))
      return std::nullopt;
    std::swap(a.k.sizes[2], a.k.sizes[3]);
    std::swap(a.k.strides[2], a.k.strides[3]);
    a.type = type_ == CUDNN_DATA_HALF       ? ElementType::kF16
             : type_ == CUDNN_DATA_BFLOAT16 ? ElementType::kBF16
                                            : ElementType::kF32;
    const Sizes scores = {a.q.sizes[0], a.q.sizes[1], a.q.sizes[2], a.k.sizes[2]};
    const bool fits = four(*first.y, CUDNN_ATTR_TENSOR_DIMENSIONS) == scores && a.k.sizes[3] == a.q.sizes[3] &&
                      a.v.sizes[2] == a.k.sizes[2] &&
                      a.o.sizes == Sizes{scores[0], scores[1], scores[2], a.v.sizes[3]} &&
                      std::equal(scores.begin(), scores.begin() + 2, a.k.sizes.begin()) &&
                      std::equal(scores.begin(), scores.begin() + 2, a.v.sizes.begin());
    return fits ? std::optional(a) : std::nullopt;
  }

  std::vector<Node> nodes_;
  AttentionGraph found_;
  cudnnDataType_t type_ = CUDNN_DATA_HALF;
  std::size_t used_ = 0;
};

float at(const AttentionGraph& a, const AttentionOperand& x, const Sizes& where) {
  std::int64_t index = 0;
  for (std::size_t i = 0; i < 4; ++i) index += where[i] * x.strides[i];
  return static_cast<float>(read_element(a.type, x.data, index));
}

/// As the type holds it.
float rounded(ElementType type, float value) {
  std::array<char, 8> place;
  write_element(type, place.data(), 0, static_cast<double>(value));
  return static_cast<float>(read_element(type, place.data(), 0));
}

void attend_row(const AttentionGraph& a, std::int64_t b, std::int64_t h, std::int64_t row,
                std::vector<float>& weights) {
  const std::int64_t keys = a.k.sizes[2], width = a.q.sizes[3];
  float top = -INFINITY, total = 0;
  for (std::int64_t key = keys; key-- > 0;) {
    float sum = 0;
    for (std::int64_t i = width; i-- > 0;) sum += at(a, a.q, {b, h, row, i}) * at(a, a.k, {b, h, key, i});
    float& score = weights[static_cast<std::size_t>(key)] = sum * a.scale;
    if (a.is_causal && row < key) score = a.hidden;
    top = std::max(top, score);
  }
  for (std::int64_t key = keys; key-- > 0;) {
    float& weight = weights[static_cast<std::size_t>(key)];
    weight = std::exp(weight - top);
    total += weight;
  }
  for (float& weight : weights) weight = rounded(a.type, weight / total);
  for (std::int64_t i = 0; i < a.o.sizes[3]; ++i) {
    float sum = 0;
    for (std::int64_t key = keys; key-- > 0;)
      sum += weights[static_cast<std::size_t>(key)] * at(a, a.v, {b, h, key, i});
    const Sizes& s = a.o.strides;
    write_element(a.type, a.o.data, b * s[0] + h * s[1] + row * s[2] + i * s[3], static_cast<double>(sum));
  }
}

}  // namespace

bool AttentionGraph::is_supported() const {
  if (type == ElementType::kF32) return false;
  for (const AttentionOperand* operand : {&q, &k, &v, &o}) {
    const std::int64_t width = operand->sizes[3];
    if (width > kWidestHead || width % kWidthStep != 0 || operand->alignment % kAlignment != 0 ||
        operand->strides[3] != 1)
      return false;
    for (std::size_t i = 0; i < 3; ++i) {
      if (operand->sizes[i] > 1 && operand->strides[i] % kWidthStep != 0) return false;
    }
  }
  return true;
}

std::string AttentionGraph::name() const {
  std::string text = type == ElementType::kF16    ? "attention_f16"
                     : type == ElementType::kBF16 ? "attention_bf16"
                                                  : "attention_f32";
  text += is_causal ? "_causal" : "";
  for (std::size_t i = 0; i < 4; ++i) text += (i == 0 ? "_" : "x") + std::to_string(q.sizes[i]);
  return text + "_" + std::to_string(k.sizes[2]);
}

std::uint64_t AttentionGraph::operations() const {
  return 2 * static_cast<std::uint64_t>(q.sizes[0] * q.sizes[1] * q.sizes[2] * k.sizes[2] * (q.sizes[3] + v.sizes[3]));
}

std::uint64_t AttentionGraph::memory_bytes() const {
  std::int64_t elements = 0;
  for (const AttentionOperand* x : {&q, &k, &v, &o}) elements += x->sizes[0] * x->sizes[1] * x->sizes[2] * x->sizes[3];
  return static_cast<std::uint64_t>(elements) * size_bytes(type);
}

std::optional<AttentionGraph> describe_attention(const std::vector<const CudnnDescriptor*>& operations) {
  std::vector<Node> nodes;
  for (const CudnnDescriptor* operation : operations) {
    const auto node = operation == nullptr ? std::nullopt : read_node(*operation);
    if (!node) return std::nullopt;
    nodes.push_back(*node);
  }
  return Matcher(std::move(nodes)).run();
}

void attend(const AttentionGraph& a) {
  std::vector<float> weights(static_cast<std::size_t>(a.k.sizes[2]));
  for (std::int64_t b = 0; b < a.q.sizes[0]; ++b)
    for (std::int64_t h = 0; h < a.q.sizes[1]; ++h)
      for (std::int64_t row = 0; row < a.q.sizes[2]; ++row) attend_row(a, b, h, row, weights);
}

}  // namespace crucible::emulator
