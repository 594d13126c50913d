// Attention with its gradient and the cell of an LSTM, from their definitions. See reference_composite.hpp.
#include <algorithm>
#include <cmath>
#include <limits>

#include "core/graph/reference_composite.hpp"

namespace crucible::graph {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

/// Query [b, heads, n, w], key [b, fewer heads, m, w] and value [b, fewer heads, m, v]: neighbouring heads share keys.
struct Problem {
  const NamedTensor *query, *key, *value, *mask;
  std::size_t batches = 0, heads = 0, queries = 0, keys = 0, width = 0, value_width = 0, fewer = 0;
  double scale = 1;
  bool has_left = false, has_right = false;
  std::int64_t left = 0, right = 0, shift = 0;

  /// False where the sizes do not fit.
  bool read(const CompositeCall& call) {
    query = call.in("query");
    key = call.in("key");
    value = call.in("value");
    mask = call.in("mask");
    if (query == nullptr || key == nullptr || value == nullptr) return false;
    if (query->sizes.size() != 4 || key->sizes.size() != 4 || value->sizes.size() != 4) return false;
    batches = query->size(0), heads = query->size(1), queries = query->size(2), width = query->size(3);
    fewer = key->size(1), keys = key->size(2), value_width = value->size(3);
    scale = call.number("scale", 1);
    shift = static_cast<std::int64_t>(call.number("shift"));
    has_right = call.flag("causal") || call.composite.find("right") != nullptr;
    right = static_cast<std::int64_t>(call.number("right"));
    has_left = call.composite.find("left") != nullptr;
    left = static_cast<std::int64_t>(call.number("left"));
    const bool fits =
        key->size(0) == batches && value->size(0) == batches && value->size(1) == fewer && value->size(2) == keys;
    return fits && key->size(3) == width && fewer > 0 && heads % fewer == 0 && mask_fits();
  }

  /// Whether the mask broadcasts to [b, heads, n, m].
  bool mask_fits() const {
    if (mask == nullptr) return true;
    const std::size_t wanted[] = {batches, heads, queries, keys};
    if (mask->sizes.size() > 4) return false;
    for (std::size_t d = 0; d < mask->sizes.size(); ++d) {
      if (mask->size(d) != 1 && mask->size(d) != wanted[d + 4 - mask->sizes.size()]) return false;
    }
    return true;
  }

  std::size_t shared(std::size_t head) const { return head / (heads / fewer); }
  double q(std::size_t b, std::size_t h, std::size_t i, std::size_t w) const {
    return query->x[((b * heads + h) * queries + i) * width + w];
  }
  std::size_t key_at(std::size_t b, std::size_t h, std::size_t j) const { return (b * fewer + shared(h)) * keys + j; }

  /// The element of the mask that broadcasts to this place.
  double mask_at(std::size_t b, std::size_t h, std::size_t i, std::size_t j) const {
    const std::size_t place[] = {b, h, i, j};
    std::size_t at = 0;
    for (std::size_t d = 0; d < mask->sizes.size(); ++d) {
      at = at * mask->size(d) + (mask->size(d) == 1 ? 0 : place[d + 4 - mask->sizes.size()]);
    }
    return mask->x[at];
  }

  /// What query i of a head makes of each key: exp(score - largest), their sum, the largest score. A query that may see
  /// no key has zeros, a sum of 1 and 0 as its largest.
  struct Row {
    Reals powers;
    double total = 0, top = -kInfinity;
  };
  Row row(std::size_t b, std::size_t h, std::size_t i) const {
    Row result;
    for (std::size_t j = 0; j < keys; ++j) {
      double score = 0;
      for (std::size_t w = 0; w < width; ++w) score += q(b, h, i, w) * key->x[key_at(b, h, j) * width + w];
      score *= scale;
      if (mask != nullptr) {
        const double m = mask_at(b, h, i, j);
        score = mask->dtype == DType::kBool ? (m != 0 ? score : -kInfinity) : score + m;
      }
      const auto distance = static_cast<std::int64_t>(j) - static_cast<std::int64_t>(i) - shift;
      if ((has_right && distance > right) || (has_left && distance < -left)) score = -kInfinity;
      result.powers.push_back(score);
      result.top = std::isnan(score) || std::isnan(result.top) ? std::nan("") : std::max(result.top, score);
    }
    const bool may_be_empty = mask != nullptr || has_left || has_right;
    if (may_be_empty && result.top == -kInfinity) result.top = 0;
    for (double& power : result.powers) {
      power = std::exp(power - result.top);
      result.total += power;
    }
    if (may_be_empty && result.total == 0) result.total = 1;
    return result;
  }
};

bool attention(CompositeCall& call) {
  Problem p;
  if (!p.read(call) || p.keys == 0) return false;
  Reals &output = call.out("output"), &log_sum = call.out("log_sum"), &probabilities = call.out("probabilities");
  for (std::size_t b = 0; b < p.batches; ++b) {
    for (std::size_t h = 0; h < p.heads; ++h) {
      for (std::size_t i = 0; i < p.queries; ++i) {
        const Problem::Row row = p.row(b, h, i);
        for (std::size_t v = 0; v < p.value_width; ++v) {
          double sum = 0;
          for (std::size_t j = 0; j < p.keys; ++j)
            sum += row.powers[j] * p.value->x[p.key_at(b, h, j) * p.value_width + v];
          output.push_back(sum / row.total);
        }
        log_sum.push_back(row.top + std::log(row.total));
        for (const double power : row.powers) probabilities.push_back(power / row.total);
      }
    }
  }
  return true;
}

bool attention_backward(CompositeCall& call) {
  Problem p;
  const NamedTensor *g = call.in("grad_out"), *o = call.in("out");
  if (!p.read(call) || p.keys == 0 || g == nullptr || o == nullptr || g->sizes != o->sizes) return false;
  if (g->sizes != Sizes{p.query->sizes[0], p.query->sizes[1], p.query->sizes[2], p.value->sizes[3]}) return false;
  Reals &dq = call.out("grad_query"), &dk = call.out("grad_key"), &dv = call.out("grad_value");
  dq.assign(p.query->x.size(), 0);
  dk.assign(p.key->x.size(), 0);
  if (&dv == &call.nowhere) return false;
  dv.assign(p.value->x.size(), 0);
  for (std::size_t b = 0; b < p.batches; ++b) {
    for (std::size_t h = 0; h < p.heads; ++h) {
      for (std::size_t i = 0; i < p.queries; ++i) {
        const Problem::Row row = p.row(b, h, i);
        const std::size_t at = (b * p.heads + h) * p.queries + i;
        double inner = 0;
        for (std::size_t v = 0; v < p.value_width; ++v)
          inner += g->x[at * p.value_width + v] * o->x[at * p.value_width + v];
        for (std::size_t j = 0; j < p.keys; ++j) {
          const std::size_t key = p.key_at(b, h, j);
          const double probability = row.powers[j] / row.total;
          double slope = -inner;
          for (std::size_t v = 0; v < p.value_width; ++v) {
            slope += g->x[at * p.value_width + v] * p.value->x[key * p.value_width + v];
            dv[key * p.value_width + v] += probability * g->x[at * p.value_width + v];
          }
          const double ds = probability * slope * p.scale;
          for (std::size_t w = 0; w < p.width; ++w) {
            dq[at * p.width + w] += ds * p.key->x[key * p.width + w];
            dk[key * p.width + w] += ds * p.query->x[at * p.width + w];
          }
        }
      }
    }
  }
  return true;
}

double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

/// c' = f c + i g, h' = o tanh(c'); the gates stand beside each other in the order i, f, g, o.
bool lstm_cell(CompositeCall& call) {
  const NamedTensor *x = call.in("input_gates"), *h = call.in("hidden_gates"), *c = call.in("cx");
  if (x == nullptr || h == nullptr || c == nullptr || c->sizes.size() != 2 || x->sizes != h->sizes) return false;
  const std::size_t rows = c->size(0), width = c->size(1);
  if (x->x.size() != rows * 4 * width) return false;
  for (const char* name : {"input_bias", "hidden_bias"}) {
    if (const NamedTensor* bias = call.in(name); bias != nullptr && bias->x.size() != 4 * width) return false;
  }
  Reals &new_h = call.out("hy"), &new_c = call.out("cy"), &gates = call.out("workspace");
  Reals kept_h, kept_c, kept_gates(rows * 4 * width);
  for (std::size_t row = 0; row < rows; ++row) {
    for (std::size_t i = 0; i < width; ++i) {
      double gate[4];
      for (std::size_t k = 0; k < 4; ++k) {
        const std::size_t column = k * width + i;
        double sum = x->x[row * 4 * width + column] + h->x[row * 4 * width + column];
        for (const char* name : {"input_bias", "hidden_bias"}) {
          if (const NamedTensor* bias = call.in(name)) sum += bias->x[column];
        }
        gate[k] = k == 2 ? std::tanh(sum) : sigmoid(sum);
        kept_gates[row * 4 * width + column] = gate[k];
      }
      const double state = gate[1] * c->x[row * width + i] + gate[0] * gate[2];
      kept_c.push_back(state);
      kept_h.push_back(gate[3] * std::tanh(state));
    }
  }
  new_h = std::move(kept_h);
  new_c = std::move(kept_c);
  gates = std::move(kept_gates);
  return true;
}

constexpr CompositeEntry kEntries[] = {
    {"attention", attention},
    {"attention_backward", attention_backward},
    {"lstm_cell", lstm_cell},
};

}  // namespace

std::span<const CompositeEntry> attention_composites() { return kEntries; }

}  // namespace crucible::graph
