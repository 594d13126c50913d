// Lowering of ops that only move elements of images: windows as columns and back, pixels and channels in another order.
#include "frontends/aten/algebra/algebra.hpp"
#include "frontends/aten/lower_table.hpp"
#include "frontends/aten/pooling/pool_window.hpp"

namespace crucible::aten {
namespace {

/// The windows of im2col over the last two dimensions of an image of these sizes.
std::vector<Axis> column_axes(OpCall& c, const Sizes& image) {
  const Sizes kernel = per_side(c, "kernel_size", 2, 1), dilation = per_side(c, "dilation", 2, 1);
  const Sizes padding = per_side(c, "padding", 2, 0), stride = per_side(c, "stride", 2, 1);
  std::vector<Axis> axes;
  for (std::size_t i = 0; i < 2; ++i) {
    const std::int64_t input = image[image.size() - 2 + i];
    const std::int64_t span = input + 2 * padding[i] - dilation[i] * (kernel[i] - 1) - 1;
    axes.push_back({input, span < 0 ? 0 : span / stride[i] + 1, kernel[i], stride[i], padding[i], dilation[i]});
  }
  return axes;
}

/// [n, c, h, w] -> [n, c * kh * kw, windows]; n may be missing.
void im2col(OpCall& c) {
  Emitter& e = c.emit();
  const Expression x = c.tensor(c.has("self") ? "self" : "grad_output");
  const auto axes = column_axes(c, x.sizes());
  Term seen = windows(e, x, {x.rank() - 2, x.rank() - 1}, axes, Term::number(0));
  const std::int64_t r = seen.rank();
  std::vector<std::int64_t> order;
  for (std::int64_t d = 0; d < r - 4; ++d) order.push_back(d);
  for (std::int64_t d : {r - 2, r - 1, r - 4, r - 3}) order.push_back(d);
  c.set(0, e.reshape(e.permute(seen, order), c.result(0).sizes));
}

void col2im(OpCall& c) {
  Emitter& e = c.emit();
  const Expression columns = c.wide(c.has("self") ? "self" : "grad_output");
  const Sizes image = c.result(0).sizes;
  c.integers(c.has("self") ? "output_size" : "input_size");
  if (image.size() < 3 || !e.failure().empty()) return e.fail("the image has fewer than 3 dimensions");
  const auto axes = column_axes(c, image);
  Sizes sizes(image.begin(), image.end() - 2);
  for (std::int64_t size : {axes[0].kernel, axes[1].kernel, axes[0].output, axes[1].output}) sizes.push_back(size);
  const auto r = static_cast<std::int64_t>(sizes.size());
  std::vector<std::int64_t> order;
  for (std::int64_t d = 0; d < r - 4; ++d) order.push_back(d);
  for (std::int64_t d : {r - 2, r - 1, r - 4, r - 3}) order.push_back(d);
  const Expression seen = e.permute(e.reshape(columns, sizes), order);
  if (!e.failure().empty()) return;
  c.set(0, fold_windows(e, seen, {r - 4, r - 3}, axes));
}

/// The gradient of Tensor.unfold: windows of `size` elements, `step` apart, in the last dimension.
void unfold_backward(OpCall& c) {
  Emitter& e = c.emit();
  const Expression g = c.wide("grad_in");
  const Sizes input = c.integers("input_sizes");
  const auto size = c.integer("size"), step = c.integer("step"), dim = c.integer("dim");
  if (input.empty()) return c.set(0, e.reshape(g, {}));  // a 0-dim tensor has one window of itself
  const auto d = wrap_dim(dim, static_cast<std::int64_t>(input.size()));
  if (d < 0 || d >= static_cast<std::int64_t>(input.size()) ||
      g.rank() != static_cast<std::int64_t>(input.size()) + 1 || step < 1) {
    return e.fail("arguments dim, step and input_sizes do not fit the gradient");
  }
  const Axis axis{input[static_cast<std::size_t>(d)], g.size(d), size, step};
  c.set(0, fold_windows(e, g, {d}, {axis}));
}

/// [..., c r r, h, w] -> [..., c, h r, w r].
void pixel_shuffle(OpCall& c) {
  Emitter& e = c.emit();
  const Expression x = c.tensor("self");
  const std::int64_t r = c.integer("upscale_factor"), rank = x.rank() + 2;
  if (r < 1 || r > (1 << 20)) return e.fail("argument upscale_factor is out of range");
  Sizes sizes(x.sizes().begin(), x.sizes().end() - 3);
  for (std::int64_t size : {x.size(-3) / (r * r), r, r, x.size(-2), x.size(-1)}) sizes.push_back(size);
  std::vector<std::int64_t> order;
  for (std::int64_t d = 0; d < rank - 4; ++d) order.push_back(d);
  for (std::int64_t d : {rank - 2, rank - 4, rank - 1, rank - 3}) order.push_back(d);
  c.set(0, e.reshape(e.permute(e.reshape(x, sizes), order), c.result(0).sizes));
}

/// [..., c, h r, w r] -> [..., c r r, h, w].
void pixel_unshuffle(OpCall& c) {
  Emitter& e = c.emit();
  const Expression x = c.tensor("self");
  const std::int64_t r = c.integer("downscale_factor"), rank = x.rank() + 2;
  if (r < 1 || r > (1 << 20)) return e.fail("argument downscale_factor is out of range");
  Sizes sizes(x.sizes().begin(), x.sizes().end() - 2);
  for (std::int64_t size : {x.size(-2) / r, r, x.size(-1) / r, r}) sizes.push_back(size);
  std::vector<std::int64_t> order;
  for (std::int64_t d = 0; d < rank - 4; ++d) order.push_back(d);
  for (std::int64_t d : {rank - 3, rank - 1, rank - 4, rank - 2}) order.push_back(d);
  c.set(0, e.reshape(e.permute(e.reshape(x, sizes), order), c.result(0).sizes));
}

void channel_shuffle(OpCall& c) {
  Emitter& e = c.emit();
  const Expression x = c.tensor("self");
  const std::int64_t groups = c.integer("groups");
  if (groups < 1 || x.size(1) % groups != 0) return e.fail("argument groups does not divide the channels");
  Sizes sizes = x.sizes();
  sizes[1] /= groups;
  sizes.insert(sizes.begin() + 1, groups);
  c.set(0, e.reshape(e.transpose(e.reshape(x, sizes), 1, 2), x.sizes()));
}

constexpr Entry kEntries[] = {
    {"aten::im2col", im2col, Complexity::kParts},
    {"aten::col2im", col2im, Complexity::kParts},
    {"aten::im2col_backward", col2im},  // as torch 1 recorded them
    {"aten::col2im_backward", im2col},
    {"aten::unfold_backward", unfold_backward, Complexity::kParts},
    {"aten::pixel_shuffle", pixel_shuffle, Complexity::kParts},
    {"aten::pixel_unshuffle", pixel_unshuffle, Complexity::kParts},
    {"aten::channel_shuffle", channel_shuffle, Complexity::kParts},
    {"aten::native_channel_shuffle", channel_shuffle},
};

}  // namespace

std::span<const Entry> unfold_entries() { return kEntries; }

}  // namespace crucible::aten
