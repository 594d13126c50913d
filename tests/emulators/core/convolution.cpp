// See convolution.hpp.
#include "tests/emulators/core/convolution.hpp"

#include <cmath>
#include <vector>

namespace crucible::emulator {
namespace {

std::int64_t index_of(const ConvolutionOperand& operand, std::int64_t a, std::int64_t b, std::int64_t c,
                      std::int64_t d) {
  return a * operand.strides[0] + b * operand.strides[1] + c * operand.strides[2] + d * operand.strides[3];
}

std::size_t count_of(const ConvolutionOperand& operand) {
  return static_cast<std::size_t>(operand.sizes[0] * operand.sizes[1] * operand.sizes[2] * operand.sizes[3]);
}

/// A copy in the order of the dimensions, and back.
std::vector<float> read_all(ElementType type, const ConvolutionOperand& operand) {
  std::vector<float> values;
  values.reserve(count_of(operand));
  for (std::int64_t a = 0; a < operand.sizes[0]; ++a)
    for (std::int64_t b = 0; b < operand.sizes[1]; ++b)
      for (std::int64_t c = 0; c < operand.sizes[2]; ++c)
        for (std::int64_t d = 0; d < operand.sizes[3]; ++d)
          values.push_back(static_cast<float>(read_element(type, operand.data, index_of(operand, a, b, c, d))));
  return values;
}

void write_all(ElementType type, const ConvolutionOperand& operand, const std::vector<float>& values) {
  std::size_t next = 0;
  for (std::int64_t a = 0; a < operand.sizes[0]; ++a)
    for (std::int64_t b = 0; b < operand.sizes[1]; ++b)
      for (std::int64_t c = 0; c < operand.sizes[2]; ++c)
        for (std::int64_t d = 0; d < operand.sizes[3]; ++d)
          write_element(type, operand.data, index_of(operand, a, b, c, d), static_cast<double>(values[next++]));
}

/// For each product of an element of x and one of weight that is part of an element of y: their places in dense copies,
/// from the end.
template <class Body>
void for_each_term(const Convolution& c, Body body) {
  const std::int64_t inputs = c.weight.sizes[1], outputs = c.weight.sizes[0] / c.groups(), kh = c.weight.sizes[2],
                     kw = c.weight.sizes[3];
  const auto dense = [](const ConvolutionOperand& operand, std::int64_t p, std::int64_t q, std::int64_t r,
                        std::int64_t s) {
    return static_cast<std::size_t>(((p * operand.sizes[1] + q) * operand.sizes[2] + r) * operand.sizes[3] + s);
  };
  for (std::int64_t n = c.y.sizes[0]; n-- > 0;)
    for (std::int64_t o = c.y.sizes[1]; o-- > 0;)
      for (std::int64_t i = inputs; i-- > 0;)
        for (std::int64_t p = kh; p-- > 0;)
          for (std::int64_t q = kw; q-- > 0;)
            for (std::int64_t h = c.y.sizes[2]; h-- > 0;) {
              const std::int64_t row = h * c.stride[0] - c.padding[0] + p * c.dilation[0];
              if (row < 0 || row >= c.x.sizes[2]) continue;
              for (std::int64_t w = c.y.sizes[3]; w-- > 0;) {
                const std::int64_t column = w * c.stride[1] - c.padding[1] + q * c.dilation[1];
                if (column < 0 || column >= c.x.sizes[3]) continue;
                body(dense(c.x, n, o / outputs * inputs + i, row, column), dense(c.weight, o, i, p, q),
                     dense(c.y, n, o, h, w));
              }
            }
}

}  // namespace

bool Convolution::fits() const {
  for (const ConvolutionOperand* operand : {&x, &weight, &y}) {
    for (std::size_t i = 0; i < 4; ++i) {
      if (operand->sizes[i] < 1 || operand->strides[i] < 1) return false;
    }
  }
  if (x.sizes[1] % weight.sizes[1] != 0 || weight.sizes[0] % groups() != 0) return false;
  if (y.sizes[0] != x.sizes[0] || y.sizes[1] != weight.sizes[0]) return false;
  for (std::size_t i = 0; i < 2; ++i) {
    const std::int64_t room = x.sizes[2 + i] + 2 * padding[i] - (weight.sizes[2 + i] - 1) * dilation[i] - 1;
    if (stride[i] < 1 || dilation[i] < 1 || padding[i] < 0 || room < 0 || y.sizes[2 + i] != room / stride[i] + 1)
      return false;
  }
  return true;
}

std::int64_t Convolution::sum_length() const {
  const std::int64_t window = weight.sizes[2] * weight.sizes[3];
  if (kind == ConvolutionKind::kForward) return weight.sizes[1] * window;
  if (kind == ConvolutionKind::kBackwardData) return weight.sizes[0] / groups() * window;
  return y.sizes[0] * y.sizes[2] * y.sizes[3];
}

std::string Convolution::name() const {
  const char* const types[] = {"f16", "bf16", "f32", "f64"};
  const char* const kinds[] = {"forward", "data", "filter"};
  std::string text = std::string("conv_") + types[static_cast<int>(type)] + "_" + kinds[static_cast<int>(kind)];
  for (const ConvolutionOperand* operand : {&x, &weight}) {
    for (std::size_t i = 0; i < 4; ++i) text += (i == 0 ? "_" : "x") + std::to_string(operand->sizes[i]);
  }
  return text;
}

void convolve(const Convolution& c) {
  const bool is_forward = c.kind == ConvolutionKind::kForward, is_data = c.kind == ConvolutionKind::kBackwardData;
  const ConvolutionOperand& result = is_forward ? c.y : is_data ? c.x : c.weight;
  std::vector<float> sums(count_of(result), 0);
  const std::vector<float> x = is_data ? std::vector<float>() : read_all(c.type, c.x);
  const std::vector<float> weight = is_forward || is_data ? read_all(c.type, c.weight) : std::vector<float>();
  const std::vector<float> y = is_forward ? std::vector<float>() : read_all(c.type, c.y);
  for_each_term(c, [&](std::size_t in_x, std::size_t in_weight, std::size_t in_y) {
    if (is_forward) sums[in_y] = std::fma(x[in_x], weight[in_weight], sums[in_y]);
    if (is_data) sums[in_x] = std::fma(y[in_y], weight[in_weight], sums[in_x]);
    if (c.kind == ConvolutionKind::kBackwardFilter) sums[in_weight] = std::fma(y[in_y], x[in_x], sums[in_weight]);
  });
  write_all(c.keeps_f32 ? ElementType::kF32 : c.type, result, sums);
}

}  // namespace crucible::emulator
