// Lowering of variances, norms, logarithms of sums of exponentials, and what is scaled by a norm.
#include <algorithm>
#include <cmath>
#include <limits>

#include "frontends/aten/algebra/formulas.hpp"
#include "frontends/aten/lower_table.hpp"
#include "frontends/aten/reduction/reducing.hpp"

namespace crucible::aten {
namespace {

using graph::OpKind;

constexpr double kInfinity = std::numeric_limits<double>::infinity();

/// Two-pass variance with `correction` (a number; None is 1), and the mean.
void variance(OpCall& c) {
  Emitter& e = c.emit();
  const Term x = widened(e, c.tensor("self"));
  const Dims dims = dims_of(c, x);
  const auto count = static_cast<double>(reduced_elements(x, dims));
  const Term mean = e.mean(x, dims);
  const Term centered = e.binary(OpKind::kSubtract, x, mean);
  const Term squares = e.sum(multiply(e, centered, centered), dims);
  const double correction = c.has("correction") ? c.real("correction") : 1.0;
  Term result = e.binary(OpKind::kDivide, squares, Term::number(std::max(count - correction, 0.0)));
  if (c.entry_name().starts_with("aten::std")) result = e.unary(OpKind::kSqrt, result);
  c.set(0, kept_or_dropped(c, result, dims));
  if (c.result_count() > 1) c.set(1, kept_or_dropped(c, mean, dims));
}

/// The order is called `ord` or `p`; None is 2.
void norm(OpCall& c) {
  Emitter& e = c.emit();
  const Term x = e.cast(c.tensor("self"), compute_dtype(c.result(0).dtype));
  const Dims dims = dims_of(c, x);
  const char* name = c.entry_name() == "aten::linalg_vector_norm" ? "ord" : "p";
  c.set(0, kept_or_dropped(c, vector_norm(e, x, c.has(name) ? c.real(name) : 2, dims), dims));
}

/// An infinite maximum is taken for 0, so that no difference of infinities arises.
Term finite_or_zero(Emitter& e, const Term& top) {
  const Term infinite = e.binary(OpKind::kEqual, e.unary(OpKind::kAbsolute, top), Term::number(kInfinity));
  return e.select(infinite, e.fill(Term::number(0), {}, top.dtype), top);
}

void log_sum_exp(OpCall& c) {
  Emitter& e = c.emit();
  const Term x = as_floating(e, c.tensor("self"));
  const Dims dims = dims_of(c, x);
  if (reduced_elements(x, dims) == 0) {
    return c.set(0, kept_or_dropped(c, e.unary(OpKind::kLog, e.sum(x, dims)), dims));
  }
  const Term top = finite_or_zero(e, e.max(x, dims));
  const Term total = e.sum(e.unary(OpKind::kExp, e.binary(OpKind::kSubtract, x, top)), dims);
  c.set(0, kept_or_dropped(c, e.binary(OpKind::kAdd, e.unary(OpKind::kLog, total), top), dims));
}

/// For each place the sum over all places up to it, relative to the largest element so far.
void log_cumulative_sum_exp(OpCall& c) {
  Emitter& e = c.emit();
  const Term given = as_floating(e, c.tensor("self"));
  if (given.rank() == 0 || given.elements() == 0) return c.set(0, given);
  const Term x = e.transpose(given, c.integer("dim"), -1);
  const Term top = finite_or_zero(e, running_extremum(e, OpKind::kScanMax, x, -1).values);
  Sizes square = x.sizes();
  square.push_back(x.size(-1));
  const Term row = e.expand(e.unsqueeze(x, -2), square), column = e.unsqueeze(top, -1);
  const Term counts = e.binary(OpKind::kLessEqual, e.coordinate(-1, square, DType::kI64),
                               e.coordinate(static_cast<std::int64_t>(square.size()) - 2, square, DType::kI64));
  const Term powers = e.unary(OpKind::kExp, e.binary(OpKind::kSubtract, row, column));
  const Term total = e.drop(e.sum(e.select(counts, powers, e.fill(Term::number(0), {}, x.dtype)), {-1}), {-1});
  c.set(0, e.transpose(e.binary(OpKind::kAdd, e.unary(OpKind::kLog, total), top), c.integer("dim"), -1));
}

/// Slices along `dim` whose norm is above maxnorm are scaled down to it.
void renorm(OpCall& c) {
  Emitter& e = c.emit();
  const Term x = widened(e, c.tensor("self"));
  Dims dims = all_dims(x);
  dims.erase(dims.begin() + wrap_dim(c.integer("dim"), x.rank()));
  const Term norm = vector_norm(e, x, c.real("p"), dims);
  const Term most = c.operand("maxnorm");
  const Term factor = e.binary(OpKind::kDivide, most, e.binary(OpKind::kAdd, norm, Term::number(1e-7)));
  const Term kept = e.fill(Term::number(1), {}, x.dtype);
  c.set(0, multiply(e, x, e.select(e.binary(OpKind::kGreater, norm, most), e.cast(factor, x.dtype), kept)));
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
  const Term v = widened(e, c.tensor("v")), g = widened(e, c.tensor("g"));
  const Term norms = vector_norm(e, v, 2, but_dim(v, c.integer("dim")));
  c.set(0, multiply(e, v, e.binary(OpKind::kDivide, e.reshape(g, norms.sizes()), norms)));
  c.set(1, norms);
}

void weight_norm_backward(OpCall& c) {
  Emitter& e = c.emit();
  const Term gradient = widened(e, c.tensor("grad_w")), v = widened(e, c.tensor("saved_v"));
  const Dims dims = but_dim(v, c.integer("dim"));
  Sizes shape = v.sizes();
  for (auto dim : dims) shape[static_cast<std::size_t>(dim)] = 1;
  const Term g = e.reshape(widened(e, c.tensor("saved_g")), shape);
  const Term norms = e.reshape(widened(e, c.tensor("saved_norms")), shape);
  const Term along = e.sum(multiply(e, gradient, v), dims);
  const Term share = e.binary(OpKind::kDivide, along, multiply(e, norms, norms));
  const Term scale = e.binary(OpKind::kDivide, g, norms);
  c.set(0, multiply(e, scale, e.binary(OpKind::kSubtract, gradient, multiply(e, v, share))));
  c.set(1, e.binary(OpKind::kDivide, along, norms));
}

constexpr Entry kEntries[] = {
    {"aten::var.correction", variance},
    {"aten::std.correction", variance},
    {"aten::var_mean.correction", variance},
    {"aten::std_mean.correction", variance},
    {"aten::linalg_vector_norm", norm},
    {"aten::norm.Scalar", norm},
    {"aten::norm.ScalarOpt_dim", norm},
    {"aten::norm.ScalarOpt_dtype", norm},
    {"aten::norm.ScalarOpt_dim_dtype", norm},
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
