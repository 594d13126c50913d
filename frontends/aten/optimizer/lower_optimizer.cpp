// Lowering of the fused optimizer steps and of loss scaling. All write their lists in place and return nothing. What is
// known before the iteration stays a number, which may be another one in each; what hangs on a step counter or a
// learning rate in a tensor is computed in float64 and rounded to the parameters' precision, as the framework's kernels
// do.
#include <fmt/format.h>

#include <algorithm>

#include "frontends/aten/algebra/algebra.hpp"
#include "frontends/aten/lower_table.hpp"

namespace crucible::aten {
namespace {

using graph::OpKind;

/// What the members of this family share: lists by name, and the gradient as the step sees it.
class Step {
 public:
  explicit Step(OpCall& c) : c_(c), e_(c.emit()), parameters_(c.tensors("self")) {
    gradients_ = list("grads");
    if (c.has("grad_scale")) scale_ = e_.reshape(c.tensor("grad_scale"), {});
    if (c.has("found_inf")) found_inf_ = e_.reshape(c.tensor("found_inf"), {});
    learning_rate_ = c.operand("lr");
    if (learning_rate_.is_number()) return;
    learning_rate_ = e_.reshape(e_.cast(learning_rate_, DType::kF64), {});
    c.role("lr", learning_rate_);
  }

  std::size_t count() const { return parameters_.size(); }

  /// A list beside the parameters, one tensor for each. Where it is of another length the lowering has failed, and
  /// numbers stand in. So it has where elements lie in another order than the parameter's: the framework's kernels go
  /// through memory, and pair those that lie at one place.
  std::vector<Term> list(std::string_view name) {
    std::vector<Term> terms = c_.tensors(name);
    if (terms.size() != count())
      e_.fail(fmt::format("argument {} has {} tensors for {} parameters", name, terms.size(), count()));
    terms.resize(count(), Term::number(0));
    for (std::size_t i = 0; i < count(); ++i) {
      const graph::View &mine = terms[i].operand.view, &parameter = parameters_[i].operand.view;
      if (terms[i].is_number() || mine.sizes != parameter.sizes || mine.strides == parameter.strides) continue;
      e_.fail(
          fmt::format("tensor {} of argument {} has strides [{}], its parameter [{}]: the framework pairs other "
                      "elements with each other then",
                      i, name, fmt::join(mine.strides, ", "), fmt::join(parameter.strides, ", ")));
    }
    return terms;
  }

  Expression parameter(std::size_t i) { return wide(parameters_[i]); }
  Expression wide(const Term& x) { return {e_, widened(e_, x)}; }
  const Term& learning_rate() const { return learning_rate_; }

  /// Unscaled (the list `grads` is written then), turned for maximization.
  Expression gradient(std::size_t i) {
    Expression g = wide(gradients_[i]);
    if (!scale_.is_number()) {
      g = g / e_.cast(scale_, g.dtype);
      write("grads", i, g, gradients_[i]);
    }
    return c_.boolean("maximize") ? -g : g;
  }

  /// A factor in the precision of parameter i: a number, or a tensor of float64.
  Term factor(const Term& value, std::size_t i) {
    return value.is_number() ? value : e_.cast(value, compute_dtype(parameters_[i].dtype));
  }

  /// Nothing changes when the scaled gradients had infinities.
  void write(std::string_view list, std::size_t i, const Expression& value, const Term& before) {
    if (found_inf_.is_number()) return c_.write(list, value, i);
    const Expression found(e_, found_inf_);
    c_.write(list, choose(found == 1, wide(before), value), i);
  }
  void write_parameter(std::size_t i, const Expression& value) { write("self", i, value, parameters_[i]); }

 private:
  OpCall& c_;
  Emitter& e_;
  std::vector<Term> parameters_, gradients_;
  Term scale_ = Term::number(1), found_inf_ = Term::number(0), learning_rate_;
};

/// A hyperparameter without which ops are left out: 0 where it is 0 in all iterations. Where it is in some alone, they
/// are of several programs.
Term optional_number(OpCall& c, std::string_view name) {
  Expression number = c.operand(name);
  const auto values = number.emitter().number_values(number);
  const auto zeros = std::ranges::count_if(values, [](graph::Number value) { return value.real() == 0; });
  if (zeros == static_cast<std::ptrdiff_t>(values.size())) return Term::number(0);
  return zeros == 0 ? Term(number) : Term::number(c.real(name));
}

/// 1 - number.
Term rest_of(Emitter& e, const Term& number, const std::string& name) {
  return e.map_number(number, "1 - " + name, [](graph::Number value) { return graph::Number(1 - value.real()); });
}

/// 1 - beta^step in float64.
Expression bias_correction(Emitter& e, const Term& beta, const Term& step) {
  return 1 - Expression(e, beta).binary(OpKind::kPower, e.cast(step, DType::kF64));
}

/// a function of the learning rate: a number stays one.
Term of_learning_rate(Emitter& e, const Term& rate, const std::string& name, double factor, double offset) {
  if (rate.is_number()) {
    return e.map_number(rate, name, [=](graph::Number value) { return graph::Number(offset + factor * value.real()); });
  }
  return Expression(e, rate) * factor + offset;
}

/// 1 - rate * decay: a number where the decay stands still and the rate is one.
Term shrinkage(Emitter& e, const Term& rate, const Term& decay) {
  const auto decays = e.number_values(decay);
  if (std::ranges::all_of(decays, [&](graph::Number value) { return value == decays[0]; }))
    return of_learning_rate(e, rate, "1 - decay times", -decays[0].real(), 1);
  return 1 - Expression(e, rate.is_number() ? e.fill(rate, {}, DType::kF64) : rate) * decay;
}

/// Written as the loops of torch.optim have it, term by term: one program whichever of them ran.
template <bool decoupled>
void adam(OpCall& c) {
  Emitter& e = c.emit();
  Step step(c);
  const auto first = step.list("exp_avgs"), second = step.list("exp_avg_sqs"), steps = step.list("state_steps");
  const bool amsgrad = c.boolean("amsgrad");
  const auto highest = amsgrad ? step.list("max_exp_avg_sqs") : std::vector<Term>();
  if (!e.failure().empty()) return;
  const Term beta1 = c.operand("beta1"), beta2 = c.operand("beta2"), eps = c.operand("eps");
  const Term decay = optional_number(c, "weight_decay");
  const Term part1 = rest_of(e, beta1, "beta1"), part2 = rest_of(e, beta2, "beta2");
  const Term downhill = of_learning_rate(e, step.learning_rate(), "minus the learning rate", -1, 0);
  if (!downhill.is_number()) c.role("minus_lr", downhill);
  for (std::size_t i = 0; i < step.count(); ++i) {
    c.begin_part(i);
    Expression x = step.parameter(i), g = step.gradient(i);
    if (!is_fixed(decay, 0) && decoupled) {
      x = x * step.factor(shrinkage(e, step.learning_rate(), decay), i);
    } else if (!is_fixed(decay, 0)) {
      g = {e, add_scaled(e, g, x, decay)};
    }
    const Expression m(e, interpolate(e, step.wide(first[i]), g, part1));
    const Expression v(e, add_product(e, step.wide(second[i]) * beta2, g, g, part2));
    Expression size = v;
    if (amsgrad) {
      size = larger(step.wide(highest[i]), v);
      step.write("max_exp_avg_sqs", i, size, highest[i]);
    }
    const Expression correction1 = bias_correction(e, beta1, steps[i]),
                     correction2 = bias_correction(e, beta2, steps[i]);
    const Expression rate = downhill / correction1;
    const Expression divisor = square_root(size) / step.factor(square_root(correction2), i) + eps;
    step.write("exp_avgs", i, m, first[i]);
    step.write("exp_avg_sqs", i, v, second[i]);
    step.write_parameter(i, {e, add_quotient(e, x, m, divisor, step.factor(rate, i))});
  }
}

/// As adam(): the loops' terms.
void sgd(OpCall& c) {
  Emitter& e = c.emit();
  Step step(c);
  const Term decay = optional_number(c, "weight_decay"), momentum = optional_number(c, "momentum");
  const Term undampened = rest_of(e, c.operand("dampening"), "dampening");
  const bool first = c.boolean("is_first_step"), nesterov = c.boolean("nesterov");
  const bool has_momentum = !is_fixed(momentum, 0);
  const auto buffers = has_momentum ? step.list("momentum_buffer_list") : std::vector<Term>();
  if (!e.failure().empty()) return;
  const Term rate = of_learning_rate(e, step.learning_rate(), "minus the learning rate", -1, 0);
  const auto added = [&](const Expression& x, const Expression& y, const Term& factor) {
    return Expression(e, add_scaled(e, x, y, factor));
  };
  if (!rate.is_number()) c.role("minus_lr", rate);
  for (std::size_t i = 0; i < step.count(); ++i) {
    c.begin_part(i);
    const Expression x = step.parameter(i);
    Expression g = step.gradient(i);
    if (!is_fixed(decay, 0)) g = added(g, x, decay);
    if (has_momentum) {
      const Expression buffer = first ? g : added(step.wide(buffers[i]) * momentum, g, undampened);
      step.write("momentum_buffer_list", i, buffer, buffers[i]);
      g = nesterov ? added(g, buffer, momentum) : buffer;
    }
    step.write_parameter(i, rate.is_number() ? added(x, g, rate) : x + g * step.factor(rate, i));
  }
}

/// As sgd(): the loops' terms, where the learning rate does not decay and the step counters do not matter.
void adagrad(OpCall& c) {
  Emitter& e = c.emit();
  Step step(c);
  const Term decay = optional_number(c, "weight_decay"), rate_decay = optional_number(c, "lr_decay");
  const Term eps = c.operand("eps");
  const auto sums = step.list("state_sums"), steps = step.list("state_steps");
  if (!e.failure().empty()) return;
  const bool fixed = is_fixed(rate_decay, 0) && step.learning_rate().is_number();
  const Term fixed_rate = of_learning_rate(e, step.learning_rate(), "minus the learning rate", -1, 0);
  if (!fixed_rate.is_number()) c.role("minus_lr", fixed_rate);
  for (std::size_t i = 0; i < step.count(); ++i) {
    c.begin_part(i);
    const Expression x = step.parameter(i);
    Expression g = step.gradient(i);
    if (!is_fixed(decay, 0)) g = {e, add_scaled(e, g, x, decay)};
    const Expression sum(e, add_product(e, step.wide(sums[i]), g, g, Term::number(1)));
    const Expression divisor = square_root(sum) + eps;
    step.write("state_sums", i, sum, sums[i]);
    if (fixed) {
      step.write_parameter(i, {e, add_quotient(e, x, g, divisor, fixed_rate)});
      continue;
    }
    const Expression count(e, e.cast(steps[i], DType::kF64));
    const Expression rate = step.learning_rate() / ((count - 1) * rate_decay + 1);
    step.write_parameter(i, x - step.factor(rate, i) * g / divisor);
  }
}

/// found_inf becomes 1 when any gradient has an infinity or a NaN; the gradients lose their scale.
void check_and_unscale(OpCall& c) {
  Emitter& e = c.emit();
  const Expression scale = e.reshape(c.tensor("inv_scale"), {});
  Expression found(e, c.tensor("found_inf"));
  const auto gradients = c.tensors("self");
  for (std::size_t i = 0; i < gradients.size(); ++i) {
    const Expression g(e, widened(e, gradients[i]));
    std::vector<std::int64_t> dims;
    for (std::int64_t d = 0; d < g.rank(); ++d) dims.push_back(d);
    if (g.elements() > 0) {
      const Expression bad = ((g - g) != 0).cast(DType::kF32);
      const Expression any(e, e.reshape(e.max(bad, dims), found.sizes()));
      found = choose(any > 0, 1, found);
    }
    c.write("self", g * e.cast(scale, g.dtype), i);
  }
  c.write("found_inf", found);
}

void update_scale(OpCall& c) {
  Emitter& e = c.emit();
  const Expression scale(e, c.tensor("self")), tracker(e, c.tensor("growth_tracker")), found(e, c.tensor("found_inf"));
  const Expression wide = scale.cast(DType::kF64), successes = tracker + 1;
  const Expression grown = (wide * c.real("scale_growth_factor")).cast(scale.dtype);
  const Expression shrunk = (wide * c.real("scale_backoff_factor")).cast(scale.dtype);
  const Expression due = successes == c.integer("growth_interval"), overflow = found != 0;
  const Expression larger_scale = choose((grown - grown) == 0, grown, scale);
  c.set(0, choose(overflow, shrunk, choose(due, larger_scale, scale)));
  c.write("growth_tracker", choose(overflow || due, 0, successes));
}

constexpr Entry kEntries[] = {
    {"aten::_fused_adam_", adam<false>},
    {"aten::_fused_adam_.tensor_lr", adam<false>},
    {"aten::_fused_adamw_", adam<true>},
    {"aten::_fused_adamw_.tensor_lr", adam<true>},
    {"aten::_fused_sgd_", sgd},
    {"aten::_fused_sgd_.tensor_lr", sgd},
    {"aten::_fused_adagrad_", adagrad},
    {"aten::_fused_adagrad_.tensor_lr", adagrad},
    {"aten::_amp_foreach_non_finite_check_and_unscale_", check_and_unscale},
    {"aten::_amp_update_scale_", update_scale},
};

}  // namespace

std::span<const Entry> optimizer_entries() { return kEntries; }

}  // namespace crucible::aten
