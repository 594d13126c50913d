// Contractions and pooling of the reference interpreter: plain loops over dense row-major arrays of doubles.
#pragma once

#include <cstdint>
#include <vector>

#include "core/graph/program.hpp"

namespace crucible::graph {

using Reals = std::vector<double>;
using Sizes = std::vector<std::int64_t>;

/// c[batch, m, n] = alpha * a[batch, m, k] b[batch, k, n]. Shapes: batches flattened.
Reals reference_matmul(const Reals& a, const Reals& b, std::int64_t batch, std::int64_t m, std::int64_t k,
                       std::int64_t n, double alpha);

/// Sizes of the three arrays of a convolution.
struct ConvolutionSizes {
  Sizes x, weight, y;
};

Reals reference_conv2d(const Reals& x, const Reals& weight, const ConvolutionSizes& sizes, const Attributes& a);
Reals reference_conv2d_backward_input(const Reals& gradient, const Reals& weight, const ConvolutionSizes& sizes,
                                      const Attributes& a);
Reals reference_conv2d_backward_weight(const Reals& gradient, const Reals& x, const ConvolutionSizes& sizes,
                                       const Attributes& a);

/// The `a.pieces` results of a convolution one behind the other: of `kind`, of its operands and result.
Reals reference_conv_pieces(OpKind kind, const Reals& first, const Reals& second, const ConvolutionSizes& sizes,
                            const Attributes& a);
/// The same of a product.
Reals reference_matmul_pieces(const Reals& a, const Reals& b, std::int64_t batch, std::int64_t m, std::int64_t k,
                              std::int64_t n, std::int64_t pieces);

/// Values and index (h * width + w of the first maximum; the last NaN where there is one) of each window.
void reference_max_pool2d(const Reals& x, const Sizes& x_sizes, const Sizes& y_sizes, const Attributes& a,
                          Reals& values, std::vector<std::int64_t>& index);

}  // namespace crucible::graph
