// Lowering of layer norm and batch norm from their definitions: two-pass variance, statistics in keepdim shapes so that
// only the normalised tensor itself is full-size.
#include <numeric>

#include "frontends/aten/formulas.hpp"
#include "frontends/aten/lower_table.hpp"

namespace crucible::aten {
namespace {

using graph::OpKind;
using Dims = std::vector<std::int64_t>;

struct Statistics {
  Term mean, variance;  // keepdim
};

Statistics statistics(Emitter& e, const Term& x, const Dims& dims) {
  const Term mean = e.mean(x, dims);
  const Term centered = e.binary(OpKind::kSubtract, x, mean);
  return {mean, e.mean(multiply(e, centered, centered), dims)};
}

Term inverse_deviation(Emitter& e, const Term& variance, double epsilon) {
  return e.unary(OpKind::kReciprocalSqrt, e.binary(OpKind::kAdd, variance, Term::number(epsilon)));
}

Term normalized(Emitter& e, const Term& x, const Term& mean, const Term& scale) {
  return multiply(e, e.binary(OpKind::kSubtract, x, mean), scale);
}

Term scaled_and_shifted(OpCall& c, Term x, const Sizes* shape) {
  Emitter& e = c.emit();
  for (const char* name : {"weight", "bias"}) {
    if (!c.has(name)) continue;
    Term row = widened(e, c.tensor(name));
    if (shape) row = e.reshape(row, *shape);
    x = e.binary(name[0] == 'w' ? OpKind::kMultiply : OpKind::kAdd, x, row);
  }
  return x;
}

/// The last dimensions that normalized_shape names.
Dims trailing(std::int64_t rank, std::size_t count) {
  Dims dims(count);
  std::iota(dims.begin(), dims.end(), rank - static_cast<std::int64_t>(count));
  return dims;
}

void native_layer_norm(OpCall& c) {
  Emitter& e = c.emit();
  const Term x = widened(e, c.tensor("input"));
  const Dims dims = trailing(x.rank(), c.integers("normalized_shape").size());
  const Statistics s = statistics(e, x, dims);
  const Term scale = inverse_deviation(e, s.variance, c.real("eps"));
  c.set(0, scaled_and_shifted(c, normalized(e, x, s.mean, scale), nullptr));
  c.set(1, s.mean);
  c.set(2, scale);
}

/// Gradient with respect to x of (x - mean) * scale, where g is that of the result and h is the result: with
/// m the mean over `dims`, scale * (g - m(g) - h * m(g * h)).
Term normalization_backward(Emitter& e, const Term& g, const Term& h, const Term& scale, const Dims& dims) {
  const Term left = e.binary(OpKind::kSubtract, g, e.mean(g, dims));
  const Term right = multiply(e, h, e.mean(multiply(e, g, h), dims));
  return multiply(e, e.binary(OpKind::kSubtract, left, right), scale);
}

void native_layer_norm_backward(OpCall& c) {
  Emitter& e = c.emit();
  const Term g = widened(e, c.tensor("grad_out")), x = widened(e, c.tensor("input"));
  const Sizes shape = c.integers("normalized_shape");
  const Dims dims = trailing(x.rank(), shape.size());
  Dims leading(static_cast<std::size_t>(x.rank()) - shape.size());
  std::iota(leading.begin(), leading.end(), 0);
  const Term scale = widened(e, c.tensor("rstd"));
  const Term h = normalized(e, x, widened(e, c.tensor("mean")), scale);
  if (c.wants(0)) {
    const Term weighted = c.has("weight") ? multiply(e, g, widened(e, c.tensor("weight"))) : g;
    c.set(0, normalization_backward(e, weighted, h, scale, dims));
  }
  if (c.wants(1)) c.set(1, e.drop(e.sum(multiply(e, g, h), leading), leading));
  if (c.wants(2)) c.set(2, e.drop(e.sum(g, leading), leading));
}

/// All dimensions but the channels.
Dims but_channels(std::int64_t rank) {
  Dims dims;
  for (std::int64_t d = 0; d < rank; ++d) {
    if (d != 1) dims.push_back(d);
  }
  return dims;
}

/// [channels] as the rank of x: [1, channels, 1, 1].
Sizes channel_shape(const Term& x) {
  Sizes shape(static_cast<std::size_t>(x.rank()), 1);
  shape[1] = x.size(1);
  return shape;
}

/// old + momentum * (new - old), as (1 - momentum) * old + momentum * new.
Term running(OpCall& c, const char* name, const Term& now) {
  Emitter& e = c.emit();
  const double momentum = c.real("momentum");
  const Term old = e.reshape(widened(e, c.tensor(name)), now.sizes());
  const Term kept = multiply(e, old, Term::number(1 - momentum));
  const Term result = e.binary(OpKind::kAdd, kept, multiply(e, now, Term::number(momentum)));
  return e.reshape(result, {now.elements()});
}

struct BatchStatistics {
  Term mean, variance, scale;  // keepdim; scale is 1 / sqrt(variance + epsilon)
};

/// Rounds where PyTorch's CPU kernel rounds: sums in f64, mean and variance to f32 once each, the square of a deviation
/// to f32. A network with ReLU turns the last bit of an activation near zero into a different gradient, so equal bits
/// here are what keeps a replay next to the recorded run for more than a few steps.
BatchStatistics batch_statistics(Emitter& e, const Term& x, const Dims& dims, double epsilon) {
  const DType dtype = x.dtype;
  const Term mean = e.cast(e.mean(e.cast(x, DType::kF64), dims), dtype);
  const Term deviation = e.binary(OpKind::kSubtract, x, mean);
  const Term variance = e.cast(e.mean(e.cast(multiply(e, deviation, deviation), DType::kF64), dims), dtype);
  const Term shifted = e.binary(OpKind::kAdd, e.cast(variance, DType::kF64), Term::number(epsilon));
  return {mean, variance, e.cast(e.unary(OpKind::kReciprocal, e.unary(OpKind::kSqrt, shifted)), dtype)};
}

/// (x - mean) * scale * weight + bias as one product and one sum per element: x * a + b with a = scale * weight and
/// b = bias - mean * a, each with a single rounding, as a fused multiply-add has.
Term batch_normalized(OpCall& c, const Term& x, const BatchStatistics& s, const Sizes& shape) {
  Emitter& e = c.emit();
  const DType dtype = x.dtype;
  const auto wide = [&](const Term& term) { return e.cast(term, DType::kF64); };
  const auto row = [&](const char* name) { return e.reshape(widened(e, c.tensor(name)), shape); };
  const Term a = c.has("weight") ? multiply(e, s.scale, row("weight")) : s.scale;
  const Term product = multiply(e, wide(s.mean), wide(a));
  const Term b = e.cast(
      c.has("bias") ? e.binary(OpKind::kSubtract, wide(row("bias")), product) : e.unary(OpKind::kNegate, product),
      dtype);
  return e.cast(e.binary(OpKind::kAdd, multiply(e, wide(x), wide(a)), wide(b)), dtype);
}

/// The op writes running_mean and running_var although its schema does not say so.
void native_batch_norm(OpCall& c) {
  Emitter& e = c.emit();
  const Term x = widened(e, c.tensor("input"));
  const Dims dims = but_channels(x.rank());
  const Sizes shape = channel_shape(x);
  const double epsilon = c.real("eps");
  const bool training = c.boolean("training");
  if (!training) {
    const Term mean = e.reshape(widened(e, c.tensor("running_mean")), shape);
    const Term scale = inverse_deviation(e, e.reshape(widened(e, c.tensor("running_var")), shape), epsilon);
    c.set(0, scaled_and_shifted(c, normalized(e, x, mean, scale), &shape));
    for (std::size_t k : {1, 2}) {
      if (c.wants(k) && !c.result(k).sizes.empty() && c.result(k).sizes[0] == 0) {
        c.set(k, Term::number(0));
      } else if (c.wants(k)) {
        c.set(k, e.reshape(k == 1 ? mean : scale, {shape[1]}));
      }
    }
    return;
  }
  const BatchStatistics s = batch_statistics(e, x, dims, epsilon);
  c.set(0, batch_normalized(c, x, s, shape));
  c.set(1, e.reshape(s.mean, {shape[1]}));
  c.set(2, e.reshape(s.scale, {shape[1]}));
  if (c.has("running_mean")) c.write("running_mean", running(c, "running_mean", s.mean));
  if (c.has("running_var")) {
    const double count = static_cast<double>(x.elements()) / static_cast<double>(shape[1]);
    const Term unbiased = multiply(e, s.variance, Term::number(count / (count - 1)));
    c.write("running_var", running(c, "running_var", unbiased));
  }
}

void native_batch_norm_backward(OpCall& c) {
  Emitter& e = c.emit();
  const Term g = widened(e, c.tensor("grad_out")), x = widened(e, c.tensor("input"));
  const Dims dims = but_channels(x.rank());
  const Sizes shape = channel_shape(x);
  const bool training = c.boolean("train");
  const Term mean = e.reshape(widened(e, c.tensor(training ? "save_mean" : "running_mean")), shape);
  const Term scale = training
                         ? e.reshape(widened(e, c.tensor("save_invstd")), shape)
                         : inverse_deviation(e, e.reshape(widened(e, c.tensor("running_var")), shape), c.real("eps"));
  const Term h = normalized(e, x, mean, scale);
  if (c.wants(0)) {
    const Term weighted_scale =
        c.has("weight") ? multiply(e, scale, e.reshape(widened(e, c.tensor("weight")), shape)) : scale;
    c.set(0, training ? normalization_backward(e, g, h, weighted_scale, dims) : multiply(e, g, weighted_scale));
  }
  if (c.wants(1)) c.set(1, e.reshape(e.sum(multiply(e, g, h), dims), {shape[1]}));
  if (c.wants(2)) c.set(2, e.reshape(e.sum(g, dims), {shape[1]}));
}

constexpr Entry kEntries[] = {
    {"aten::native_layer_norm", native_layer_norm},
    {"aten::native_layer_norm_backward", native_layer_norm_backward},
    {"aten::native_batch_norm", native_batch_norm},
    {"aten::_native_batch_norm_legit", native_batch_norm},
    {"aten::native_batch_norm_backward", native_batch_norm_backward},
};

}  // namespace

std::span<const Entry> normalization_entries() { return kEntries; }

}  // namespace crucible::aten
