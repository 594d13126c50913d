// Lowering of layer norm and RMS norm from their definitions: two-pass variance, statistics in keepdim shapes so that
// only the normalised tensor itself is full-size.
#include <limits>
#include <numeric>

#include "frontends/aten/algebra/algebra.hpp"
#include "frontends/aten/lower_table.hpp"
#include "frontends/aten/normalization/normalization.hpp"

namespace crucible::aten {
namespace {

using graph::OpKind;

struct Statistics {
  Term mean, variance;  // keepdim
};

Statistics statistics(Emitter& e, const Term& x, const Dims& dims) {
  const Expression mean = e.mean(x, dims);
  const Expression centered = x - mean;
  return {mean, e.mean(multiply(e, centered, centered), dims)};
}

/// The last dimensions that normalized_shape names.
Dims trailing(std::int64_t rank, std::size_t count) {
  Dims dims(count);
  std::iota(dims.begin(), dims.end(), rank - static_cast<std::int64_t>(count));
  return dims;
}

/// The dimensions before them.
Dims leading(std::int64_t rank, std::size_t count) {
  Dims dims(static_cast<std::size_t>(rank) - count);
  std::iota(dims.begin(), dims.end(), 0);
  return dims;
}

void native_layer_norm(OpCall& c) {
  Emitter& e = c.emit();
  const Expression x = c.wide("input");
  const Dims dims = trailing(x.rank(), c.integers("normalized_shape").size());
  const Statistics s = statistics(e, x, dims);
  const Term scale = inverse_deviation(e, s.variance, c.real("eps"));
  c.set(0, scaled_and_shifted(c, normalized(e, x, s.mean, scale), nullptr));
  c.set(1, s.mean);
  c.set(2, scale);
}

void native_layer_norm_backward(OpCall& c) {
  Emitter& e = c.emit();
  const Expression g = c.wide("grad_out"), x = c.wide("input");
  const Sizes shape = c.integers("normalized_shape");
  if (static_cast<std::int64_t>(shape.size()) > x.rank())
    return e.fail("argument normalized_shape is longer than the sizes");
  const Dims dims = trailing(x.rank(), shape.size()), rows = leading(x.rank(), shape.size());
  const Expression scale = c.wide("rstd");
  const Expression h = normalized(e, x, c.wide("mean"), scale);
  if (c.wants(0)) {
    const Expression weighted = c.has("weight") ? multiply(e, g, c.wide("weight")) : g;
    c.set(0, normalization_backward(e, weighted, h, scale, dims));
  }
  if (c.wants(1)) c.set(1, e.drop(e.sum(multiply(e, g, h), rows), rows));
  if (c.wants(2)) c.set(2, e.drop(e.sum(g, rows), rows));
}

/// x / sqrt(mean of squares + epsilon) * weight. Without an epsilon it is that of the dtype in which it is computed.
void fused_rms_norm(OpCall& c) {
  Emitter& e = c.emit();
  const Expression x = c.wide("input");
  const Dims dims = trailing(x.rank(), c.integers("normalized_shape").size());
  const double smallest = x.dtype == DType::kF64 ? std::numeric_limits<double>::epsilon()
                                                 : static_cast<double>(std::numeric_limits<float>::epsilon());
  if (!c.has("eps")) c.note("eps", smallest, false);
  const Term scale = inverse_deviation(e, e.mean(multiply(e, x, x), dims), c.has("eps") ? c.real("eps") : smallest);
  c.set(0, scaled_and_shifted(c, multiply(e, x, scale), nullptr));
  c.set(1, scale);
}

void fused_rms_norm_backward(OpCall& c) {
  Emitter& e = c.emit();
  const Expression g = c.wide("grad_out"), x = c.wide("input");
  const Sizes shape = c.integers("normalized_shape");
  if (static_cast<std::int64_t>(shape.size()) > x.rank())
    return e.fail("argument normalized_shape is longer than the sizes");
  const Dims dims = trailing(x.rank(), shape.size()), rows = leading(x.rank(), shape.size());
  const Expression scale = c.wide("rstd");
  const Expression h = multiply(e, x, scale);
  if (c.wants(0)) {
    const Expression weighted = c.has("weight") ? multiply(e, g, c.wide("weight")) : g;
    const Expression right = multiply(e, h, e.mean(multiply(e, weighted, h), dims));
    c.set(0, multiply(e, weighted - right, scale));
  }
  if (c.wants(1)) c.set(1, e.drop(e.sum(multiply(e, g, h), rows), rows));
}

constexpr Entry kEntries[] = {
    {"aten::native_layer_norm", native_layer_norm},
    {"aten::native_layer_norm_backward", native_layer_norm_backward},
    {"aten::_fused_rms_norm", fused_rms_norm},
    {"aten::_fused_rms_norm_backward", fused_rms_norm_backward},
};

}  // namespace

std::span<const Entry> normalization_entries() { return kEntries; }

}  // namespace crucible::aten
