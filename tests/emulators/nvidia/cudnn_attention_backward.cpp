// The gradient of an attention: the form of its graph, and the computation. See cudnn_attention.hpp.
#include <cmath>

#include "tests/emulators/nvidia/cudnn_nodes.hpp"

namespace crucible::emulator {
namespace {

/// From the three results back to the operands.
class Matcher : public CudnnNodes {
 public:
  using CudnnNodes::CudnnNodes;

  std::optional<AttentionGraph> run() {
    if (!find_results()) return std::nullopt;
    found_.part = AttentionPart::kBackward;
    take_type(*of_q_->b);
    AttentionGraph& a = found_;
    if (!take(a.q_gradient, *of_q_->y) || !take(a.k_gradient, *of_k_->y) || !take(a.v_gradient, *of_v_->y) ||
        !take(a.k, *of_q_->b) || !take(a.q, *of_k_->b) || !take(a.gradient, *of_v_->b))
      return std::nullopt;
    const CudnnNode* const scores = find_probabilities();
    if (scores == nullptr || !find_slopes() || used_ != nodes_.size() || !fits(*scores->y)) return std::nullopt;
    const bool has_sizes = a.gradient.sizes == a.o.sizes && a.q_gradient.sizes == a.q.sizes &&
                           a.k_gradient.sizes == a.k.sizes && a.v_gradient.sizes == a.v.sizes;
    return has_sizes ? std::optional(a) : std::nullopt;
  }

 private:
  /// The three products that end in memory: that of the queries reads slopes, the others what was turned.
  bool find_results() {
    for (const CudnnNode& node : nodes_) {
      if (is_virtual(*node.y)) continue;
      if (node.type != CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR) return false;
      ++used_;
      const CudnnDescriptor* from = node.x;
      const CudnnNode* const turned = producer(*from);
      if (turned == nullptr) return false;
      const CudnnNode** place = &of_q_;
      if (turned->type == CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR) {
        if (!is_turned(*turned)) return false;
        ++used_;
        from = turned->x;
        const CudnnNode* const made = producer(*from);
        const bool is_exponential = made != nullptr && made->type == CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR &&
                                    made->mode == CUDNN_POINTWISE_EXP;
        place = is_exponential ? &of_v_ : &of_k_;
        (is_exponential ? probabilities_ : turned_slopes_) = from;
        turned_type_[is_exponential ? 0 : 1] = turned->y;
      } else {
        slopes_ = from;
      }
      if (*place != nullptr) return false;
      *place = &node;
    }
    return of_q_ != nullptr && of_k_ != nullptr && of_v_ != nullptr && id_of(*slopes_) == id_of(*turned_slopes_);
  }

  static bool is_turned(const CudnnNode& node) {
    Sizes from = four(*node.x, CUDNN_ATTR_TENSOR_DIMENSIONS);
    std::swap(from[2], from[3]);
    const Sizes strides = four(*node.y, CUDNN_ATTR_TENSOR_STRIDES);
    return four(*node.y, CUDNN_ATTR_TENSOR_DIMENSIONS) == from && strides[2] == 1 && strides[3] == from[2];
  }

  /// exp(scores - log sums): the product that the scores are.
  const CudnnNode* find_probabilities() {
    const CudnnNode* const power = pointwise(*probabilities_, CUDNN_POINTWISE_EXP);
    const CudnnNode* const less = power == nullptr ? nullptr : pointwise(*power->x, CUDNN_POINTWISE_SUB);
    if (less == nullptr || less->b == nullptr || !take_log_sums(*less->b) || !has_type(*turned_type_[0], type_))
      return nullptr;
    const CudnnNode* const scores = find_scores(*less->x);
    AttentionOperand keys;
    return scores != nullptr && id_of(*scores->x) == found_.q.id && take_turned(keys, *scores->b) &&
                   keys.id == found_.k.id && keys.strides == found_.k.strides
               ? scores
               : nullptr;
  }

  /// scale * (gradient v^T - factor * sum(gradient * o)) * probabilities, rounded.
  bool find_slopes() {
    const CudnnNode* const scaled = pointwise(*slopes_, CUDNN_POINTWISE_MUL);
    if (scaled == nullptr || !is_number(scaled->b) || id_of(*scaled->b) != found_.scale_id ||
        !has_type(*slopes_, type_) || !has_type(*turned_type_[1], type_))
      return false;
    const CudnnNode* const weighted = pointwise(*scaled->x, CUDNN_POINTWISE_MUL);
    if (weighted == nullptr || weighted->b == nullptr || id_of(*weighted->b) != id_of(*probabilities_)) return false;
    const CudnnNode* const less = pointwise(*weighted->x, CUDNN_POINTWISE_SUB);
    if (less == nullptr || less->b == nullptr) return false;
    const CudnnNode* const first = product(*less->x);
    if (first == nullptr || id_of(*first->x) != found_.gradient.id || !take_turned(found_.v, *first->b)) return false;
    // Without the factor the real library wants three times the workspace: a form that nobody asks for.
    const CudnnNode* const factor = pointwise(*less->b, CUDNN_POINTWISE_MUL);
    if (factor == nullptr || !is_number(factor->b)) return false;
    found_.factor_id = id_of(*factor->b);
    const CudnnNode* const sum = producer(*factor->x);
    const CudnnNode* const both = sum == nullptr ? nullptr : pointwise(*sum->x, CUDNN_POINTWISE_MUL);
    return both != nullptr && both->b != nullptr && is_reduced(*factor->x, CUDNN_REDUCE_TENSOR_ADD, *both->y) &&
           id_of(*both->x) == found_.gradient.id && take(found_.o, *both->b);
  }

  const CudnnNode *of_q_ = nullptr, *of_k_ = nullptr, *of_v_ = nullptr;
  const CudnnDescriptor *probabilities_ = nullptr, *slopes_ = nullptr, *turned_slopes_ = nullptr;
  const CudnnDescriptor* turned_type_[2] = {};
};

using Plane = std::vector<float>;

void put(const AttentionGraph& a, const AttentionOperand& x, const Sizes& where, float number) {
  std::int64_t index = 0;
  for (std::size_t i = 0; i < 4; ++i) index += where[i] * x.strides[i];
  write_element(a.type, x.data, index, static_cast<double>(number));
}

/// What the probabilities of one head are, and the slopes of its scores: rounded as they are multiplied.
void fill_planes(const AttentionGraph& a, std::int64_t b, std::int64_t h, Plane& probabilities, Plane& slopes) {
  const std::int64_t rows = a.q.sizes[2], keys = a.k.sizes[2];
  for (std::int64_t row = 0; row < rows; ++row) {
    float inner = 0;
    for (std::int64_t i = a.o.sizes[3]; i-- > 0;)
      inner += at(a, a.gradient, {b, h, row, i}) * at(a, a.o, {b, h, row, i});
    inner *= a.factor;
    const Sizes& s = a.log_sums.strides;
    const auto log_sum =
        static_cast<float>(read_element(ElementType::kF32, a.log_sums.data, b * s[0] + h * s[1] + row * s[2]));
    for (std::int64_t key = 0; key < keys; ++key) {
      float score = 0, slope = 0;
      for (std::int64_t i = a.q.sizes[3]; i-- > 0;) score += at(a, a.q, {b, h, row, i}) * at(a, a.k, {b, h, key, i});
      for (std::int64_t i = a.v.sizes[3]; i-- > 0;)
        slope += at(a, a.gradient, {b, h, row, i}) * at(a, a.v, {b, h, key, i});
      score = a.is_causal && row < key ? a.hidden : score * a.scale;
      const float p = std::exp(score - log_sum);
      const auto place = static_cast<std::size_t>(row * keys + key);
      probabilities[place] = rounded(a.type, p);
      slopes[place] = rounded(a.type, (slope - inner) * p * a.scale);
    }
  }
}

}  // namespace

std::optional<AttentionGraph> match_attention_backward(std::vector<CudnnNode> nodes) {
  return Matcher(std::move(nodes)).run();
}

void attend_backward(const AttentionGraph& a) {
  const std::int64_t rows = a.q.sizes[2], keys = a.k.sizes[2];
  Plane probabilities(static_cast<std::size_t>(rows * keys)), slopes(probabilities.size());
  const auto place = [&](std::int64_t row, std::int64_t key) { return static_cast<std::size_t>(row * keys + key); };
  for (std::int64_t b = 0; b < a.q.sizes[0]; ++b)
    for (std::int64_t h = 0; h < a.q.sizes[1]; ++h) {
      fill_planes(a, b, h, probabilities, slopes);
      for (std::int64_t row = 0; row < rows; ++row)
        for (std::int64_t i = 0; i < a.q.sizes[3]; ++i) {
          float sum = 0;
          for (std::int64_t key = keys; key-- > 0;) sum += slopes[place(row, key)] * at(a, a.k, {b, h, key, i});
          put(a, a.q_gradient, {b, h, row, i}, sum);
        }
      for (std::int64_t key = 0; key < keys; ++key) {
        for (std::int64_t i = 0; i < a.k.sizes[3]; ++i) {
          float sum = 0;
          for (std::int64_t row = rows; row-- > 0;) sum += slopes[place(row, key)] * at(a, a.q, {b, h, row, i});
          put(a, a.k_gradient, {b, h, key, i}, sum);
        }
        for (std::int64_t i = 0; i < a.v.sizes[3]; ++i) {
          float sum = 0;
          for (std::int64_t row = rows; row-- > 0;)
            sum += probabilities[place(row, key)] * at(a, a.gradient, {b, h, row, i});
          put(a, a.v_gradient, {b, h, key, i}, sum);
        }
      }
    }
}

}  // namespace crucible::emulator
