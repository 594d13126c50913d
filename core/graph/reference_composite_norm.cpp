// Softmax, norms, GELU and the loss of classes with their gradients, from their definitions. See
// reference_composite.hpp.
#include <cmath>
#include <limits>
#include <numbers>
#include <optional>

#include "core/graph/reference_composite.hpp"

namespace crucible::graph {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr std::int64_t kMany = std::int64_t{1} << 20;  // attributes of no recording are larger; their products fit

/// NaN wins.
double larger(double a, double b) {
  return std::isnan(a) || std::isnan(b) ? std::numeric_limits<double>::quiet_NaN() : a > b ? a : b;
}

/// The lines of a tensor along a dimension: element i of line l is at start(l) + i * step.
struct Lines {
  std::size_t count = 0, length = 0, step = 1;
  Lines(const Sizes& sizes, std::size_t dim) : length(1) {
    std::size_t outer = 1;
    for (std::size_t d = 0; d < sizes.size(); ++d) {
      (d < dim ? outer : d == dim ? length : step) *= static_cast<std::size_t>(sizes[d]);
    }
    count = outer * step;
  }
  std::size_t at(std::size_t line, std::size_t i) const { return line / step * step * length + line % step + i * step; }
};

/// The lines that the attribute `dims` names; a tensor without dimensions is one line of one element.
std::optional<Lines> lines_of(const CompositeCall& call, const NamedTensor& x) {
  const auto dims = call.composite.integers("dims");
  if (dims.size() != 1 || dims[0] < 0) return std::nullopt;
  if (x.sizes.empty()) return Lines({1}, 0);
  if (static_cast<std::size_t>(dims[0]) >= x.sizes.size()) return std::nullopt;
  return Lines(x.sizes, static_cast<std::size_t>(dims[0]));
}

/// softmax, log_softmax, and the one in which a line of -infinity alone becomes zeros.
template <bool is_log, bool is_safe>
bool softmax(CompositeCall& call) {
  const NamedTensor* x = call.in("self");
  if (x == nullptr) return false;
  const auto lines = lines_of(call, *x);
  if (!lines) return false;
  Reals& y = call.out("output");
  y.assign(x->x.size(), 0);
  for (std::size_t line = 0; line < lines->count; ++line) {
    double top = -kInfinity, total = 0;
    for (std::size_t i = 0; i < lines->length; ++i) top = larger(top, x->x[lines->at(line, i)]);
    for (std::size_t i = 0; i < lines->length; ++i) total += std::exp(x->x[lines->at(line, i)] - top);
    for (std::size_t i = 0; i < lines->length; ++i) {
      const double shifted = x->x[lines->at(line, i)] - top;
      y[lines->at(line, i)] = is_safe && top == -kInfinity ? 0
                              : is_log                     ? shifted - std::log(total)
                                                           : std::exp(shifted) / total;
    }
  }
  return true;
}

/// dx = y (g - sum(g y)), of log_softmax g - exp(y) sum(g).
template <bool is_log>
bool softmax_backward(CompositeCall& call) {
  const NamedTensor *g = call.in("grad_output"), *y = call.in("output");
  if (g == nullptr || y == nullptr || g->sizes != y->sizes) return false;
  const auto lines = lines_of(call, *g);
  if (!lines) return false;
  Reals& dx = call.out("grad_input");
  dx.assign(g->x.size(), 0);
  for (std::size_t line = 0; line < lines->count; ++line) {
    double total = 0;
    for (std::size_t i = 0; i < lines->length; ++i) {
      const std::size_t at = lines->at(line, i);
      total += is_log ? g->x[at] : g->x[at] * y->x[at];
    }
    for (std::size_t i = 0; i < lines->length; ++i) {
      const std::size_t at = lines->at(line, i);
      dx[at] = is_log ? g->x[at] - std::exp(y->x[at]) * total : y->x[at] * (g->x[at] - total);
    }
  }
  return true;
}

/// How a norm sees its input: [batches, groups, channels, points]. Statistics are per batch and group, over `channels`
/// and points (layer, RMS and group norm), or per channel over batches and points (batch norm).
struct Layout {
  std::size_t batches = 1, groups = 1, channels = 1, points = 1;
  bool is_batch = false;

  std::size_t elements() const { return batches * groups * channels * points; }
  std::size_t statistics() const { return is_batch ? channels : batches * groups; }
  std::size_t count() const { return is_batch ? batches * points : channels * points; }
  std::size_t channel(std::size_t i) const { return i / points % channels; }
  std::size_t group(std::size_t i) const { return i / (points * channels) % groups; }
  std::size_t statistic(std::size_t i) const { return is_batch ? channel(i) : i / (points * channels); }
  /// Which element of weight and bias belongs to element i: of a layer norm each of its own.
  std::size_t parameter(std::size_t i) const { return is_batch ? channel(i) : group(i) * channels + channel(i); }
};

std::optional<Layout> layer_layout(const CompositeCall& call, const NamedTensor& x) {
  Layout layout;
  for (const std::int64_t size : call.composite.integers("shape")) {
    if (size < 0 || size > kMany) return std::nullopt;
    layout.channels *= static_cast<std::size_t>(size);
    if (layout.channels > static_cast<std::size_t>(kMany)) return std::nullopt;
  }
  if (layout.channels == 0 || x.x.size() % layout.channels != 0) return std::nullopt;
  layout.batches = x.x.size() / layout.channels;
  return layout;
}

std::optional<Layout> group_layout(const CompositeCall& call, const NamedTensor& x) {
  const double groups = call.number("groups"), channels = call.number("channels"), batches = call.number("batches"),
               points = call.number("points");
  if (!(groups >= 1) || !(channels >= groups) || !(batches >= 0) || !(points >= 0)) return std::nullopt;
  if (channels > kMany || batches > kMany || points > kMany) return std::nullopt;
  const Layout layout{static_cast<std::size_t>(batches), static_cast<std::size_t>(groups),
                      static_cast<std::size_t>(channels / groups), static_cast<std::size_t>(points), false};
  return layout.elements() == x.x.size() ? std::optional(layout) : std::nullopt;
}

std::optional<Layout> batch_layout(const CompositeCall&, const NamedTensor& x) {
  if (x.sizes.size() < 2) return std::nullopt;
  Layout layout{x.size(0), 1, x.size(1), 1, true};
  for (std::size_t d = 2; d < x.sizes.size(); ++d) layout.points *= x.size(d);
  return layout;
}

using LayoutOf = std::optional<Layout> (*)(const CompositeCall&, const NamedTensor&);

/// Sums of f(i) per statistic, divided by how many elements each has.
template <class Function>
Reals means(const Layout& layout, Function f) {
  Reals sums(layout.statistics(), 0.0);
  for (std::size_t i = 0; i < layout.elements(); ++i) sums[layout.statistic(i)] += f(i);
  for (double& sum : sums) sum /= static_cast<double>(layout.count());
  return sums;
}

/// (x - mean) / sqrt(variance + eps) * weight + bias.
void write_normalized(CompositeCall& call, const Layout& layout, const NamedTensor& x, const Reals& mean,
                      const Reals& scale) {
  const NamedTensor *weight = call.in("weight"), *bias = call.in("bias");
  Reals& y = call.out("output");
  y.resize(x.x.size());
  for (std::size_t i = 0; i < y.size(); ++i) {
    const std::size_t s = layout.statistic(i), p = layout.parameter(i);
    y[i] = (x.x[i] - mean[s]) * scale[s];
    if (weight != nullptr) y[i] *= weight->x[p];
    if (bias != nullptr) y[i] += bias->x[p];
  }
}

bool parameters_fit(const CompositeCall& call, const Layout& layout) {
  for (const char* name : {"weight", "bias"}) {
    const NamedTensor* row = call.in(name);
    if (row != nullptr && row->x.size() != (layout.is_batch ? layout.channels : layout.groups * layout.channels))
      return false;
  }
  for (const char* name : {"mean", "rstd", "running_mean", "running_var"}) {
    const NamedTensor* row = call.in(name);
    if (row != nullptr && row->x.size() != layout.statistics()) return false;
  }
  return true;
}

/// Layer, group and batch norm by the statistics of their input; without mean: RMS norm.
template <LayoutOf layout_of, bool has_mean>
bool norm(CompositeCall& call) {
  const NamedTensor* x = call.in("input");
  const auto layout = x == nullptr ? std::nullopt : layout_of(call, *x);
  if (!layout || !parameters_fit(call, *layout)) return false;
  const Reals mean =
      has_mean ? means(*layout, [&](std::size_t i) { return x->x[i]; }) : Reals(layout->statistics(), 0.0);
  const Reals variance = means(*layout, [&](std::size_t i) {
    const double deviation = x->x[i] - mean[layout->statistic(i)];
    return deviation * deviation;
  });
  Reals scale(variance.size());
  for (std::size_t s = 0; s < scale.size(); ++s) scale[s] = 1 / std::sqrt(variance[s] + call.number("eps"));
  write_normalized(call, *layout, *x, mean, scale);
  const double momentum = call.number("momentum"), count = static_cast<double>(layout->count());
  Reals old_mean, old_variance;
  if (const NamedTensor* old = call.in("running_mean")) old_mean = old->x;
  if (const NamedTensor* old = call.in("running_var")) old_variance = old->x;
  if (call.wants("running_mean")) {
    for (std::size_t s = 0; s < old_mean.size(); ++s) old_mean[s] = (1 - momentum) * old_mean[s] + momentum * mean[s];
    call.out("running_mean") = old_mean;
  }
  if (call.wants("running_var")) {
    for (std::size_t s = 0; s < old_variance.size(); ++s) {
      old_variance[s] = (1 - momentum) * old_variance[s] + momentum * (variance[s] * (count / (count - 1)));
    }
    call.out("running_var") = old_variance;
  }
  call.out("mean") = mean;
  call.out("rstd") = scale;
  return true;
}

/// Batch norm by running statistics.
bool batch_norm_inference(CompositeCall& call) {
  const NamedTensor *x = call.in("input"), *mean = call.in("running_mean"), *variance = call.in("running_var");
  if (x == nullptr || mean == nullptr || variance == nullptr) return false;
  const auto layout = batch_layout(call, *x);
  if (!layout || !parameters_fit(call, *layout)) return false;
  Reals scale(variance->x.size());
  for (std::size_t s = 0; s < scale.size(); ++s) scale[s] = 1 / std::sqrt(variance->x[s] + call.number("eps"));
  write_normalized(call, *layout, *x, mean->x, scale);
  call.out("rstd") = scale;
  return true;
}

/// With g the gradient times the weight, h the normalized input and m the mean over what a statistic was taken of:
/// scale (g - m(g) - h m(g h)); without mean scale (g - h m(g h)); with fixed statistics scale g.
template <LayoutOf layout_of, bool has_mean>
bool norm_backward(CompositeCall& call) {
  const NamedTensor *g = call.in("grad_out"), *x = call.in("input"), *mean = call.in("mean"), *scale = call.in("rstd"),
                    *weight = call.in("weight");
  if (g == nullptr) return false;
  const auto layout = layout_of(call, *g);
  if (!layout || !parameters_fit(call, *layout)) return false;
  const bool by_input = call.wants("grad_input") || call.wants("grad_weight");
  if (by_input && (x == nullptr || scale == nullptr || (has_mean && mean == nullptr) || x->x.size() != g->x.size()))
    return false;
  const auto weighted = [&](std::size_t i) {
    return weight == nullptr ? g->x[i] : g->x[i] * weight->x[layout->parameter(i)];
  };
  const auto h = [&](std::size_t i) {
    const std::size_t s = layout->statistic(i);
    return (has_mean ? x->x[i] - mean->x[s] : x->x[i]) * scale->x[s];
  };
  if (call.wants("grad_input")) {
    const Reals first = has_mean ? means(*layout, weighted) : Reals(layout->statistics(), 0.0);
    const Reals second = means(*layout, [&](std::size_t i) { return weighted(i) * h(i); });
    Reals& dx = call.out("grad_input");
    dx.resize(g->x.size());
    for (std::size_t i = 0; i < dx.size(); ++i) {
      const std::size_t s = layout->statistic(i);
      dx[i] = scale->x[s] * (weighted(i) - first[s] - h(i) * second[s]);
    }
  }
  const std::size_t parameters = layout->is_batch ? layout->channels : layout->groups * layout->channels;
  for (const char* name : {"grad_weight", "grad_bias"}) {
    if (!call.wants(name)) continue;
    Reals& sums = call.out(name);
    sums.assign(parameters, 0.0);
    for (std::size_t i = 0; i < g->x.size(); ++i)
      sums[layout->parameter(i)] += name[5] == 'w' ? g->x[i] * h(i) : g->x[i];
  }
  return true;
}

bool gelu(CompositeCall& call) {
  const NamedTensor* x = call.in("self");
  if (x == nullptr) return false;
  Reals& y = call.out("output");
  for (const double v : x->x) {
    const double inner = std::sqrt(2 / std::numbers::pi) * (v + 0.044715 * v * v * v);
    y.push_back(call.flag("tanh") ? 0.5 * v * (1 + std::tanh(inner))
                                  : v * 0.5 * (1 + std::erf(v / std::numbers::sqrt2)));
  }
  return true;
}

bool gelu_backward(CompositeCall& call) {
  const NamedTensor *g = call.in("grad_output"), *x = call.in("self");
  if (g == nullptr || x == nullptr || g->x.size() != x->x.size()) return false;
  Reals& dx = call.out("grad_input");
  const double root = std::sqrt(2 / std::numbers::pi);
  for (std::size_t i = 0; i < x->x.size(); ++i) {
    const double v = x->x[i];
    double slope = 0;
    if (call.flag("tanh")) {
      const double t = std::tanh(root * (v + 0.044715 * v * v * v));
      slope = 0.5 * (1 + t) + 0.5 * v * (1 - t * t) * root * (1 + 3 * 0.044715 * v * v);
    } else {
      slope =
          0.5 * (1 + std::erf(v / std::numbers::sqrt2)) + v * std::exp(-0.5 * v * v) / std::sqrt(2 * std::numbers::pi);
    }
    dx.push_back(g->x[i] * slope);
  }
  return true;
}

/// Targets of [samples, classes, places] and their weights.
struct Targets {
  std::size_t samples = 1, classes = 1, places = 1;
  const NamedTensor* target;
  const NamedTensor* weight;
  double ignored;

  Targets(const CompositeCall& call, const Sizes& scores)
      : target(call.in("target")), weight(call.in("weight")), ignored(call.number("ignore_index", -100)) {
    if (scores.size() == 1) classes = static_cast<std::size_t>(scores[0]);
    if (scores.size() < 2) return;
    samples = static_cast<std::size_t>(scores[0]);
    classes = static_cast<std::size_t>(scores[1]);
    for (std::size_t d = 2; d < scores.size(); ++d) places *= static_cast<std::size_t>(scores[d]);
  }
  bool fit() const {
    return target != nullptr && target->x.size() == samples * places &&
           (weight == nullptr || weight->x.size() == classes);
  }
  bool counts(std::size_t i) const { return target->x[i] != ignored; }
  bool is_class(std::size_t i) const { return target->x[i] >= 0 && target->x[i] < static_cast<double>(classes); }
  std::size_t class_of(std::size_t i) const { return static_cast<std::size_t>(target->x[i]); }
  double weight_of(std::size_t i) const { return weight == nullptr ? 1 : weight->x[class_of(i)]; }
  std::size_t score_of(std::size_t i) const { return (i / places * classes + class_of(i)) * places + i % places; }
};

/// The sum, the mean by weight or each of -weight * score of the target's class.
bool nll_loss(CompositeCall& call) {
  const NamedTensor* scores = call.in("self");
  if (scores == nullptr || scores->sizes.empty()) return false;
  const Targets targets(call, scores->sizes);
  if (!targets.fit()) return false;
  const double reduction = call.number("reduction");  // 0 each, 1 mean, 2 sum
  double total = 0, weights = 0;
  Reals each;
  for (std::size_t i = 0; i < targets.target->x.size(); ++i) {
    double loss = 0;
    if (targets.counts(i)) {
      if (!targets.is_class(i)) return false;
      loss = -targets.weight_of(i) * scores->x[targets.score_of(i)];
      weights += targets.weight_of(i);
    }
    each.push_back(loss);
    total += loss;
  }
  call.out("output") = reduction == 0 ? each : Reals{reduction == 1 ? total / weights : total};
  call.out("total_weight") = {weights};
  return true;
}

bool nll_loss_backward(CompositeCall& call) {
  const NamedTensor *g = call.in("grad_output"), *total = call.in("total_weight");
  if (g == nullptr || call.outputs.size() != 1) return false;
  const Targets targets(call, call.outputs[0].sizes);
  const double reduction = call.number("reduction");
  if (!targets.fit() || g->x.size() != (reduction == 0 ? targets.target->x.size() : 1) ||
      (reduction == 1 && total == nullptr))
    return false;
  Reals& dx = call.out("grad_input");
  dx.assign(targets.samples * targets.classes * targets.places, 0.0);
  for (std::size_t i = 0; i < targets.target->x.size(); ++i) {
    if (!targets.counts(i)) continue;
    if (!targets.is_class(i)) return false;
    dx[targets.score_of(i)] = -targets.weight_of(i) * (reduction == 0   ? g->x[i]
                                                       : reduction == 1 ? g->x[0] / total->x[0]
                                                                        : g->x[0]);
  }
  return true;
}

constexpr CompositeEntry kEntries[] = {
    {"softmax", softmax<false, false>},
    {"safe_softmax", softmax<false, true>},
    {"log_softmax", softmax<true, false>},
    {"softmax_backward", softmax_backward<false>},
    {"log_softmax_backward", softmax_backward<true>},
    {"layer_norm", norm<layer_layout, true>},
    {"layer_norm_backward", norm_backward<layer_layout, true>},
    {"rms_norm", norm<layer_layout, false>},
    {"rms_norm_backward", norm_backward<layer_layout, false>},
    {"group_norm", norm<group_layout, true>},
    {"group_norm_backward", norm_backward<group_layout, true>},
    {"batch_norm", norm<batch_layout, true>},
    {"batch_norm_inference", batch_norm_inference},
    {"batch_norm_backward", norm_backward<batch_layout, true>},
    {"gelu", gelu},
    {"gelu_backward", gelu_backward},
    {"nll_loss", nll_loss},
    {"nll_loss_backward", nll_loss_backward},
};

}  // namespace

std::span<const CompositeEntry> norm_composites() { return kEntries; }

}  // namespace crucible::graph
