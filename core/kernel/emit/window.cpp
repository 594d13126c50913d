// Index arithmetic of sliding windows: see window.hpp.
#include "core/kernel/emit/window.hpp"

namespace crucible::kernel {

ExprId WindowAxis::input_index(IrBuilder& b, ExprId out, ExprId tap) const {
  const ExprId moved = b.add(b.multiply(out, stride), b.multiply(tap, dilation));
  return b.binary(Operation::kSubtract, moved, b.integer(padding));
}

ExprId WindowAxis::is_inside(IrBuilder& b, ExprId in) const {
  return b.binary(Operation::kAnd, b.binary(Operation::kLessEqual, b.integer(0), in),
                  b.binary(Operation::kLess, in, b.integer(input)));
}

std::pair<ExprId, ExprId> WindowAxis::output_range(IrBuilder& b, ExprId tap) const {
  // first = ceil((padding - tap * dilation) / stride), last = floor((input - 1 + padding - tap * dilation) / stride) +
  // 1, both shifted by a multiple of the stride so that the division is of numbers that are not negative.
  const std::int64_t shift = (taps * dilation) / stride + 1;
  const ExprId reach = b.binary(Operation::kSubtract, b.integer(padding + shift * stride), b.multiply(tap, dilation));
  const auto quotient = [&](std::int64_t more) {
    const ExprId divided = b.binary(Operation::kDivide, b.add(reach, b.integer(more)), b.integer(stride));
    const ExprId plain = b.binary(Operation::kSubtract, divided, b.integer(shift));
    const ExprId low = b.binary(Operation::kMaximum, plain, b.integer(0));
    return b.let(b.binary(Operation::kMinimum, low, b.integer(output)));
  };
  return {quotient(stride - 1), quotient(input - 1 + stride)};
}

bool has_phases(const std::int64_t (&stride)[2], std::int64_t height, std::int64_t width) {
  return (stride[0] > 1 || stride[1] > 1) && height % stride[0] == 0 && width % stride[1] == 0;
}

PhaseTaps taps_of_phase(std::int64_t stride, std::int64_t dilation, std::int64_t padding, std::int64_t size,
                        std::int64_t phase) {
  const std::int64_t start = phase + padding;
  PhaseTaps taps;
  for (std::int64_t tap = 0; tap < size; ++tap) {
    if ((start - tap * dilation) % stride != 0) continue;
    if (taps.count == 0) taps.first = tap;
    if (taps.count == 1) taps.step = tap - taps.first;
    ++taps.count;
  }
  taps.shift = (start - taps.first * dilation) / stride;
  taps.back = taps.step * dilation / stride;
  return taps;
}

}  // namespace crucible::kernel
