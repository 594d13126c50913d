// Losses between a prediction and a target of the same sizes, from their definitions. See reference_composite.hpp.
#include <cmath>

#include "core/graph/reference_composite.hpp"

namespace crucible::graph {
namespace {

constexpr double kEach = 0, kMean = 1;  // reductions; 2: the sum

/// NaN wins.
double at_least(double x, double least) { return std::isnan(x) || x > least ? x : least; }

/// Prediction and target; tensors that broadcast are left to the body.
struct Pair {
  const NamedTensor *x, *target, *weight;

  explicit Pair(const CompositeCall& call) : x(call.in("self")), target(call.in("target")), weight(call.in("weight")) {}
  bool fits() const {
    if (x == nullptr || target == nullptr || x->sizes != target->sizes) return false;
    return weight == nullptr || weight->sizes == x->sizes;
  }
  std::size_t size() const { return x->x.size(); }
  double weight_of(std::size_t i) const { return weight == nullptr ? 1 : weight->x[i]; }
};

/// loss(i) of each element, their mean or their sum.
template <class Loss>
bool reduce(CompositeCall& call, const Pair& pair, Loss loss) {
  const double reduction = call.number("reduction", kMean);
  Reals each;
  double total = 0;
  for (std::size_t i = 0; i < pair.size(); ++i) {
    each.push_back(loss(i) * pair.weight_of(i));
    total += each.back();
  }
  if (reduction == kMean) total /= static_cast<double>(pair.size());
  call.out("output") = reduction == kEach ? each : Reals{total};
  return true;
}

/// slope(i) times the gradient of the result, shared by all elements of a mean.
template <class Slope>
bool spread(CompositeCall& call, const Pair& pair, Slope slope) {
  const NamedTensor* g = call.in("grad_output");
  if (g == nullptr || (g->x.size() != 1 && g->sizes != pair.x->sizes)) return false;
  const double share = call.number("reduction", kMean) == kMean ? 1 / static_cast<double>(pair.size()) : 1;
  Reals& dx = call.out("grad_input");
  for (std::size_t i = 0; i < pair.size(); ++i)
    dx.push_back(slope(i) * pair.weight_of(i) * share * g->x[g->x.size() == 1 ? 0 : i]);
  return true;
}

bool mse_loss(CompositeCall& call) {
  const Pair p(call);
  return p.fits() &&
         reduce(call, p, [&](std::size_t i) { return (p.x->x[i] - p.target->x[i]) * (p.x->x[i] - p.target->x[i]); });
}

bool mse_loss_backward(CompositeCall& call) {
  const Pair p(call);
  return p.fits() && spread(call, p, [&](std::size_t i) { return 2 * (p.x->x[i] - p.target->x[i]); });
}

/// -(t log x + (1 - t) log(1 - x)), with logarithms of -100 at least.
bool binary_cross_entropy(CompositeCall& call) {
  const Pair p(call);
  return p.fits() && reduce(call, p, [&](std::size_t i) {
           const double x = p.x->x[i], t = p.target->x[i];
           return -(t * at_least(std::log(x), -100) + (1 - t) * at_least(std::log1p(-x), -100));
         });
}

/// (x - t) / (x (1 - x)), the divisor being 1e-12 at least.
bool binary_cross_entropy_backward(CompositeCall& call) {
  const Pair p(call);
  return p.fits() && spread(call, p, [&](std::size_t i) {
           const double x = p.x->x[i];
           return (x - p.target->x[i]) / at_least((1 - x) * x, 1e-12);
         });
}

/// (1 - t) x + (1 + (p - 1) t) log(1 + exp(-x)), where p is the weight of positive targets.
bool binary_cross_entropy_with_logits(CompositeCall& call) {
  const Pair p(call);
  const NamedTensor* positive = call.in("pos_weight");
  if (!p.fits() || (positive != nullptr && positive->sizes != p.x->sizes)) return false;
  return reduce(call, p, [&](std::size_t i) {
    const double x = p.x->x[i], t = p.target->x[i];
    const double factor = positive == nullptr ? 1 : 1 + (positive->x[i] - 1) * t;
    return (1 - t) * x + factor * (at_least(-x, 0) + std::log1p(std::exp(-std::abs(x))));
  });
}

constexpr CompositeEntry kEntries[] = {
    {"mse_loss", mse_loss},
    {"mse_loss_backward", mse_loss_backward},
    {"binary_cross_entropy", binary_cross_entropy},
    {"binary_cross_entropy_backward", binary_cross_entropy_backward},
    {"binary_cross_entropy_with_logits", binary_cross_entropy_with_logits},
};

}  // namespace

std::span<const CompositeEntry> loss_composites() { return kEntries; }

}  // namespace crucible::graph
