// Lowering of variances, norms, logarithms of sums of exponentials, and what is scaled by a norm.
#include <algorithm>
#include <cmath>
#include <limits>

#include "frontends/aten/algebra/algebra.hpp"
#include "frontends/aten/lower_table.hpp"
#include "frontends/aten/reduction/reducing.hpp"

namespace crucible::aten {
namespace {

using graph::OpKind;

constexpr double kInfinity = std::numeric_limits<double>::infinity();

/// Two-pass variance with `correction` (a number; None is 1), and the mean.
void variance(OpCall& c) {
  Emitter& e = c.emit();
  const Expression x = c.wide("self");
  const Dims dims = dims_of(c, x);
  const auto count = static_cast<double>(reduced_elements(x, dims));
  const Expression mean = e.mean(x, dims);
  const Expression centered = x - mean;
  const Expression squares = e.sum(multiply(e, centered, centered), dims);
  const double correction = c.has("correction") ? c.real("correction") : 1.0;
  Term result = squares / Term::number(std::max(count - correction, 0.0));
  if (c.entry_name().starts_with("aten::std")) result = e.unary(OpKind::kSqrt, result);
  c.set(0, kept_or_dropped(c, result, dims));
  if (c.result_count() > 1) c.set(1, kept_or_dropped(c, mean, dims));
}

/// The order is called `ord` or `p`; None is 2.
void norm(OpCall& c) {
  Emitter& e = c.emit();
  const Expression x = e.cast(c.tensor("self"), compute_dtype(c.result(0).dtype));
  const Dims dims = dims_of(c, x);
  const char* name = c.entry_name() == "aten::linalg_vector_norm" ? "ord" : "p";
  c.set(0, kept_or_dropped(c, vector_norm(e, x, c.has(name) ? c.real(name) : 2, dims), dims));
}

/// An infinite maximum is taken for 0, so that no difference of infinities arises.
Expression finite_or_zero(Emitter& e, const Term& top) {
  const Expression infinite = e.unary(OpKind::kAbsolute, top) == kInfinity;
  return choose(infinite, e.fill(Term::number(0), {}, top.dtype), top);
}

void log_sum_exp(OpCall& c) {
  Emitter& e = c.emit();
  const Expression x = c.floating("self");
  const Dims dims = dims_of(c, x);
  if (reduced_elements(x, dims) == 0) {
    return c.set(0, kept_or_dropped(c, log(e.sum(x, dims)), dims));
  }
  const Expression top = finite_or_zero(e, e.max(x, dims));
  const Expression total = e.sum(exp(x - top), dims);
  c.set(0, kept_or_dropped(c, log(total) + top, dims));
}

/// For each place the sum over all places up to it, relative to the largest element so far.
void log_cumulative_sum_exp(OpCall& c) {
  Emitter& e = c.emit();
  const Expression given = c.floating("self");
  if (given.rank() == 0 || given.elements() == 0) return c.set(0, given);
  const Expression x = e.transpose(given, c.integer("dim"), -1);
  const Expression top = finite_or_zero(e, running_extremum(e, OpKind::kScanMax, x, -1).values);
  Sizes square = x.sizes();
  square.push_back(x.size(-1));
  const Expression row = e.expand(e.unsqueeze(x, -2), square), column = e.unsqueeze(top, -1);
  const Expression counts = e.coordinate(-1, square, DType::kI64) <=
                            e.coordinate(static_cast<std::int64_t>(square.size()) - 2, square, DType::kI64);
  const Expression powers = exp(row - column);
  const Expression total = e.drop(e.sum(choose(counts, powers, e.fill(Term::number(0), {}, x.dtype)), {-1}), {-1});
  c.set(0, e.transpose(log(total) + top, c.integer("dim"), -1));
}

/// Slices along `dim` whose norm is above maxnorm are scaled down to it.
void renorm(OpCall& c) {
  Emitter& e = c.emit();
  const Expression x = c.wide("self");
  Dims dims = all_dims(x);
  dims.erase(dims.begin() + wrap_dim(c.integer("dim"), x.rank()));
  const Expression norm = vector_norm(e, x, c.real("p"), dims);
  const Expression most = c.operand("maxnorm");
  const Expression factor = most / (norm + 1e-7);
  const Expression kept = e.fill(Term::number(1), {}, x.dtype);
  c.set(0, multiply(e, x, choose(norm > most, e.cast(factor, x.dtype), kept)));
}

/// Everything but `dim`, which is the first or the last dimension.
Dims but_dim(const Term& v, std::int64_t dim) {
  Dims dims = all_dims(v);
  const auto at = wrap_dim(dim, v.rank());
  if (at >= 0 && at < v.rank()) dims.erase(dims.begin() + at);
  return dims;
}

/// v scaled to the lengths g; the lengths of v are kept for the gradient.
void weight_norm(OpCall& c) {
  Emitter& e = c.emit();
  const Expression v = c.wide("v"), g = c.wide("g");
  const Expression norms = vector_norm(e, v, 2, but_dim(v, c.integer("dim")));
  c.set(0, multiply(e, v, e.reshape(g, norms.sizes()) / norms));
  c.set(1, norms);
}

void weight_norm_backward(OpCall& c) {
  Emitter& e = c.emit();
  const Expression gradient = c.wide("grad_w"), v = c.wide("saved_v");
  const Dims dims = but_dim(v, c.integer("dim"));
  Sizes shape = v.sizes();
  for (auto dim : dims) shape[static_cast<std::size_t>(dim)] = 1;
  const Expression g = e.reshape(c.wide("saved_g"), shape);
  const Expression norms = e.reshape(c.wide("saved_norms"), shape);
  const Expression along = e.sum(multiply(e, gradient, v), dims);
  const Expression share = along / multiply(e, norms, norms);
  const Expression scale = g / norms;
  c.set(0, multiply(e, scale, gradient - multiply(e, v, share)));
  c.set(1, along / norms);
}

constexpr Entry kEntries[] = {
    {"aten::var.correction", variance},
    {"aten::std.correction", variance},
    {"aten::var_mean.correction", variance},
    {"aten::std_mean.correction", variance},
    {"aten::linalg_vector_norm", norm, Complexity::kMagnitude},
    {"aten::norm.Scalar", norm, Complexity::kMagnitude},
    {"aten::norm.ScalarOpt_dim", norm, Complexity::kMagnitude},
    {"aten::norm.ScalarOpt_dtype", norm, Complexity::kMagnitude},
    {"aten::norm.ScalarOpt_dim_dtype", norm, Complexity::kMagnitude},
    {"aten::logsumexp", log_sum_exp},
    {"aten::_logcumsumexp", log_cumulative_sum_exp},
    {"aten::logcumsumexp", log_cumulative_sum_exp},
    {"aten::renorm", renorm},
    {"aten::_weight_norm_interface", weight_norm},
    {"aten::_weight_norm_interface_backward", weight_norm_backward},
};

}  // namespace

std::span<const Entry> statistics_entries() { return kEntries; }

}  // namespace crucible::aten
