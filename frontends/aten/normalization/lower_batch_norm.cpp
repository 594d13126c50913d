// Lowering of batch norm in all its flavours: native, with and without update of the running statistics, the vendors',
// and the pieces of which the synchronised one is made. One formula for all of them.
#include "frontends/aten/algebra/algebra.hpp"
#include "frontends/aten/lower_table.hpp"
#include "frontends/aten/normalization/normalization.hpp"

namespace crucible::aten {
namespace {

using graph::OpKind;

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

/// The argument `name` of one element per channel, to broadcast over x.
Term row(OpCall& c, const char* name, const Sizes& shape) {
  return c.emit().reshape(c.wide(name), shape);
}

/// Vendors spell two arguments in their own way.
double epsilon_of(OpCall& c) { return c.real(c.has("epsilon") ? "epsilon" : "eps"); }
double momentum_of(OpCall& c) {
  return c.real(c.has("exponential_average_factor") ? "exponential_average_factor" : "momentum");
}

/// old + momentum * (new - old), as (1 - momentum) * old + momentum * new.
Term running(OpCall& c, const char* name, const Term& now) {
  Emitter& e = c.emit();
  const double momentum = momentum_of(c);
  const Expression old = e.reshape(c.wide(name), now.sizes());
  const Expression kept = multiply(e, old, Term::number(1 - momentum));
  const Expression result = kept + multiply(e, now, Term::number(momentum));
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
  const Expression mean = e.cast(e.mean(e.cast(x, DType::kF64), dims), dtype);
  const Expression deviation = x - mean;
  const Expression variance = e.cast(e.mean(e.cast(multiply(e, deviation, deviation), DType::kF64), dims), dtype);
  const Expression shifted = e.cast(variance, DType::kF64) + Term::number(epsilon);
  return {mean, variance, e.cast(square_root(shifted).unary(OpKind::kReciprocal), dtype)};
}

/// (x - mean) * scale * weight + bias as one product and one sum per element: x * a + b with a = scale * weight and
/// b = bias - mean * a, each with a single rounding, as a fused multiply-add has.
Term batch_normalized(OpCall& c, const Term& x, const Term& mean, const Term& scale, const Sizes& shape) {
  Emitter& e = c.emit();
  const DType dtype = x.dtype;
  const auto wide = [&](const Term& term) { return e.cast(term, DType::kF64); };
  const Term a = c.has("weight") ? multiply(e, scale, row(c, "weight", shape)) : scale;
  const Expression product = multiply(e, wide(mean), wide(a));
  const Expression b = e.cast(c.has("bias") ? wide(row(c, "bias", shape)) - product : -product, dtype);
  return e.cast(multiply(e, wide(x), wide(a)) + wide(b), dtype);
}

/// What the running statistics become.
struct Running {
  Term mean, variance;
};

Running running_statistics(OpCall& c, const Term& x, const BatchStatistics& s) {
  Running result{Term::number(0), Term::number(0)};
  if (c.has("running_mean")) result.mean = running(c, "running_mean", s.mean);
  if (c.has("running_var")) {
    const double count = static_cast<double>(x.elements()) / static_cast<double>(x.size(1));
    const Expression unbiased = multiply(c.emit(), s.variance, Term::number(count / (count - 1)));
    result.variance = running(c, "running_var", unbiased);
  }
  return result;
}

/// Result k is one number per channel, or was recorded empty.
void set_statistics(OpCall& c, std::size_t k, const Term& term) {
  if (!c.wants(k)) return;
  const Sizes& sizes = c.result(k).sizes;
  const bool empty = !sizes.empty() && sizes[0] == 0;
  c.set(k, empty ? Term::number(0) : c.emit().reshape(term, {term.elements()}));
}

void normalize_by_running(OpCall& c) {
  Emitter& e = c.emit();
  const Expression x = c.wide("input");
  const Sizes shape = channel_shape(x);
  if (!c.has("running_mean") || !c.has("running_var")) return e.fail("batch norm without statistics of either kind");
  c.name_composite("batch_norm_inference");
  const Term mean = row(c, "running_mean", shape);
  const Term scale = inverse_deviation(e, row(c, "running_var", shape), epsilon_of(c));
  c.set(0, scaled_and_shifted(c, normalized(e, x, mean, scale), &shape));
  set_statistics(c, 1, mean);
  set_statistics(c, 2, scale);
}

/// The functional forms return the running statistics from result `first` on, the others write them.
void normalize_by_batch(OpCall& c, std::size_t first) {
  Emitter& e = c.emit();
  const Expression x = c.wide("input");
  const Sizes shape = channel_shape(x);
  const BatchStatistics s = batch_statistics(e, x, but_channels(x.rank()), epsilon_of(c));
  // The framework normalises with what it saves, which is in the parameters' dtype on a CPU.
  const auto as_saved = [&](const Term& term, std::size_t k) {
    return c.wants(k) ? widened(e, e.cast(term, c.result(k).dtype)) : term;
  };
  const Term mean = as_saved(s.mean, 1), scale = as_saved(s.scale, 2);
  c.set(0, batch_normalized(c, x, mean, scale, shape));
  c.set(1, e.reshape(mean, {shape[1]}));
  c.set(2, e.reshape(scale, {shape[1]}));
  const Running now = running_statistics(c, x, s);
  if (first > 0) {
    c.set(first, now.mean);
    c.set(first + 1, now.variance);
    return;
  }
  if (c.has("running_mean")) c.write("running_mean", now.mean);
  if (c.has("running_var")) c.write("running_var", now.variance);
}

/// What a vendor keeps for its own gradient: the lowered gradient does not read it.
void set_reserve(OpCall& c, std::size_t k) {
  if (c.wants(k)) c.set(k, Term::integer(0));
}

/// native_batch_norm and its vendors' names: they write running_mean and running_var although not all schemas say so.
void batch_norm(OpCall& c) {
  set_reserve(c, 3);
  if (c.has("training") && !c.boolean("training")) return normalize_by_running(c);
  normalize_by_batch(c, 0);
}

void batch_norm_no_training(OpCall& c) {
  c.real("momentum");
  normalize_by_running(c);
}

void batch_norm_functional(OpCall& c) {
  const bool reserves = c.entry_name() == "aten::_batch_norm_with_update_functional";
  if (reserves) set_reserve(c, 3);
  if (!c.has("training") || c.boolean("training")) return normalize_by_batch(c, reserves ? 4 : 3);
  normalize_by_running(c);
  c.set(3, c.tensor("running_mean"));
  c.set(4, c.tensor("running_var"));
}

/// Every name keeps what forward saved as save_mean and save_invstd, some call the second save_var.
void batch_norm_backward(OpCall& c) {
  Emitter& e = c.emit();
  const Expression g = c.wide(c.has("grad_out") ? "grad_out" : "grad_output");
  const Expression x = c.wide("input");
  const Dims dims = but_channels(x.rank());
  const Sizes shape = channel_shape(x);
  const bool training = c.has("train") ? c.boolean("train") : c.has("update") ? c.boolean("update") : true;
  const double epsilon = epsilon_of(c);
  if (!training) c.name_composite("batch_norm_inference_backward");
  const Term mean = row(c, training ? "save_mean" : "running_mean", shape);
  const Term scale = training ? row(c, c.has("save_invstd") ? "save_invstd" : "save_var", shape)
                              : inverse_deviation(e, row(c, "running_var", shape), epsilon);
  const Expression h = normalized(e, x, mean, scale);
  if (c.wants(0)) {
    const Term weighted_scale = c.has("weight") ? multiply(e, scale, row(c, "weight", shape)) : scale;
    c.set(0, training ? normalization_backward(e, g, h, weighted_scale, dims) : multiply(e, g, weighted_scale));
  }
  if (c.wants(1)) c.set(1, e.reshape(e.sum(multiply(e, g, h), dims), {shape[1]}));
  if (c.wants(2)) c.set(2, e.reshape(e.sum(g, dims), {shape[1]}));
}

// The pieces of the synchronised batch norm.

void batch_norm_stats(OpCall& c) {
  Emitter& e = c.emit();
  const Expression x = c.wide("input");
  const BatchStatistics s = batch_statistics(e, x, but_channels(x.rank()), c.real("eps"));
  c.set(0, e.reshape(s.mean, {x.size(1)}));
  c.set(1, e.reshape(s.scale, {x.size(1)}));
}

void batch_norm_update_stats(OpCall& c) {
  Emitter& e = c.emit();
  const Expression x = c.wide("input");
  const BatchStatistics s = batch_statistics(e, x, but_channels(x.rank()), 0);
  c.set(0, e.reshape(s.mean, {x.size(1)}));
  c.set(1, e.reshape(s.variance, {x.size(1)}));
  const Running now = running_statistics(c, x, s);
  if (c.has("running_mean")) c.write("running_mean", now.mean);
  if (c.has("running_var")) c.write("running_var", now.variance);
}

void batch_norm_element(OpCall& c) {
  const Expression x = c.wide("input");
  const Sizes shape = channel_shape(x);
  c.real("eps");
  c.set(0, batch_normalized(c, x, row(c, "mean", shape), row(c, "invstd", shape), shape));
}

/// Statistics of several batches joined: mean and invstd are [batches, channels].
void batch_norm_gather_stats(OpCall& c) {
  Emitter& e = c.emit();
  const Expression means = c.wide("mean"), scales = c.wide("invstd");
  const double epsilon = c.real("eps");
  const DType dtype = means.dtype;
  Term counts;
  if (c.has("counts")) {
    counts = e.reshape(e.cast(c.wide("counts"), dtype), {means.size(0), 1});
  } else {
    counts = e.fill(Term::number(static_cast<double>(c.integer("count"))), {means.size(0), 1}, dtype);
  }
  const Expression total = e.sum(counts, {0});
  const Expression mean = e.sum(multiply(e, counts, means), {0}) / total;
  const Expression reciprocal = scales.unary(OpKind::kReciprocal);
  const Expression variances = multiply(e, reciprocal, reciprocal) - Term::number(epsilon);
  const Expression shift = means - mean;
  const Expression squares = variances + multiply(e, shift, shift);
  const Expression sum = e.sum(multiply(e, counts, squares), {0});
  c.set(0, e.reshape(mean, {means.size(1)}));
  c.set(1, e.reshape(inverse_deviation(e, sum / total, epsilon), {means.size(1)}));
  if (c.has("running_mean")) c.write("running_mean", running(c, "running_mean", mean));
  if (c.has("running_var")) {
    const Expression unbiased = sum / (total - 1.0);
    c.write("running_var", running(c, "running_var", unbiased));
  }
}

void batch_norm_backward_reduce(OpCall& c) {
  Emitter& e = c.emit();
  const Expression g = c.wide("grad_out"), x = c.wide("input");
  const Sizes shape = channel_shape(x);
  const Dims dims = but_channels(x.rank());
  for (const char* name : {"input_g", "weight_g", "bias_g"}) c.boolean(name);
  const Expression centered = x - row(c, "mean", shape);
  const Expression sum = e.sum(g, dims), product = e.sum(multiply(e, g, centered), dims);
  const auto flat = [&](const Term& term) { return e.reshape(term, {shape[1]}); };
  c.set(0, flat(sum));
  c.set(1, flat(product));
  c.set(2, flat(multiply(e, product, row(c, "invstd", shape))));
  c.set(3, flat(sum));
}

void batch_norm_backward_element(OpCall& c) {
  Emitter& e = c.emit();
  const Expression g = c.wide("grad_out"), x = c.wide("input");
  const Sizes shape = channel_shape(x);
  const Expression counts = e.cast(c.tensor("count"), x.dtype);
  const Expression total = e.reshape(e.sum(e.reshape(counts, {counts.elements()}), {0}), {});
  const Term scale = row(c, "invstd", shape);
  const Expression mean = row(c, "sum_dy", shape) / total;
  const Expression slope = multiply(e, row(c, "sum_dy_xmu", shape) / total, multiply(e, scale, scale));
  const Expression centered = x - row(c, "mean", shape);
  const Expression rest = g - mean - multiply(e, centered, slope);
  c.set(0, multiply(e, rest, c.has("weight") ? multiply(e, scale, row(c, "weight", shape)) : scale));
}

constexpr Entry kEntries[] = {
    {"aten::native_batch_norm", batch_norm},
    {"aten::native_batch_norm_backward", batch_norm_backward},
    {"aten::_native_batch_norm_legit", batch_norm},
    {"aten::_native_batch_norm_legit.no_stats", batch_norm},
    {"aten::_native_batch_norm_legit_no_training", batch_norm_no_training},
    {"aten::_native_batch_norm_legit_functional", batch_norm_functional},
    {"aten::_batch_norm_with_update", batch_norm},
    {"aten::_batch_norm_with_update_functional", batch_norm_functional},
    {"aten::_batch_norm_no_update", batch_norm_no_training},
    {"aten::batch_norm_backward", batch_norm_backward},
    {"aten::cudnn_batch_norm", batch_norm},
    {"aten::cudnn_batch_norm_backward", batch_norm_backward},
    {"aten::miopen_batch_norm", batch_norm},
    {"aten::miopen_batch_norm_backward", batch_norm_backward},
    {"aten::batch_norm_stats", batch_norm_stats},
    {"aten::batch_norm_update_stats", batch_norm_update_stats},
    {"aten::batch_norm_elemt", batch_norm_element},
    {"aten::batch_norm_gather_stats", batch_norm_gather_stats},
    {"aten::batch_norm_gather_stats_with_counts", batch_norm_gather_stats},
    {"aten::batch_norm_backward_reduce", batch_norm_backward_reduce},
    {"aten::batch_norm_backward_elemt", batch_norm_backward_element},
};

}  // namespace

std::span<const Entry> batch_norm_entries() { return kEntries; }

}  // namespace crucible::aten
