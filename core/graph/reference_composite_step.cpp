// Optimizer steps of one parameter, from the papers' formulas. See reference_composite.hpp. Every step reads what was
// before it and gives all of what is after it; where the scaled gradients had infinities, nothing changes.
#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

#include "core/graph/reference_composite.hpp"

namespace crucible::graph {
namespace {

/// The tensors of a step, all of the parameter's size.
class Step {
 public:
  explicit Step(CompositeCall& call) : call_(call), parameter_(call.in("self")), gradient_(call.in("grads")) {}

  bool is_whole(std::initializer_list<const char*> names) const {
    for (const char* name : {"self", "grads"}) {
      const NamedTensor* tensor = call_.in(name);
      if (tensor == nullptr || tensor->x.size() != parameter_->x.size()) return false;
    }
    for (const char* name : names) {
      const NamedTensor* tensor = call_.in(name);
      if (tensor == nullptr || tensor->x.size() != parameter_->x.size()) return false;
    }
    return true;
  }

  std::size_t size() const { return parameter_->x.size(); }
  double parameter(std::size_t i) const { return parameter_->x[i]; }
  double before(const char* name, std::size_t i) const { return call_.in(name)->x[i]; }
  /// A number: a tensor of one element, a slot, or an attribute.
  double number(const char* name, double otherwise = 0) const {
    const NamedTensor* tensor = call_.in(name);
    return tensor != nullptr && tensor->x.size() == 1 ? tensor->x[0] : call_.number(name, otherwise);
  }
  /// The learning rate; of one in a tensor the body may read the negative alone. Nothing where nobody says it.
  std::optional<double> rate() const {
    if (call_.in("lr") == nullptr && call_.in("minus_lr") != nullptr) return -number("minus_lr");
    const double lr = number("lr", std::numeric_limits<double>::infinity());
    return lr == std::numeric_limits<double>::infinity() ? std::nullopt : std::optional(lr);
  }
  /// The gradient without its scale.
  double unscaled(std::size_t i) const { return gradient_->x[i] / number("grad_scale", 1); }
  double gradient(std::size_t i) const { return call_.flag("maximize") ? -unscaled(i) : unscaled(i); }

  void give(const char* name, std::size_t i, double after) {
    if (!call_.wants(name)) return;
    Reals& out = call_.out(name);
    out.resize(size());
    out[i] = number("found_inf") == 1 ? call_.in(name)->x[i] : after;
  }
  void give_gradient(std::size_t i) { give("grads", i, unscaled(i)); }
  void mark() {  // results of empty parameters are computed too
    for (NamedTensor& out : call_.outputs) out.done = out.done || size() == 0;
  }

 private:
  CompositeCall& call_;
  const NamedTensor *parameter_, *gradient_;
};

template <bool is_decoupled>
bool adam(CompositeCall& call) {
  Step step(call);
  const bool amsgrad = call.flag("amsgrad");
  if (!step.rate() || !step.is_whole({"exp_avgs", "exp_avg_sqs"}) || (amsgrad && !step.is_whole({"max_exp_avg_sqs"})) ||
      call.in("state_steps") == nullptr)
    return false;
  const double lr = *step.rate(), beta1 = call.number("beta1"), beta2 = call.number("beta2"),
               decay = call.number("weight_decay");
  const double eps = call.number("eps"), t = step.number("state_steps");
  for (std::size_t i = 0; i < step.size(); ++i) {
    double x = step.parameter(i), g = step.gradient(i);
    if (is_decoupled) {
      x *= 1 - lr * decay;
    } else if (decay != 0) {
      g += decay * x;
    }
    const double old = step.before("exp_avgs", i), m = old + (1 - beta1) * (g - old);
    const double v = beta2 * step.before("exp_avg_sqs", i) + (1 - beta2) * g * g;
    double size = v;
    if (amsgrad) {
      const double highest = step.before("max_exp_avg_sqs", i);
      size = std::isnan(v) || std::isnan(highest) ? std::nan("") : std::max(v, highest);
      step.give("max_exp_avg_sqs", i, size);
    }
    const double corrected = m / (1 - std::pow(beta1, t)), root = std::sqrt(size / (1 - std::pow(beta2, t)));
    step.give("exp_avgs", i, m);
    step.give("exp_avg_sqs", i, v);
    step.give("self", i, x - lr * corrected / (root + eps));
    step.give_gradient(i);
  }
  step.mark();
  return true;
}

bool sgd(CompositeCall& call) {
  Step step(call);
  const double decay = call.number("weight_decay"), momentum = call.number("momentum"),
               dampening = call.number("dampening");
  const bool is_first = call.flag("is_first_step");
  if (!step.rate() || !step.is_whole({}) || (momentum != 0 && !is_first && !step.is_whole({"momentum_buffer_list"})))
    return false;
  for (std::size_t i = 0; i < step.size(); ++i) {
    double g = step.gradient(i);
    if (decay != 0) g += decay * step.parameter(i);
    if (momentum != 0) {
      const double buffer = is_first ? g : momentum * step.before("momentum_buffer_list", i) + (1 - dampening) * g;
      if (is_first && call.wants("momentum_buffer_list") && call.in("found_inf") != nullptr &&
          call.in("momentum_buffer_list") == nullptr)
        return false;
      step.give("momentum_buffer_list", i, buffer);
      g = call.flag("nesterov") ? g + momentum * buffer : buffer;
    }
    step.give("self", i, step.parameter(i) - *step.rate() * g);
    step.give_gradient(i);
  }
  step.mark();
  return true;
}

bool adagrad(CompositeCall& call) {
  Step step(call);
  const double rate_decay = call.number("lr_decay"), decay = call.number("weight_decay"), eps = call.number("eps");
  if (!step.rate() || !step.is_whole({"state_sums"}) || (rate_decay != 0 && call.in("state_steps") == nullptr))
    return false;
  const double lr = *step.rate(),
               rate = rate_decay == 0 ? lr : lr / (1 + (step.number("state_steps") - 1) * rate_decay);
  for (std::size_t i = 0; i < step.size(); ++i) {
    double g = step.gradient(i);
    if (decay != 0) g += decay * step.parameter(i);
    const double sum = step.before("state_sums", i) + g * g;
    step.give("state_sums", i, sum);
    step.give("self", i, step.parameter(i) - rate * g / (std::sqrt(sum) + eps));
    step.give_gradient(i);
  }
  step.mark();
  return true;
}

constexpr CompositeEntry kEntries[] = {
    {"adam", adam<false>},
    {"adamw", adam<true>},
    {"sgd", sgd},
    {"adagrad", adagrad},
};

}  // namespace

std::span<const CompositeEntry> step_composites() { return kEntries; }

}  // namespace crucible::graph
