// What element-wise ops make of single numbers: see reference_elementwise.hpp. The C library where it has a function.
#include "core/graph/reference_elementwise.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>

namespace crucible::graph {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

double maximum(double a, double b) {
  if (std::isnan(a) || std::isnan(b)) return kNan;
  return a > b ? a : b;
}

/// Newton's method on erf(x) = y, or on erfc(x) = 1 - y where erf is flat, from a point that all of them approach.
double erf_inverse(double y) {
  if (!(std::fabs(y) < 1)) return std::fabs(y) == 1 ? std::copysign(kInfinity, y) : kNan;
  const double target = std::fabs(y);
  double x = target < 0.5 ? target : 0.5;
  for (int i = 0; i < 200; ++i) {
    const double miss = target < 0.5 ? std::erf(x) - target : (1 - target) - std::erfc(x);
    const double step = miss * std::sqrt(std::numbers::pi) / 2 * std::exp(x * x);
    x -= std::clamp(step, -0.25, 0.25);
    if (std::fabs(step) < 1e-17 * x) break;
  }
  return y == 0 ? y : std::copysign(x, y);
}

/// Upwards by psi(x) = psi(x + 1) - 1 / x to where the asymptotic series is exact.
double digamma(double x) {
  if (x == 0) return std::copysign(kInfinity, -x);
  if (x == kInfinity) return x;
  if (std::isinf(x) || (x < 0 && x == std::floor(x))) return kNan;
  if (x < 0) {
    const double turn = x - std::floor(x);  // tan of pi times it is that of pi x
    return digamma(1 - x) - std::numbers::pi / std::tan(std::numbers::pi * turn);
  }
  double sum = 0;
  for (; x < 20; ++x) sum -= 1 / x;
  const double s = 1 / (x * x);
  const double series = s * (1.0 / 12 - s * (1.0 / 120 - s * (1.0 / 252 - s * (1.0 / 240 - s * (1.0 / 132)))));
  return sum + std::log(x) - 0.5 / x - series;
}

double logarithmic(OpKind kind, double a) {
  switch (kind) {
    case OpKind::kExp:
      return std::exp(a);
    case OpKind::kExp2:
      return std::exp2(a);
    case OpKind::kExpm1:
      return std::expm1(a);
    case OpKind::kLog:
      return std::log(a);
    case OpKind::kLog1p:
      return std::log1p(a);
    case OpKind::kLog2:
      return std::log2(a);
    case OpKind::kLog10:
      return std::log10(a);
    case OpKind::kSigmoid:
      return 1 / (1 + std::exp(-a));
    case OpKind::kErf:
      return std::erf(a);
    case OpKind::kErfc:
      return std::erfc(a);
    case OpKind::kErfInverse:
      return erf_inverse(a);
    case OpKind::kLogGamma:
      return std::lgamma(a);
    case OpKind::kDigamma:
      return digamma(a);
    default:
      return 0;  // not arithmetic: never asked for
  }
}

double trigonometric(OpKind kind, double a) {
  switch (kind) {
    case OpKind::kSin:
      return std::sin(a);
    case OpKind::kCos:
      return std::cos(a);
    case OpKind::kTan:
      return std::tan(a);
    case OpKind::kAsin:
      return std::asin(a);
    case OpKind::kAcos:
      return std::acos(a);
    case OpKind::kAtan:
      return std::atan(a);
    case OpKind::kSinh:
      return std::sinh(a);
    case OpKind::kCosh:
      return std::cosh(a);
    case OpKind::kTanh:
      return std::tanh(a);
    case OpKind::kAsinh:
      return std::asinh(a);
    case OpKind::kAcosh:
      return std::acosh(a);
    case OpKind::kAtanh:
      return std::atanh(a);
    default:
      return logarithmic(kind, a);
  }
}

std::int64_t power(std::int64_t base, std::int64_t exponent) {
  if (exponent < 0) return base == 1 ? 1 : base == -1 ? (exponent % 2 == 0 ? 1 : -1) : 0;
  std::uint64_t result = 1, square = static_cast<std::uint64_t>(base);
  for (; exponent != 0; exponent /= 2, square *= square) {
    if (exponent % 2 != 0) result *= square;
  }
  return static_cast<std::int64_t>(result);
}

/// The smallest number divided by -1 wraps.
std::int64_t divide(std::int64_t a, std::int64_t b) {
  if (b == 0) return 0;
  return b == -1 ? static_cast<std::int64_t>(0 - static_cast<std::uint64_t>(a)) : a / b;
}

std::int64_t shift(OpKind kind, DType dtype, std::int64_t a, std::int64_t b) {
  const std::int64_t bits = 8 * static_cast<std::int64_t>(size_bytes(dtype));
  const bool outside = b < 0 || b >= bits;
  if (kind == OpKind::kShiftRight) return outside ? (a < 0 ? -1 : 0) : a >> b;
  return outside ? 0 : static_cast<std::int64_t>(static_cast<std::uint64_t>(a) << b);
}

}  // namespace

double reference_real(OpKind kind, double a, double b) {
  switch (kind) {
    case OpKind::kNegate:
      return -a;
    case OpKind::kAbsolute:
      return std::fabs(a);
    case OpKind::kSqrt:
      return std::sqrt(a);
    case OpKind::kReciprocalSqrt:
      return 1 / std::sqrt(a);
    case OpKind::kReciprocal:
      return 1 / a;
    case OpKind::kFloor:
      return std::floor(a);
    case OpKind::kCeil:
      return std::ceil(a);
    case OpKind::kTruncate:
      return std::trunc(a);
    case OpKind::kRound:
      return std::nearbyint(a);
    case OpKind::kAdd:
      return a + b;
    case OpKind::kSubtract:
      return a - b;
    case OpKind::kMultiply:
      return a * b;
    case OpKind::kDivide:
      return a / b;
    case OpKind::kMaximum:
      return maximum(a, b);
    case OpKind::kMinimum:
      return -maximum(-a, -b);
    case OpKind::kPower:
      return std::pow(a, b);
    case OpKind::kAtan2:
      return std::atan2(a, b);
    case OpKind::kRemainder:
      return std::fmod(a, b);
    default:
      return trigonometric(kind, a);
  }
}

std::int64_t reference_integer(OpKind kind, DType dtype, std::int64_t a, std::int64_t b) {
  const auto x = static_cast<std::uint64_t>(a), y = static_cast<std::uint64_t>(b);
  switch (kind) {
    case OpKind::kNegate:
      return static_cast<std::int64_t>(0 - x);
    case OpKind::kAbsolute:
      return a < 0 ? static_cast<std::int64_t>(0 - x) : a;
    case OpKind::kAdd:
      return static_cast<std::int64_t>(x + y);
    case OpKind::kSubtract:
      return static_cast<std::int64_t>(x - y);
    case OpKind::kMultiply:
      return static_cast<std::int64_t>(x * y);
    case OpKind::kMaximum:
      return std::max(a, b);
    case OpKind::kMinimum:
      return std::min(a, b);
    case OpKind::kPower:
      return power(a, b);
    case OpKind::kDivideInteger:
      return divide(a, b);
    case OpKind::kRemainder:
      return b == 0 || b == -1 ? 0 : a % b;
    case OpKind::kBitNot:
      return ~a;
    case OpKind::kBitAnd:
      return a & b;
    case OpKind::kBitOr:
      return a | b;
    case OpKind::kBitXor:
      return a ^ b;
    case OpKind::kShiftLeft:
    case OpKind::kShiftRight:
      return shift(kind, dtype, a, b);
    default:
      return 0;  // verify() allows no other kind on integers
  }
}

}  // namespace crucible::graph
