// Complex numbers as pairs of real ones: see complex.hpp.
#include "frontends/aten/complex/complex.hpp"

#include <algorithm>
#include <limits>

#include "frontends/aten/algebra/algebra.hpp"

namespace crucible::aten {

using graph::OpKind;

bool is_complex(DType dtype) { return dtype == DType::kC64 || dtype == DType::kC128; }

DType component_of(DType complex) { return complex == DType::kC128 ? DType::kF64 : DType::kF32; }

trace::Tensor as_pairs(const trace::Tensor& tensor) {
  trace::Tensor pairs = tensor;
  pairs.dtype = component_of(tensor.dtype);
  // What a damaged recording says stays too large for any storage.
  constexpr std::int64_t kMost = std::int64_t{1} << 61;
  const auto doubled = [=](std::int64_t number) { return 2 * std::clamp(number, -kMost, kMost); };
  pairs.offset = doubled(pairs.offset);
  for (std::int64_t& stride : pairs.strides) stride = doubled(stride);
  pairs.sizes.push_back(2);
  pairs.strides.push_back(1);
  return pairs;
}

bool touches_complex(const trace::Trace& trace, const trace::Op& op) {
  const auto complex = [&](trace::TensorId id) { return is_complex(trace.tensors[id].dtype); };
  return std::ranges::any_of(tensors_in(op.args), complex) || std::ranges::any_of(tensors_in(op.outputs), complex);
}

Complex add(Emitter& e, const Complex& a, const Complex& b) {
  return {e.binary(OpKind::kAdd, a.real, b.real), e.binary(OpKind::kAdd, a.imaginary, b.imaginary)};
}

Complex subtract(Emitter& e, const Complex& a, const Complex& b) {
  return {e.binary(OpKind::kSubtract, a.real, b.real), e.binary(OpKind::kSubtract, a.imaginary, b.imaginary)};
}

Complex multiply(Emitter& e, const Complex& a, const Complex& b) {
  const auto times = [&](const Term& x, const Term& y) { return e.binary(OpKind::kMultiply, x, y); };
  return {e.binary(OpKind::kSubtract, times(a.real, b.real), times(a.imaginary, b.imaginary)),
          e.binary(OpKind::kAdd, times(a.real, b.imaginary), times(a.imaginary, b.real))};
}

Complex divide(Emitter& e, const Complex& a, const Complex& b) {
  // Both divided by the larger part of the divisor, so that its square neither overflows nor vanishes.
  const Expression re(e, b.real), im(e, b.imaginary);
  const Expression scale = larger(magnitude(re), magnitude(im));
  const Expression x = re / scale, y = im / scale, square = x * x + y * y;
  const Complex product = multiply(e, a, {x, -y});
  const Expression over = square * scale;
  const auto part = [&](const Term& whole, const Term& dividend) {
    return choose(scale == 0, Expression(e, dividend) / scale, Expression(e, whole) / over);  // by zero as part by part
  };
  return {part(product.real, a.real), part(product.imaginary, a.imaginary)};
}

Complex conjugate(Emitter& e, const Complex& x) { return {x.real, e.unary(OpKind::kNegate, x.imaginary)}; }

Complex polar(Emitter& e, const Term& length, const Term& turn) {
  return {e.binary(OpKind::kMultiply, length, e.unary(OpKind::kCos, turn)),
          e.binary(OpKind::kMultiply, length, e.unary(OpKind::kSin, turn))};
}

Term magnitude(Emitter& e, const Complex& x) {
  const Expression a = magnitude(Expression(e, x.real)), b = magnitude(Expression(e, x.imaginary));
  const Expression top = larger(a, b), low = smaller(a, b);
  const Expression ratio = low / top;
  const Expression length = top * (ratio * ratio + 1).unary(OpKind::kSqrt);
  // Zero, and an infinity beside anything, have no ratio; NaN beside a number stays NaN.
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  return choose(top == 0, top, choose((a == kInfinity) || (b == kInfinity), kInfinity, length));
}

}  // namespace crucible::aten
