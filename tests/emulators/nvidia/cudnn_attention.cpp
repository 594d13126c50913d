// See cudnn_attention.hpp.
#include "tests/emulators/nvidia/cudnn_attention.hpp"

#include <algorithm>
#include <cmath>

#include "tests/emulators/nvidia/cudnn_nodes.hpp"

namespace crucible::emulator {
namespace {

constexpr std::int64_t kWidestHead = 128, kWidthStep = 8, kAlignment = 16;  // of the first generations that have it

/// From the result back to queries and keys.
class Matcher : public CudnnNodes {
 public:
  using CudnnNodes::CudnnNodes;

  std::optional<AttentionGraph> run() {
    const auto last = std::ranges::find_if(nodes_, [](const CudnnNode& node) {
      return node.type == CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR && !is_virtual(*node.y);
    });
    if (last == nodes_.end()) return std::nullopt;
    ++used_;
    const CudnnNode* const divided = pointwise(*last->x, CUDNN_POINTWISE_DIV);
    if (divided == nullptr || divided->b == nullptr) return std::nullopt;
    const CudnnNode* const powers = pointwise(*divided->x, CUDNN_POINTWISE_EXP);
    if (powers == nullptr || !is_reduced(*divided->b, CUDNN_REDUCE_TENSOR_ADD, *powers->y)) return std::nullopt;
    const CudnnNode* const difference = pointwise(*powers->x, CUDNN_POINTWISE_SUB);
    if (difference == nullptr || difference->b == nullptr ||
        !is_reduced(*difference->b, CUDNN_REDUCE_TENSOR_MAX, *difference->x))
      return std::nullopt;
    if (!has_log_sum(*difference->b, *divided->b)) return std::nullopt;
    const CudnnNode* const first = find_scores(*difference->x);
    if (first == nullptr || used_ != nodes_.size()) return std::nullopt;
    return place(*first, *last, *divided);
  }

 private:
  /// The logarithm of each row's sum: its maximum and the logarithm of what was added up. The real library has an
  /// engine for the form with it alone, read or not.
  bool has_log_sum(const CudnnDescriptor& top, const CudnnDescriptor& total) {
    const auto reader = [&](int mode, const CudnnDescriptor& x, const CudnnDescriptor* b) {
      const auto found = std::ranges::find_if(nodes_, [&](const CudnnNode& node) {
        return node.type == CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR && node.mode == mode &&
               id_of(*node.x) == id_of(x) && (node.b == nullptr) == (b == nullptr) &&
               (b == nullptr || id_of(*node.b) == id_of(*b)) && has_type(*node.y, CUDNN_DATA_FLOAT) &&
               four(*node.y, CUDNN_ATTR_TENSOR_DIMENSIONS) == four(x, CUDNN_ATTR_TENSOR_DIMENSIONS);
      });
      return found == nodes_.end() ? nullptr : &*found;
    };
    const CudnnNode* const logarithm = reader(CUDNN_POINTWISE_LOG, total, nullptr);
    const CudnnNode* const sum = logarithm == nullptr ? nullptr : reader(CUDNN_POINTWISE_ADD, top, logarithm->y);
    if (sum == nullptr) return false;
    used_ += 2;
    if (is_virtual(*sum->y)) return true;
    found_.part = AttentionPart::kForward;
    return take_log_sums(*sum->y);
  }

  std::optional<AttentionGraph> place(const CudnnNode& first, const CudnnNode& last, const CudnnNode& divided) {
    take_type(*first.x);
    AttentionGraph& a = found_;
    if (!take(a.q, *first.x) || !take_turned(a.k, *first.b) || !take(a.v, *last.b) || !take(a.o, *last.y) ||
        !has_type(*divided.y, type_))
      return std::nullopt;
    return fits(*first.y) ? std::optional(a) : std::nullopt;
  }
};

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
  if (a.part == AttentionPart::kForward) {
    const Sizes& s = a.log_sums.strides;
    write_element(ElementType::kF32, a.log_sums.data, b * s[0] + h * s[1] + row * s[2],
                  static_cast<double>(top + std::log(total)));
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

std::vector<AttentionOperand*> AttentionGraph::operands() {
  std::vector<AttentionOperand*> all;
  if (part != AttentionPart::kAlone) all.push_back(&log_sums);
  for (AttentionOperand* operand : {&q, &k, &v, &o}) all.push_back(operand);
  if (part != AttentionPart::kBackward) return all;
  for (AttentionOperand* operand : {&gradient, &q_gradient, &k_gradient, &v_gradient}) all.push_back(operand);
  return all;
}

bool AttentionGraph::is_supported() const {
  if (type == ElementType::kF32) return false;
  AttentionGraph copy = *this;
  for (const AttentionOperand* operand : copy.operands()) {
    if (operand == &copy.log_sums) continue;
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
  std::string text = part == AttentionPart::kAlone     ? "attention"
                     : part == AttentionPart::kForward ? "attention_forward"
                                                       : "attention_backward";
  text += type == ElementType::kF16 ? "_f16" : type == ElementType::kBF16 ? "_bf16" : "_f32";
  text += is_causal ? "_causal" : "";
  for (std::size_t i = 0; i < 4; ++i) text += (i == 0 ? "_" : "x") + std::to_string(q.sizes[i]);
  return text + "_" + std::to_string(k.sizes[2]);
}

std::uint64_t AttentionGraph::operations() const {
  const std::int64_t widths =
      part == AttentionPart::kBackward ? 3 * q.sizes[3] + 2 * v.sizes[3] : q.sizes[3] + v.sizes[3];
  return 2 * static_cast<std::uint64_t>(q.sizes[0] * q.sizes[1] * q.sizes[2] * k.sizes[2] * widths);
}

std::uint64_t AttentionGraph::memory_bytes() const {
  AttentionGraph copy = *this;
  std::uint64_t bytes = 0;
  for (const AttentionOperand* x : copy.operands())
    bytes += static_cast<std::uint64_t>(x->sizes[0] * x->sizes[1] * x->sizes[2] * x->sizes[3]) *
             size_bytes(x == &copy.log_sums ? ElementType::kF32 : type);
  return bytes;
}

std::optional<AttentionGraph> describe_attention(const std::vector<const CudnnDescriptor*>& operations) {
  std::vector<CudnnNode> nodes;
  for (const CudnnDescriptor* operation : operations) {
    const auto node = operation == nullptr ? std::nullopt : read_node(*operation);
    if (!node) return std::nullopt;
    nodes.push_back(*node);
  }
  if (auto forward = Matcher(nodes).run()) return forward;
  return match_attention_backward(std::move(nodes));
}

void attend(const AttentionGraph& a) {
  std::vector<float> weights(static_cast<std::size_t>(a.k.sizes[2]));
  for (std::int64_t b = 0; b < a.q.sizes[0]; ++b)
    for (std::int64_t h = 0; h < a.q.sizes[1]; ++h)
      for (std::int64_t row = 0; row < a.q.sizes[2]; ++row) attend_row(a, b, h, row, weights);
}

}  // namespace crucible::emulator
