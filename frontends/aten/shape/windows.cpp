// Windows as views: see windows.hpp.
#include "frontends/aten/shape/windows.hpp"

#include <algorithm>

#include "core/graph/view.hpp"

namespace crucible::aten {

using graph::OpKind;
using graph::View;

namespace {

std::size_t at(std::int64_t index) { return static_cast<std::size_t>(index); }

/// Zeros (or `number`) of these sizes in which `region`, given as a view of them, holds x.
Expression placed(Emitter& e, const Term& x, const Sizes& sizes, View region, const Term& number) {
  const auto elements = View::contiguous(sizes).elements();
  const Expression base = e.fill(number, {elements}, x.dtype);
  graph::Attributes attributes;
  attributes.region = graph::normalized(std::move(region));
  return e.reshape(e.emit(OpKind::kUpdate, {base, x}, {elements}, x.dtype, attributes), sizes);
}

/// Sums over the window dimension `tap` along the axis at `dim`; the window dimension goes.
Expression fold_axis(Emitter& e, const Term& g, std::int64_t dim, std::int64_t tap, const Axis& a) {
  if (g.elements() == 0 || a.input == 0) {
    Sizes sizes = g.sizes();
    sizes[at(dim)] = a.input;
    sizes.erase(sizes.begin() + tap);
    return e.fill(Term::number(0), sizes, g.dtype);
  }
  // Outputs and taps in front, everything else behind them.
  std::vector<std::int64_t> order{tap, dim};
  for (std::int64_t d = 0; d < g.rank(); ++d) {
    if (d != tap && d != dim) order.push_back(d);
  }
  Term front;
  front.dtype = g.dtype;
  front.operand.value = g.operand.value;
  front.operand.view.offset = g.operand.view.offset;
  for (auto d : order) {
    front.operand.view.sizes.push_back(g.operand.view.sizes[at(d)]);
    front.operand.view.strides.push_back(g.operand.view.strides[at(d)]);
  }
  const Sizes rest(front.sizes().begin() + 2, front.sizes().end());
  const std::int64_t width = View::contiguous(rest).elements();
  const std::int64_t reach = (a.kernel - 1) * a.dilation;
  Term folded;
  if (reach < a.stride) {  // no two windows share an element: each goes to its place
    const std::int64_t length = std::max((a.output - 1) * a.stride + reach, a.input - 1 + a.padding) + 1;
    Sizes sizes{length};
    sizes.insert(sizes.end(), rest.begin(), rest.end());
    View region = View::contiguous(front.sizes());
    region.strides[0] = a.dilation * width;
    region.strides[1] = a.stride * width;
    folded = sliced(placed(e, front, sizes, region, Term::number(0)), 0, a.padding, a.input);
  } else {
    // One copy per tap, each shifted so that what meets at an input stands in one line through the copies.
    const std::int64_t length = std::max((a.output - 1) * a.stride, a.input - 1 + a.padding) + reach + 1;
    Sizes sizes{a.kernel, length};
    sizes.insert(sizes.end(), rest.begin(), rest.end());
    View region = View::contiguous(sizes);
    region.offset = reach * width;
    region.sizes[1] = a.output;
    region.strides[1] = a.stride * width;
    Term lines = placed(e, front, sizes, region, Term::number(0));
    View& view = lines.operand.view;
    view.offset += (a.padding + reach) * width;
    view.sizes[1] = a.input;
    view.strides[0] = (length - a.dilation) * width;
    folded = e.drop(e.sum(lines, {0}), {0});
  }
  // [input, rest...] back to where the axis was; the tap's dimension is gone.
  std::vector<std::int64_t> back;
  const std::int64_t home = tap < dim ? dim - 1 : dim;
  for (std::int64_t d = 0, next = 1; d < folded.rank(); ++d) back.push_back(d == home ? 0 : next++);
  return e.permute(folded, back);
}

}  // namespace

Term sliced(const Term& x, std::int64_t dim, std::int64_t begin, std::int64_t size, std::int64_t step) {
  Term result = x;
  View& view = result.operand.view;
  const auto d = at(wrap_dim(dim, x.rank()));
  if (size > 0) view.offset += begin * view.strides[d];
  view.sizes[d] = size;
  view.strides[d] *= step;
  view = graph::normalized(std::move(view));
  return result;
}

Term padded(Emitter& e, const Term& x, const Sizes& before, const Sizes& after, const Term& number) {
  Term inner = x;
  Sizes sizes = x.sizes();
  View region;
  bool grows = false;
  for (std::size_t d = 0; d < sizes.size(); ++d) {
    const std::int64_t cut = std::max<std::int64_t>(0, -before[d]), cut_after = std::max<std::int64_t>(0, -after[d]);
    const std::int64_t kept = std::max<std::int64_t>(0, sizes[d] - cut - cut_after);
    if (cut + cut_after > 0) inner = sliced(inner, static_cast<std::int64_t>(d), cut, kept);
    sizes[d] += before[d] + after[d];
    if (sizes[d] < 0) {
      e.fail("a margin cuts more than there is");
      return x;
    }
    grows = grows || before[d] > 0 || after[d] > 0;
  }
  if (!grows) return inner;
  if (!graph::checked_elements(sizes)) {
    e.fail("with its margins a tensor is larger than any memory");
    return x;
  }
  region = View::contiguous(sizes);
  for (std::size_t d = 0; d < sizes.size(); ++d)
    region.offset += std::max<std::int64_t>(0, before[d]) * region.strides[d];
  region.sizes = inner.sizes();
  if (inner.elements() == 0) return e.fill(number, sizes, x.dtype);
  return placed(e, inner, sizes, region, number);
}

Term windows(Emitter& e, const Term& x, const std::vector<std::int64_t>& dims, const std::vector<Axis>& axes,
             const Term& number) {
  Sizes before(x.sizes().size(), 0), after(x.sizes().size(), 0);
  for (std::size_t i = 0; i < dims.size(); ++i) {
    const Axis& a = axes[i];
    const std::int64_t last = (a.output - 1) * a.stride + (a.kernel - 1) * a.dilation;  // with the front margin
    before[at(dims[i])] = a.padding;
    after[at(dims[i])] = std::max<std::int64_t>(0, last + 1 - a.padding - a.input);
  }
  Term result = padded(e, x, before, after, number);
  View& view = result.operand.view;
  for (std::size_t i = 0; i < dims.size(); ++i) {
    const auto d = at(dims[i]);
    const std::int64_t stride = view.strides[d];
    view.sizes[d] = axes[i].output;
    view.strides[d] = stride * axes[i].stride;
    view.sizes.push_back(axes[i].kernel);
    view.strides.push_back(stride * axes[i].dilation);
  }
  view = graph::normalized(std::move(view));
  return result;
}

Term fold_windows(Emitter& e, const Term& g, const std::vector<std::int64_t>& dims, const std::vector<Axis>& axes) {
  Term result = g;
  for (std::size_t i = dims.size(); i-- > 0;) result = fold_axis(e, result, dims[i], result.rank() - 1, axes[i]);
  return result;
}

Term spread(Emitter& e, const Term& x, std::int64_t dim, std::int64_t step, std::int64_t before, std::int64_t size) {
  // Which elements land inside [0, size): `first` to `last` of them.
  const std::int64_t count = x.size(dim);
  const std::int64_t first = before >= 0 ? 0 : (-before + step - 1) / step;
  const std::int64_t room = size - 1 - before;
  const std::int64_t last = room < 0 ? 0 : std::min(count, room / step + 1);
  Sizes sizes = x.sizes();
  sizes[at(dim)] = size;
  if (first >= last || x.elements() == 0) return e.fill(Term::number(0), sizes, x.dtype);
  const Term inside = sliced(x, dim, first, last - first);
  View region = View::contiguous(sizes);
  region.offset = (before + first * step) * region.strides[at(dim)];
  region.sizes = inside.sizes();
  region.strides[at(dim)] *= step;
  return placed(e, inside, sizes, region, Term::number(0));
}

}  // namespace crucible::aten
