// Contractions and pooling of the reference interpreter: see reference_contract.hpp.
#include "core/graph/reference_contract.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace crucible::graph {
namespace {

std::size_t at(std::int64_t index) { return static_cast<std::size_t>(index); }

std::size_t count(const Sizes& sizes) {
  std::size_t product = 1;
  for (auto size : sizes) product *= at(size);
  return product;
}

/// Extents of a convolution, and the way through its products that all three contractions take: the order in which an
/// element of the result collects its products is by image, output channel, input channel, row and column of the
/// kernel, row and column of y.
struct Products {
  Products(const ConvolutionSizes& sizes, const Attributes& attributes)
      : s(sizes), a(attributes), per_group_in(sizes.weight[1]), per_group_out(sizes.weight[0] / attributes.groups) {}

  /// The columns of y from `first` up to `end` are those whose column of x, at kernel column j, is inside x.
  struct Columns {
    std::int64_t first, end;
  };
  Columns columns(std::int64_t j) const {
    const std::int64_t shift = j * a.dilation[1] - a.padding[1];  // column of x = column of y * stride + shift
    const std::int64_t stride = a.stride[1];
    const std::int64_t first = shift >= 0 ? 0 : (-shift + stride - 1) / stride;
    const std::int64_t beyond = s.x[3] - shift;
    const std::int64_t end = beyond <= 0 ? 0 : std::min(s.y[3], (beyond + stride - 1) / stride);
    return {std::min(first, end), end};
  }

  /// Calls visit(first index in x, index in weight, first index in y, elements) for every row of products with one
  /// weight; the elements of x are a stride apart, those of y side by side.
  template <class Visit>
  void for_each_row(Visit visit) const {
    for_each_planes([&](std::int64_t x_plane, std::int64_t w_plane, std::int64_t y_plane) {
      for (std::int64_t i = 0; i < s.weight[2]; ++i) {
        for (std::int64_t j = 0; j < s.weight[3]; ++j) {
          const auto [first, end] = columns(j);
          if (first == end) continue;
          for (std::int64_t oh = 0; oh < s.y[2]; ++oh) {
            const std::int64_t h = oh * a.stride[0] - a.padding[0] + i * a.dilation[0];
            if (h < 0 || h >= s.x[2]) continue;
            const std::int64_t v = first * a.stride[1] - a.padding[1] + j * a.dilation[1];
            visit(x_plane + h * s.x[3] + v, w_plane + i * s.weight[3] + j, y_plane + oh * s.y[3] + first, end - first);
          }
        }
      }
    });
  }

  /// Calls visit(index of a plane of x, of the weight and of y) for every pair of channels that meet in every image.
  template <class Visit>
  void for_each_planes(Visit visit) const {
    for (const Sizes& sizes : {s.x, s.weight, s.y}) {
      if (count(sizes) == 0) return;  // extents around the one of 0 may be of any size
    }
    for (std::int64_t n = 0; n < s.y[0]; ++n) {
      for (std::int64_t o = 0; o < s.y[1]; ++o) {
        for (std::int64_t c = 0; c < per_group_in; ++c) {
          const std::int64_t channel = o / per_group_out * per_group_in + c;
          visit((n * s.x[1] + channel) * s.x[2] * s.x[3], (o * per_group_in + c) * s.weight[2] * s.weight[3],
                (n * s.y[1] + o) * s.y[2] * s.y[3]);
        }
      }
    }
  }

  const ConvolutionSizes& s;
  const Attributes& a;
  std::int64_t per_group_in, per_group_out;
};

}  // namespace

Reals reference_matmul(const Reals& a, const Reals& b, std::int64_t batch, std::int64_t m, std::int64_t k,
                       std::int64_t n, double alpha) {
  Reals c(at(batch * m * n), 0.0);
  for (std::int64_t t = 0; t < batch; ++t) {
    for (std::int64_t i = 0; i < m; ++i) {
      double* row = c.data() + (t * m + i) * n;
      for (std::int64_t p = 0; p < k; ++p) {
        const double left = a[at((t * m + i) * k + p)];
        const double* right = b.data() + (t * k + p) * n;
        for (std::int64_t j = 0; j < n; ++j) row[j] += left * right[j];
      }
      for (std::int64_t j = 0; j < n; ++j) row[j] *= alpha;
    }
  }
  return c;
}

Reals reference_conv2d(const Reals& x, const Reals& weight, const ConvolutionSizes& sizes, const Attributes& a) {
  Reals y(count(sizes.y), 0.0);
  Products(sizes, a).for_each_row([&](std::int64_t from, std::int64_t w, std::int64_t to, std::int64_t size) {
    const double factor = weight[at(w)];
    const double* input = x.data() + from;
    double* output = y.data() + to;
    for (std::int64_t i = 0; i < size; ++i) output[i] += input[i * a.stride[1]] * factor;
  });
  return y;
}

Reals reference_conv2d_backward_input(const Reals& gradient, const Reals& weight, const ConvolutionSizes& sizes,
                                      const Attributes& a) {
  Reals x(count(sizes.x), 0.0);
  Products(sizes, a).for_each_row([&](std::int64_t to, std::int64_t w, std::int64_t from, std::int64_t size) {
    const double factor = weight[at(w)];
    const double* input = gradient.data() + from;
    double* output = x.data() + to;
    for (std::int64_t i = 0; i < size; ++i) output[i * a.stride[1]] += input[i] * factor;
  });
  return x;
}

Reals reference_conv2d_backward_weight(const Reals& gradient, const Reals& x, const ConvolutionSizes& sizes,
                                       const Attributes& a) {
  Reals weight(count(sizes.weight), 0.0);
  const Products products(sizes, a);
  const std::int64_t width = sizes.x[3], kh = sizes.weight[2], kw = sizes.weight[3];
  // The columns of the kernel are innermost: their sums do not wait for each other, as the products of one weight do.
  products.for_each_planes([&](std::int64_t x_plane, std::int64_t w_plane, std::int64_t y_plane) {
    for (std::int64_t i = 0; i < kh; ++i) {
      double* sums = weight.data() + w_plane + i * kw;
      for (std::int64_t oh = 0; oh < sizes.y[2]; ++oh) {
        const std::int64_t h = oh * a.stride[0] - a.padding[0] + i * a.dilation[0];
        if (h < 0 || h >= sizes.x[2]) continue;
        for (std::int64_t ow = 0; ow < sizes.y[3]; ++ow) {
          const double factor = gradient[at(y_plane + oh * sizes.y[3] + ow)];
          std::int64_t v = ow * a.stride[1] - a.padding[1];
          for (std::int64_t j = 0; j < kw; ++j, v += a.dilation[1]) {
            if (v >= 0 && v < width) sums[j] += factor * x[at(x_plane + h * width + v)];
          }
        }
      }
    }
  });
  return weight;
}

namespace {

/// Results of pieces: -0 until something is added, but for the first.
Reals no_pieces(std::int64_t pieces, std::size_t elements) {
  Reals all(at(pieces) * elements, -0.0);
  std::fill_n(all.begin(), static_cast<std::ptrdiff_t>(elements), 0.0);
  return all;
}

/// Which of the taps that meet row (or column) `place` of x is `tap`, and how many there are: all, or where the strides
/// divide both sizes of x those of its phase.
struct TapOfPhase {
  std::int64_t rank = 0, count = 0;
};
TapOfPhase tap_of_phase(const Products& p, std::size_t d, std::int64_t place, std::int64_t tap) {
  const std::int64_t taps = p.s.weight[2 + d], stride = p.a.stride[d];
  if (p.s.x[2] % p.a.stride[0] != 0 || p.s.x[3] % p.a.stride[1] != 0) return {tap, taps};
  TapOfPhase found;
  for (std::int64_t t = 0; t < taps; ++t) {
    if ((place + p.a.padding[d] - t * p.a.dilation[d]) % stride != 0) continue;
    found.rank += t < tap ? 1 : 0;
    ++found.count;
  }
  return found;
}

}  // namespace

Reals reference_conv_pieces(OpKind kind, const Reals& first, const Reals& second, const ConvolutionSizes& sizes,
                            const Attributes& a) {
  const Products p(sizes, a);
  const bool is_forward = kind == OpKind::kConv2d, is_input = kind == OpKind::kConv2dBackwardInput;
  const std::size_t elements = count(is_forward ? sizes.y : is_input ? sizes.x : sizes.weight);
  Reals result = no_pieces(a.pieces, elements);
  const std::int64_t taps = sizes.weight[2] * sizes.weight[3], places = sizes.y[2] * sizes.y[3];
  p.for_each_planes([&](std::int64_t x_plane, std::int64_t w_plane, std::int64_t y_plane) {
    const std::int64_t channel = w_plane / taps % p.per_group_in, image = y_plane / places / sizes.y[1],
                       output = y_plane / places % sizes.y[1] % p.per_group_out;
    for (std::int64_t tap = 0; tap < taps; ++tap) {
      const std::int64_t i = tap / sizes.weight[3], j = tap % sizes.weight[3];
      for (std::int64_t place = 0; place < places; ++place) {
        const std::int64_t h = place / sizes.y[3] * a.stride[0] - a.padding[0] + i * a.dilation[0];
        const std::int64_t v = place % sizes.y[3] * a.stride[1] - a.padding[1] + j * a.dilation[1];
        if (h < 0 || h >= sizes.x[2] || v < 0 || v >= sizes.x[3]) continue;
        const std::int64_t x = x_plane + h * sizes.x[3] + v, w = w_plane + tap, y = y_plane + place;
        std::int64_t step = is_forward ? channel * taps + tap : image * places + place;
        if (is_input) {
          const TapOfPhase down = tap_of_phase(p, 0, h, i), across = tap_of_phase(p, 1, v, j);
          step = (output * down.count + down.rank) * across.count + across.rank;
        }
        const double term = is_forward ? first[at(x)] * second[at(w)]
                            : is_input ? first[at(y)] * second[at(w)]
                                       : first[at(y)] * second[at(x)];
        result[at(step / kStepsOfPiece) * elements + at(is_forward ? y : is_input ? x : w)] += term;
      }
    }
  });
  return result;
}

Reals reference_matmul_pieces(const Reals& a, const Reals& b, std::int64_t batch, std::int64_t m, std::int64_t k,
                              std::int64_t n, std::int64_t pieces) {
  const std::int64_t elements = batch * m * n;
  Reals c = no_pieces(pieces, at(elements));
  for (std::int64_t row = 0; row < batch * m; ++row) {
    for (std::int64_t p = 0; p < k; ++p) {
      const double left = a[at(row * k + p)];
      const double* right = b.data() + (row / m * k + p) * n;
      double* to = c.data() + p / kStepsOfPiece * elements + row * n;
      for (std::int64_t j = 0; j < n; ++j) to[j] += left * right[j];
    }
  }
  return c;
}

void reference_max_pool2d(const Reals& x, const Sizes& x_sizes, const Sizes& y_sizes, const Attributes& a,
                          Reals& values, std::vector<std::int64_t>& index) {
  const std::int64_t height = x_sizes[2], width = x_sizes[3];
  values.assign(count(y_sizes), 0.0);
  index.assign(count(y_sizes), 0);
  std::size_t out = 0;
  for (std::int64_t plane = 0; plane < y_sizes[0] * y_sizes[1]; ++plane) {
    for (std::int64_t oh = 0; oh < y_sizes[2]; ++oh) {
      for (std::int64_t ow = 0; ow < y_sizes[3]; ++ow, ++out) {
        double best = -std::numeric_limits<double>::infinity();
        std::int64_t where = -1;
        for (std::int64_t i = 0; i < a.kernel[0]; ++i) {
          for (std::int64_t j = 0; j < a.kernel[1]; ++j) {
            const std::int64_t h = oh * a.stride[0] - a.padding[0] + i * a.dilation[0];
            const std::int64_t w = ow * a.stride[1] - a.padding[1] + j * a.dilation[1];
            if (h < 0 || h >= height || w < 0 || w >= width) continue;
            const double value = x[at((plane * height + h) * width + w)];
            if (where >= 0 && !(value > best) && !std::isnan(value)) continue;
            best = value;
            where = h * width + w;
          }
        }
        values[out] = best;
        index[out] = where < 0 ? 0 : where;
      }
    }
  }
}

}  // namespace crucible::graph
