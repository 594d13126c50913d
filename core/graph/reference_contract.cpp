// Contractions and pooling of the reference interpreter: see reference_contract.hpp.
#include "core/graph/reference_contract.hpp"

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

/// Calls visit(index in x, index in weight, index in y) for every product of a convolution.
template <class Visit>
void for_each_product(const ConvolutionSizes& s, const Attributes& a, Visit visit) {
  for (const Sizes& sizes : {s.x, s.weight, s.y}) {
    if (count(sizes) == 0) return;  // extents around the one of 0 may be of any size
  }
  const std::int64_t height = s.x[2], width = s.x[3], kh = s.weight[2], kw = s.weight[3];
  const std::int64_t per_group_in = s.weight[1], per_group_out = s.weight[0] / a.groups;
  for (std::int64_t n = 0; n < s.y[0]; ++n) {
    for (std::int64_t o = 0; o < s.y[1]; ++o) {
      const std::int64_t first_channel = o / per_group_out * per_group_in;
      for (std::int64_t c = 0; c < per_group_in; ++c) {
        const std::int64_t x_plane = (n * s.x[1] + first_channel + c) * height * width;
        for (std::int64_t i = 0; i < kh; ++i) {
          for (std::int64_t j = 0; j < kw; ++j) {
            const std::int64_t w = ((o * per_group_in + c) * kh + i) * kw + j;
            for (std::int64_t oh = 0; oh < s.y[2]; ++oh) {
              const std::int64_t h = oh * a.stride[0] - a.padding[0] + i * a.dilation[0];
              if (h < 0 || h >= height) continue;
              const std::int64_t y_row = ((n * s.y[1] + o) * s.y[2] + oh) * s.y[3];
              for (std::int64_t ow = 0; ow < s.y[3]; ++ow) {
                const std::int64_t v = ow * a.stride[1] - a.padding[1] + j * a.dilation[1];
                if (v >= 0 && v < width) visit(at(x_plane + h * width + v), at(w), at(y_row + ow));
              }
            }
          }
        }
      }
    }
  }
}

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
  for_each_product(sizes, a, [&](std::size_t i, std::size_t w, std::size_t o) { y[o] += x[i] * weight[w]; });
  return y;
}

Reals reference_conv2d_backward_input(const Reals& gradient, const Reals& weight, const ConvolutionSizes& sizes,
                                      const Attributes& a) {
  Reals x(count(sizes.x), 0.0);
  for_each_product(sizes, a, [&](std::size_t i, std::size_t w, std::size_t o) { x[i] += gradient[o] * weight[w]; });
  return x;
}

Reals reference_conv2d_backward_weight(const Reals& gradient, const Reals& x, const ConvolutionSizes& sizes,
                                       const Attributes& a) {
  Reals weight(count(sizes.weight), 0.0);
  for_each_product(sizes, a, [&](std::size_t i, std::size_t w, std::size_t o) { weight[w] += gradient[o] * x[i]; });
  return weight;
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
