// A two-dimensional convolution, or one of its gradients, as the emulated libraries compute it: on the processor, in
// memory that has lost its tag. Sums go from the end, so that a result which comes from a library differs in its last
// bits from one of a generated kernel.
#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "tests/emulators/core/product.hpp"

namespace crucible::emulator {

struct ConvolutionOperand {
  char* data = nullptr;
  std::array<std::int64_t, 4> sizes = {}, strides = {};  // in elements
};

/// Which of the three is computed from the other two.
enum class ConvolutionKind { kForward, kBackwardData, kBackwardFilter };

struct Convolution {
  ConvolutionKind kind = ConvolutionKind::kForward;
  ElementType type = ElementType::kF32;  // of all three; sums are of f32
  bool keeps_f32 = false;                // the result is f32
  ConvolutionOperand x, weight, y;       // [n, c, h, w], [o, c / groups, kh, kw], [n, o, oh, ow]
  std::array<std::int64_t, 2> stride = {1, 1}, padding = {0, 0}, dilation = {1, 1};

  std::int64_t groups() const { return x.sizes[1] / weight.sizes[1]; }
  /// Whether the sizes belong together.
  bool fits() const;
  /// Products that are added up for each element of the result.
  std::int64_t sum_length() const;
  /// "conv_f32_forward_2x3x8x8_4x3x3x3": the name that rules of faults match.
  std::string name() const;
};

/// The result is overwritten.
void convolve(const Convolution& convolution);

}  // namespace crucible::emulator
