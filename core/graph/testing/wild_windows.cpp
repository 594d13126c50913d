// Contractions and pooling of wild programs: see wild_builder.hpp.
#include <algorithm>
#include <array>

#include "core/graph/testing/wild_builder.hpp"
#include "core/graph/view.hpp"

namespace crucible::graph {
namespace {

void choose_windows(WildBuilder& b, Attributes& a) {
  for (int d = 0; d < 2; ++d) {
    a.stride[d] = b.integer(1, 2);
    a.dilation[d] = b.integer(1, 2);
    a.padding[d] = b.integer(0, 1);
  }
}

std::int64_t windows(std::int64_t size, std::int64_t kernel, const Attributes& a, int d) {
  const std::int64_t span = size + 2 * a.padding[d] - a.dilation[d] * (kernel - 1) - 1;
  return span < 0 ? 0 : span / a.stride[d] + 1;
}

/// A tensor of the pool with four dimensions where there is one of this dtype, else a new one.
Operand image(WildBuilder& b, DType dtype) {
  for (int attempt = 0; attempt < 4; ++attempt) {
    Operand x = b.tensor();
    if (b.dtype(x) != dtype || x.view.elements() == 0) continue;
    while (x.view.sizes.size() < 4) {
      x.view.sizes.insert(x.view.sizes.begin(), 1);
      x.view.strides.insert(x.view.strides.begin(), 0);
    }
    return x;
  }
  return b.outside(ValueKind::kInput, dtype, {b.integer(1, 2), b.side(), b.side() + 1, b.side() + 1});
}

/// Products and convolutions of f16 and bf16 may keep the f32 that they are summed in.
DType summed_in(WildBuilder& b, DType dtype) {
  return (dtype == DType::kF16 || dtype == DType::kBF16) && b.one_in(2) ? DType::kF32 : dtype;
}

}  // namespace

void wild_matmul(WildBuilder& b) {
  const DType dtype = b.floating();
  Operand x = b.tensor_of(dtype);
  while (x.view.sizes.size() < 2) {
    x.view.sizes.insert(x.view.sizes.begin(), 1);
    x.view.strides.insert(x.view.strides.begin(), 0);
  }
  const std::size_t rank = x.view.sizes.size();
  const std::int64_t columns = b.side();
  Sizes right = x.view.sizes, sizes = x.view.sizes;
  right[rank - 2] = x.view.sizes[rank - 1];
  right[rank - 1] = columns;
  sizes[rank - 1] = columns;
  Operand y = b.like(right, dtype);
  Attributes a;
  if (b.one_in(3)) a.alpha = b.one_of(std::array{0.5, -1.0, 0.0});
  b.emit(OpKind::kMatMul, {x, y}, sizes, summed_in(b, dtype), a);
}

void wild_convolution(WildBuilder& b) {
  const DType dtype = b.floating();
  const Operand x = image(b, dtype);
  const Sizes& s = x.view.sizes;
  Attributes a;
  choose_windows(b, a);
  a.groups = s[1] % 2 == 0 && b.one_in(2) ? 2 : 1;
  const Sizes weight = {a.groups * b.integer(1, 2), s[1] / a.groups, b.integer(1, 3), b.integer(1, 3)};
  const Sizes result = {s[0], weight[0], windows(s[2], weight[2], a, 0), windows(s[3], weight[3], a, 1)};
  const DType summed = summed_in(b, dtype);
  switch (b.integer(0, 2)) {
    case 0:
      b.emit(OpKind::kConv2d, {x, b.like(weight, dtype)}, result, summed, a);
      break;
    case 1:
      b.emit(OpKind::kConv2dBackwardInput, {b.like(result, dtype), b.like(weight, dtype)}, s, summed, a);
      break;
    default:
      b.emit(OpKind::kConv2dBackwardWeight, {b.like(result, dtype), x}, weight, summed, a);
  }
}

void wild_pooling(WildBuilder& b) {
  const DType dtype = b.arithmetic();
  const Operand x = image(b, dtype);
  Attributes a;
  choose_windows(b, a);
  Sizes sizes = x.view.sizes;
  for (int d = 0; d < 2; ++d) {
    auto& size = sizes[static_cast<std::size_t>(d) + 2];
    a.kernel[d] = std::min<std::int64_t>(b.integer(1, 3), size);
    // Padding is at most half of a window, and every window has an element.
    const std::int64_t reach = a.dilation[d] * (a.kernel[d] - 1);
    if (2 * a.padding[d] > reach + 1) a.padding[d] = 0;
    const std::int64_t count = windows(size, a.kernel[d], a, d);
    const bool last_is_empty = count > 0 && (count - 1) * a.stride[d] >= size + a.padding[d];
    size = last_is_empty ? count - 1 : count;
    if (last_is_empty)
      a.dilation[d] = 1, a.padding[d] = 0,
      size = windows(x.view.sizes[static_cast<std::size_t>(d) + 2], a.kernel[d], a, d);
  }
  b.emit(OpKind::kMaxPool2d, {x}, sizes, dtype, a);
  const Operand places = b.emit_second(sizes, DType::kI64);
  if (b.one_in(2)) return;
  const DType gradient = b.floating();
  b.emit(OpKind::kMaxPool2dBackward, {b.like(sizes, gradient), places}, x.view.sizes, gradient);
}

void wild_factorization(WildBuilder& b) {
  const auto kind =
      static_cast<OpKind>(b.integer(static_cast<int>(OpKind::kCholesky), static_cast<int>(OpKind::kSingularValues)));
  const DType dtype = b.one_in(2) ? DType::kF32 : DType::kF64;
  const Sizes batch = b.sizes(0, 1);
  const auto of = [&](std::initializer_list<std::int64_t> sizes) {
    Sizes all = batch;
    all.insert(all.end(), sizes);
    return all;
  };
  const std::int64_t n = b.side(), m = n + b.integer(0, 2), least = std::min(m, n);
  Attributes a;
  switch (kind) {
    case OpKind::kCholesky:
      b.emit(kind, {b.like(of({n, n}), dtype)}, of({n, n}), dtype);
      return;
    case OpKind::kTriangularSolve:
      a.index = b.integer(0, 3);
      b.emit(kind, {b.like(of({n, n}), dtype), b.like(of({n, m}), dtype)}, of({n, m}), dtype, a);
      return;
    case OpKind::kLu:
    case OpKind::kHouseholderQr: {
      const bool wide = b.one_in(2);
      b.emit(kind, {b.like(wide ? of({n, m}) : of({m, n}), dtype)}, wide ? of({n, m}) : of({m, n}), dtype);
      b.emit_second(of({least}), kind == OpKind::kLu ? DType::kI64 : dtype);
      return;
    }
    case OpKind::kPivotsToPermutation:
      b.emit(kind, {b.like(of({n}), DType::kI64)}, of({m}), DType::kI64);
      return;
    case OpKind::kHouseholderProduct:
      b.emit(kind, {b.like(of({m, n}), dtype), b.like(of({n}), dtype)}, of({m, b.integer(n, m)}), dtype);
      return;
    case OpKind::kEigenSymmetric:
      b.emit(kind, {b.like(of({n, n}), dtype)}, of({n}), dtype);
      b.emit_second(of({n, n}), dtype);
      return;
    default:
      b.emit(kind, {b.like(of({m, n}), dtype)}, of({m, n}), dtype);
      b.emit_second(of({n}), dtype);
      b.emit_second(of({n, n}), dtype);
  }
}

}  // namespace crucible::graph
