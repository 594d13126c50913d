// Lowering of convolutions over one to three dimensions, plain and transposed, with their gradients, under every name
// that a vendor's library gives them. The program knows convolutions over two dimensions: one dimension is an image of
// height 1; of three, the windows along the first become channels, which a view does.
#include <fmt/format.h>

#include <algorithm>

#include "frontends/aten/algebra/algebra.hpp"
#include "frontends/aten/algebra/rounding.hpp"
#include "frontends/aten/lower_table.hpp"
#include "frontends/aten/pooling/pool_window.hpp"

namespace crucible::aten {
namespace {

using graph::OpKind;

/// What a convolution is, apart from its tensors. One entry per spatial dimension, first to last.
struct Convolution {
  Sizes stride, padding, dilation, output_padding;
  std::int64_t groups = 1;
  bool transposed = false;

  std::size_t sides() const { return stride.size(); }
};

Convolution read_convolution(OpCall& c, const Term& x) {
  Convolution p;
  if (x.rank() < 3 || x.rank() > 5) {
    c.emit().fail(fmt::format("convolutions over {} dimensions are not supported: 1 to 3 are", x.rank() - 2));
    return p;
  }
  const auto sides = static_cast<std::size_t>(x.rank() - 2);
  p.stride = per_side(c, "stride", sides, 1);
  p.padding = per_side(c, "padding", sides, 0);
  p.dilation = per_side(c, "dilation", sides, 1);
  p.output_padding = per_side(c, "output_padding", sides, 0);
  const auto is_wrong = [](std::int64_t step) { return step < 1; };
  if (std::ranges::any_of(p.stride, is_wrong) || std::ranges::any_of(p.dilation, is_wrong)) {
    c.emit().fail("a stride or a dilation is not positive");
  }
  if (c.has("groups")) p.groups = c.integer("groups");
  const bool depthwise = c.entry_name().find("conv_depthwise") != std::string_view::npos;  // has no argument for it
  if (depthwise) p.groups = x.size(1);
  const bool named = c.entry_name().find("transpose") != std::string_view::npos;
  p.transposed = c.has("transposed") ? c.boolean("transposed") : named;
  return p;
}

graph::Attributes plane_attributes(const Convolution& p) {
  graph::Attributes a;
  const std::size_t last = p.sides() - 1;
  for (std::size_t d = 0; d < 2; ++d) {
    if (last == 0 && d == 0) continue;  // an image of height 1
    const std::size_t side = last - 1 + d;
    a.stride[d] = p.stride[side];
    a.padding[d] = p.padding[side];
    a.dilation[d] = p.dilation[side];
  }
  a.groups = p.groups;
  return a;
}

/// The windows along the first of three sides.
Axis depth_axis(const Convolution& p, std::int64_t input, std::int64_t output, std::int64_t kernel) {
  return {input, output, kernel, p.stride[0], p.padding[0], p.dilation[0]};
}

/// [n, c, d, h, w] as images [n * od, c * kd, h, w] in which each window along d is kd channels.
Expression depth_windows(Emitter& e, const Term& x, const Axis& axis) {
  const Expression seen = e.permute(windows(e, x, {2}, {axis}, Term::number(0)), {0, 2, 1, 5, 3, 4});
  return e.reshape(seen, {x.size(0) * axis.output, x.size(1) * axis.kernel, x.size(3), x.size(4)});
}

/// [n, o, od, oh, ow] as images [n * od, o, oh, ow].
Expression as_images(Emitter& e, const Term& y) {
  return e.reshape(e.transpose(y, 1, 2), {y.size(0) * y.size(2), y.size(1), y.size(3), y.size(4)});
}

/// [o, c, kd, kh, kw] as [o, c * kd, kh, kw].
Expression flat_weight(Emitter& e, const Term& w) {
  return e.reshape(w, {w.size(0), w.size(1) * w.size(2), w.size(3), w.size(4)});
}

/// A row [.., .., l] as an image of height 1.
Term as_plane(Emitter& e, const Term& x) { return x.rank() == 3 ? e.unsqueeze(x, 2) : x; }

Sizes as_plane(Sizes sizes) {
  if (sizes.size() == 3) sizes.insert(sizes.begin() + 2, 1);
  return sizes;
}

// The three contractions of an untransposed convolution, for any number of sides.

Expression convolved(Emitter& e, const Term& x, const Term& w, const Convolution& p, const Sizes& y) {
  const auto attributes = plane_attributes(p);
  if (p.sides() < 3) {
    return e.reshape(e.emit(OpKind::kConv2d, {as_plane(e, x), as_plane(e, w)}, as_plane(y), x.dtype, attributes), y);
  }
  const Expression images = depth_windows(e, x, depth_axis(p, x.size(2), y[2], w.size(2)));
  const Expression flat =
      e.emit(OpKind::kConv2d, {images, flat_weight(e, w)}, {y[0] * y[2], y[1], y[3], y[4]}, x.dtype, attributes);
  return e.transpose(e.reshape(flat, {y[0], y[2], y[1], y[3], y[4]}), 1, 2);
}

Term input_gradient(Emitter& e, const Term& g, const Term& w, const Convolution& p, const Sizes& x) {
  const auto attributes = plane_attributes(p);
  if (p.sides() < 3) {
    const std::vector<Term> inputs{as_plane(e, g), as_plane(e, w)};
    return e.reshape(e.emit(OpKind::kConv2dBackwardInput, inputs, as_plane(x), g.dtype, attributes), x);
  }
  const Axis axis = depth_axis(p, x[2], g.size(2), w.size(2));
  const Sizes images{x[0] * axis.output, x[1] * axis.kernel, x[3], x[4]};
  const Expression flat =
      e.emit(OpKind::kConv2dBackwardInput, {as_images(e, g), flat_weight(e, w)}, images, g.dtype, attributes);
  const Expression seen = e.reshape(flat, {x[0], axis.output, x[1], axis.kernel, x[3], x[4]});
  return fold_windows(e, e.permute(seen, {0, 2, 1, 4, 5, 3}), {2}, {axis});
}

Expression weight_gradient(Emitter& e, const Term& g, const Term& x, const Convolution& p, const Sizes& w) {
  const auto attributes = plane_attributes(p);
  if (p.sides() < 3) {
    const std::vector<Term> inputs{as_plane(e, g), as_plane(e, x)};
    return e.reshape(e.emit(OpKind::kConv2dBackwardWeight, inputs, as_plane(w), g.dtype, attributes), w);
  }
  const Expression images = depth_windows(e, x, depth_axis(p, x.size(2), g.size(2), w[2]));
  const Expression flat = e.emit(OpKind::kConv2dBackwardWeight, {as_images(e, g), images},
                                 {w[0], w[1] * w[2], w[3], w[4]}, g.dtype, attributes);
  return e.reshape(flat, w);
}

/// The small side of a transposed convolution with zeros behind it where the output padding is a stride or more, so
/// that what is left of it is less than a stride.
Term extended(Emitter& e, const Term& x, const Convolution& p) {
  Sizes before(x.sizes().size(), 0), after = before;
  for (std::size_t d = 0; d < p.sides(); ++d) after[2 + d] = p.output_padding[d] / p.stride[d];
  return padded(e, x, before, after, Term::number(0));
}

/// f16 and bf16 stay as they are where one contraction is all there is; sums after it are in f32.
Term wide_enough(Emitter& e, const Term& x) { return x.rank() == 5 ? widened(e, x) : x; }

Term with_bias(OpCall& c, const Term& y) {
  Emitter& e = c.emit();
  if (!c.has("bias")) return c.has("z") ? unrounded(e, y) : y;
  const Expression bias = c.wide("bias");
  Sizes shape(static_cast<std::size_t>(y.rank()), 1);
  shape[1] = bias.elements();
  return unrounded(e, y) + e.reshape(bias, shape);
}

/// One image without the batch dimension, as some of the names allow it: 1 in front.
struct Batched {
  bool added = false;
  Term operator()(Emitter& e, const Term& x) const { return added ? e.unsqueeze(x, 0) : x; }
  Sizes operator()(Sizes sizes) const {
    if (added) sizes.insert(sizes.begin(), 1);
    return sizes;
  }
};

Term forward(OpCall& c) {
  Emitter& e = c.emit();
  const Term w = wide_enough(e, c.tensor("weight"));
  const Expression given = c.tensor(c.has("input") ? "input" : "self");
  const Batched batched{given.rank() == w.rank() - 1};
  const Term x = wide_enough(e, batched(e, given));
  const Convolution p = read_convolution(c, x);
  if (!e.failure().empty()) return x;
  if (c.has("kernel_size")) c.integers("kernel_size");
  const Sizes y = batched(c.result(0).sizes);
  if (w.sizes().size() != y.size() || x.sizes().size() != y.size()) {
    e.fail("image, weight and result differ in their number of dimensions");
    return x;
  }
  const Term result = p.transposed ? input_gradient(e, extended(e, x, p), w, p, y) : convolved(e, x, w, p, y);
  return with_bias(c, result);
}

void convolution(OpCall& c) {
  Emitter& e = c.emit();
  const Term y = forward(c);
  if (e.failure().empty()) c.set(0, e.reshape(y, c.result(0).sizes));
}

void convolution_relu(OpCall& c) {
  Emitter& e = c.emit();
  Term y = forward(c);
  if (!e.failure().empty()) return;
  if (c.has("z")) {
    const Term alpha = c.has("alpha") ? c.operand("alpha") : Term::integer(1);
    y = add_scaled(e, y, c.tensor("z"), alpha);
  }
  c.set(0, e.binary(OpKind::kMaximum, y, Term::integer(0)));
}

void convolution_backward(OpCall& c) {
  Emitter& e = c.emit();
  const Expression given_g = c.tensor("grad_output"), given_x = c.tensor(c.has("input") ? "input" : "self");
  const Term w = wide_enough(e, c.tensor("weight"));
  const Batched batched{given_x.rank() == w.rank() - 1};
  const Term g = wide_enough(e, batched(e, given_g)), x = wide_enough(e, batched(e, given_x));
  const Convolution p = read_convolution(c, x);
  const auto mask = c.booleans("output_mask");
  for (const char* name : {"bias_sizes", "kernel_size"}) {
    if (c.has(name)) c.integers(name);
  }
  if (!e.failure().empty()) return;
  const auto wanted = [&](std::size_t k) { return k < mask.size() && mask[k] && c.wants(k); };
  if (g.elements() == 0 || x.elements() == 0) {  // sums of nothing
    if (wanted(0)) c.set(0, e.fill(Term::integer(0), given_x.sizes(), given_x.dtype));
    if (wanted(1)) c.set(1, e.fill(Term::integer(0), w.sizes(), w.dtype));
  } else if (!p.transposed) {
    if (wanted(0)) c.set(0, e.reshape(input_gradient(e, g, w, p, x.sizes()), given_x.sizes()));
    if (wanted(1)) c.set(1, weight_gradient(e, g, x, p, w.sizes()));
  } else {
    const Term long_x = extended(e, x, p);
    if (wanted(0)) {
      Term result = convolved(e, g, w, p, [&] {
        Sizes sizes = long_x.sizes();
        sizes[1] = w.size(0);
        return sizes;
      }());
      for (std::int64_t d = 2; d < x.rank(); ++d) result = sliced(result, d, 0, x.size(d));
      c.set(0, e.reshape(result, given_x.sizes()));
    }
    if (wanted(1)) c.set(1, weight_gradient(e, long_x, g, p, w.sizes()));
  }
  if (wanted(2)) {
    std::vector<std::int64_t> dims{0};
    for (std::int64_t d = 2; d < g.rank(); ++d) dims.push_back(d);
    c.set(2, e.drop(e.sum(widened(e, g), dims), dims));
  }
}

constexpr Entry kEntries[] = {
    {"aten::convolution", convolution},
    {"aten::_convolution", convolution},
    {"aten::convolution_overrideable", convolution},
    {"aten::convolution_backward", convolution_backward},
    {"aten::convolution_backward_overrideable", convolution_backward},
    {"aten::mkldnn_convolution", convolution},
    {"aten::cudnn_convolution", convolution},
    {"aten::cudnn_convolution_transpose", convolution},
    {"aten::cudnn_convolution_relu", convolution_relu},
    {"aten::cudnn_convolution_add_relu", convolution_relu},
    {"aten::miopen_convolution", convolution},
    {"aten::miopen_convolution_transpose", convolution},
    {"aten::miopen_depthwise_convolution", convolution},
    {"aten::miopen_convolution_relu", convolution_relu},
    {"aten::miopen_convolution_add_relu", convolution_relu},
    {"aten::_slow_conv2d_forward", convolution},
    {"aten::_slow_conv2d_backward.output_mask", convolution_backward},
    {"aten::slow_conv_dilated2d", convolution},
    {"aten::slow_conv_dilated3d", convolution},
    {"aten::slow_conv_transpose2d", convolution},
    {"aten::slow_conv_transpose3d", convolution},
    {"aten::slow_conv3d_forward", convolution},
    {"aten::_conv_depthwise2d", convolution},
    {"aten::conv_depthwise3d", convolution},
};

}  // namespace

std::span<const Entry> convolution_entries() { return kEntries; }

}  // namespace crucible::aten
