// Windows over the sides of images as views: what convolutions, pools, paddings and foldings have in common. A window
// that reaches over the edge reads a margin that was put around the tensor; overlapping windows are strided views of
// the same elements and cost nothing.
#pragma once

#include "frontends/aten/algebra/emitter.hpp"

namespace crucible::aten {

/// Windows along one side: output o reads the inputs o * stride - padding + j * dilation for j < kernel.
struct Axis {
  std::int64_t input = 0, output = 0;
  std::int64_t kernel = 1, stride = 1, padding = 0, dilation = 1;
};

/// Elements `begin` to `begin + size` of dimension `dim`, `step` apart. A view.
Term sliced(const Term& x, std::int64_t dim, std::int64_t begin, std::int64_t size, std::int64_t step = 1);

/// x with `before[d]` and `after[d]` elements of `number` around dimension d; negative margins cut. A view where
/// nothing is added.
Term padded(Emitter& e, const Term& x, const Sizes& before, const Sizes& after, const Term& number);

/// Dimension dims[i] of x becomes axes[i].output windows, and one dimension of axes[i].kernel elements per axis is
/// appended: [n, c, h, w] -> [n, c, oh, ow, kh, kw]. Margins hold `number`.
Term windows(Emitter& e, const Term& x, const std::vector<std::int64_t>& dims, const std::vector<Axis>& axes,
             const Term& number);

/// The transposed map of windows(): every element of g is added to the input that it was read from. Sums in g's dtype.
Term fold_windows(Emitter& e, const Term& g, const std::vector<std::int64_t>& dims, const std::vector<Axis>& axes);

/// x along `dim`, `step - 1` zeros between neighbours, `before` zeros in front, `size` elements in all; what lies
/// outside of [0, size) is cut.
Term spread(Emitter& e, const Term& x, std::int64_t dim, std::int64_t step, std::int64_t before, std::int64_t size);

}  // namespace crucible::aten
