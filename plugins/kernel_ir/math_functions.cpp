// The text of the functions that kernels call by number (functions.hpp). Rare ones: float64, from float64's exp, log,
// erf, sin and cos in math_prelude_f64.cpp, within 1e-13 relative except near zeros of lgamma and digamma; float32 is
// float64 rounded once.
#include <string>

#include "plugins/kernel_ir/math_prelude.hpp"

namespace crucible::kernel {
namespace {

constexpr std::string_view kRounding = R"(
CRUCIBLE_FN double crucible_ceil_f64(double x) { return -__builtin_floor(-x); }
CRUCIBLE_FN float crucible_ceil_f32(float x) { return -__builtin_floorf(-x); }
CRUCIBLE_FN double crucible_trunc_f64(double x) { return crucible_copysign_f64(__builtin_floor(crucible_abs_f64(x)), x); }
CRUCIBLE_FN float crucible_trunc_f32(float x) { return crucible_copysign_f32(__builtin_floorf(crucible_abs_f32(x)), x); }
CRUCIBLE_FN double crucible_round_f64(double x) { /* half to even */
  double a = crucible_abs_f64(x), low = __builtin_floor(a), d = a - low;
  double odd = low - 2.0 * __builtin_floor(0.5 * low);
  return crucible_copysign_f64(low + ((d > 0.5) | ((d == 0.5) & (odd != 0.0)) ? 1.0 : 0.0), x);
}
CRUCIBLE_FN float crucible_round_f32(float x) {
  float a = crucible_abs_f32(x), low = __builtin_floorf(a), d = a - low;
  float odd = low - 2.0f * __builtin_floorf(0.5f * low);
  return crucible_copysign_f32(low + ((d > 0.5f) | ((d == 0.5f) & (odd != 0.0f)) ? 1.0f : 0.0f), x);
}
)";

constexpr std::string_view kExponential = R"(
CRUCIBLE_FN double crucible_exp2_f64(double x) {
  double c = x > 1030.0 ? 1030.0 : x;
  c = c < -1080.0 ? -1080.0 : c;
  double n = __builtin_floor(c + 0.5);
  double p = crucible_expm1r_f64_((c - n) * 0x1.62e42fefa39efp-1) + 1.0;
  int64_t i = (int64_t)(n == n ? n : 0.0), half = i >> 1;
  return (p * crucible_pow2i_f64_(half)) * crucible_pow2i_f64_(i - half);
}
CRUCIBLE_FN double crucible_expm1_f64(double x) { /* 2^n (e^r - 1) + 2^n - 1 */
  double c = x > 40.0 ? 40.0 : x;
  c = c < -40.0 ? -40.0 : c;
  double z = __builtin_fma(c, 0x1.71547652b82fep0, 0x1.8p52);
  double n = z - 0x1.8p52;
  double r = __builtin_fma(n, -0x1.62e42fefa3800p-1, c);
  r = __builtin_fma(n, -0x1.ef35793c76730p-45, r);
  double scale = crucible_pow2i_f64_((int64_t)(crucible_bits64(z) - 0x4338000000000000ull));
  double y = __builtin_fma(crucible_expm1r_f64_(r), scale, scale - 1.0);
  y = x > 40.0 ? crucible_exp_f64(x) : y;
  return x == 0.0 ? x : y;
}
CRUCIBLE_FN double crucible_log1p_f64(double x) { /* log of the rounded sum, and what rounding lost */
  double u = 1.0 + x, lost = (x - (u - 1.0)) / u;
  double y = crucible_log_f64(u) + (((u > 0.0) & (u < 0x1p1000)) ? lost : 0.0);
  return x == 0.0 ? x : y;
}
CRUCIBLE_FN double crucible_log2_f64(double x) {
  crucible_log_parts_ parts = crucible_log_parts_f64_(x);
  double y = __builtin_fma(parts.log_m, 0x1.71547652b82fep0, parts.n);
  return (crucible_bits64(x) - 1u) < 0x7fefffffffffffffull ? y : crucible_log_f64(x);
}
CRUCIBLE_FN double crucible_log10_f64(double x) {
  crucible_log_parts_ parts = crucible_log_parts_f64_(x);
  double y = __builtin_fma(parts.log_m, 0x1.bcb7b1526e50ep-2, parts.n * 0x1.9dc1da994fd21p-59);
  y = __builtin_fma(parts.n, 0x1.34413509f79ffp-2, y);
  return (crucible_bits64(x) - 1u) < 0x7fefffffffffffffull ? y : crucible_log_f64(x);
}
CRUCIBLE_FN double crucible_sinh_f64(double x) {
  double a = crucible_abs_f64(x), t = crucible_expm1_f64(a), root = crucible_exp_f64(0.5 * a);
  double y = a > 700.0 ? (0.5 * root) * root : 0.5 * (t + t / (t + 1.0));
  return crucible_copysign_f64(y, x);
}
CRUCIBLE_FN double crucible_cosh_f64(double x) {
  double a = crucible_abs_f64(x), e = crucible_exp_f64(a), root = crucible_exp_f64(0.5 * a);
  return a > 700.0 ? (0.5 * root) * root : 0.5 * (e + 1.0 / e);
}
CRUCIBLE_FN double crucible_asinh_f64(double x) {
  double a = crucible_abs_f64(x), s = a * a;
  double y = a > 0x1p30 ? crucible_log_f64(a) + 0x1.62e42fefa39efp-1
                        : crucible_log1p_f64(a + s / (1.0 + __builtin_sqrt(s + 1.0)));
  return crucible_copysign_f64(y, x);
}
CRUCIBLE_FN double crucible_acosh_f64(double x) {
  double t = x - 1.0;
  double y = x > 0x1p30 ? crucible_log_f64(x) + 0x1.62e42fefa39efp-1
                        : crucible_log1p_f64(t + __builtin_sqrt(t * (t + 2.0)));
  return x < 1.0 ? __builtin_nan("") : y;
}
CRUCIBLE_FN double crucible_atanh_f64(double x) {
  double a = crucible_abs_f64(x);
  return crucible_copysign_f64(0.5 * crucible_log1p_f64(2.0 * a / (1.0 - a)), x);
}
)";

constexpr std::string_view kAngles = R"(
CRUCIBLE_FN double crucible_tan_f64(double x) { return crucible_sin_f64(x) / crucible_cos_f64(x); }
/* for 0 <= t <= 1: halved twice by atan t = 2 atan(t / (1 + sqrt(1 + t^2))), then the series */
CRUCIBLE_FN double crucible_atan_unit_f64_(double t) {
  t = t / (1.0 + __builtin_sqrt(__builtin_fma(t, t, 1.0)));
  t = t / (1.0 + __builtin_sqrt(__builtin_fma(t, t, 1.0)));
  double s = t * t, p = 0.0;
  for (int k = 12; k > 0; --k) p = s * (((k & 1) != 0 ? -1.0 : 1.0) / (2 * k + 1) + p);
  return 4.0 * __builtin_fma(t, p, t);
}
CRUCIBLE_FN double crucible_atan_f64(double x) {
  double a = crucible_abs_f64(x);
  double y = crucible_atan_unit_f64_(a > 1.0 ? 1.0 / a : a);
  y = a > 1.0 ? 0x1.921fb54442d18p0 - (y - 0x1.1a62633145c07p-54) : y;
  return crucible_copysign_f64(y, x);
}
CRUCIBLE_FN double crucible_asin_f64(double x) {
  double a = crucible_abs_f64(x);
  double y = 2.0 * crucible_atan_unit_f64_(a / (1.0 + __builtin_sqrt((1.0 - a) * (1.0 + a))));
  return crucible_copysign_f64(y, x);
}
CRUCIBLE_FN double crucible_acos_f64(double x) { return 2.0 * crucible_atan_f64(__builtin_sqrt((1.0 - x) / (1.0 + x))); }
CRUCIBLE_FN double crucible_atan2_f64(double y, double x) {
  double ay = crucible_abs_f64(y), ax = crucible_abs_f64(x);
  double least = ay < ax ? ay : ax, most = ay < ax ? ax : ay;
  double ratio = most == 0.0 ? 0.0 : least == __builtin_inf() ? 1.0 : least / most;
  double angle = crucible_atan_unit_f64_(ratio);
  angle = ay > ax ? 0x1.921fb54442d18p0 - (angle - 0x1.1a62633145c07p-54) : angle;
  angle = crucible_bits64(x) >> 63 != 0u ? 0x1.921fb54442d18p1 - (angle - 0x1.1a62633145c07p-53) : angle;
  return ((y != y) | (x != x)) ? __builtin_nan("") : crucible_copysign_f64(angle, y);
}
/* exact: takes away the largest b 2^k that fits until nothing does */
CRUCIBLE_FN int64_t crucible_exponent_f64_(double x) {
  uint64_t u = crucible_bits64(x);
  if (u >> 52 != 0u) return (int64_t)(u >> 52) - 1023;
  return (int64_t)(crucible_bits64((double)u) >> 52) - 1023 - 1074;
}
CRUCIBLE_FN double crucible_fmod_f64(double x, double y) {
  double a = crucible_abs_f64(x), b = crucible_abs_f64(y);
  if (!(a < __builtin_inf()) | (y != y) | (b == 0.0)) return __builtin_nan("");
  while (a >= b) {
    int64_t k = crucible_exponent_f64_(a) - crucible_exponent_f64_(b), third = k / 3;
    double part = crucible_pow2i_f64_(third), s = ((b * part) * part) * crucible_pow2i_f64_(k - 2 * third);
    a -= s > a ? 0.5 * s : s;
  }
  return crucible_copysign_f64(a, x);
}
)";

constexpr std::string_view kProbability = R"(
CRUCIBLE_FN double crucible_erfc_f64(double x) { /* above 2 the continued fraction of crucible_erf_f64 */
  double d = x > 28.0 ? 28.0 : x;
  d = d < 2.0 ? 2.0 : d;
  double q = 0.5 / (d * d), f = 1.0;
  for (int k = 100; k > 0; --k) f = 1.0 + k * q / f;
  double high = 0x1.20dd750429b6dp-1 * crucible_exp_minus_square_f64_(d) / (d * f);
  return x > 2.0 ? high : 1.0 - crucible_erf_f64(x);
}
/* a rational start, then Newton's method */
CRUCIBLE_FN double crucible_erfinv_f64(double y) {
  double a = crucible_abs_f64(y), z = a * a;
  double low = a * (((-0.140543331 * z + 0.914624893) * z - 1.645349621) * z + 0.886226899) /
               ((((0.012229801 * z - 0.329097515) * z + 1.442710462) * z - 2.118377725) * z + 1.0);
  double w = __builtin_sqrt(-crucible_log_f64(0.5 * (1.0 - a)));
  double high = (((1.641345311 * w + 3.429567803) * w - 1.624906493) * w - 1.970840454) /
                ((1.637067800 * w + 3.543889200) * w + 1.0);
  double x = a <= 0.7 ? low : high;
  for (int k = 0; k < 3; ++k) {
    double miss = a <= 0.7 ? crucible_erf_f64(x) - a : (1.0 - a) - crucible_erfc_f64(x);
    x = x - miss * 0x1.c5bf891b4ef6ap-1 / crucible_exp_f64(-x * x);
  }
  x = a == 1.0 ? __builtin_inf() : x;
  x = a > 1.0 ? __builtin_nan("") : x;
  return crucible_copysign_f64(x, y);
}
/* sin(pi x), by the nearest integer */
CRUCIBLE_FN double crucible_sinpi_f64_(double x) {
  double n = __builtin_floor(x + 0.5), odd = n - 2.0 * __builtin_floor(0.5 * n);
  double s = crucible_sin_f64((x - n) * 0x1.921fb54442d18p1);
  return odd != 0.0 ? -s : s;
}
/* upwards to 13 by gamma(x) = gamma(x + 1) / x, then Stirling's series */
CRUCIBLE_FN double crucible_lgamma_up_f64_(double x) {
  double product = 1.0;
  for (int k = 0; k < 13; ++k) {
    product = x < 13.0 ? product * x : product;
    x = x < 13.0 ? x + 1.0 : x;
  }
  double r = 1.0 / x, s = r * r;
  double series = r * (1.0 / 12 - s * (1.0 / 360 - s * (1.0 / 1260 - s * (1.0 / 1680 - s * (1.0 / 1188)))));
  double y = (x - 0.5) * crucible_log_f64(x) - x + 0x1.d67f1c864beb5p-1 + series;
  return (x == __builtin_inf() ? x : y) - crucible_log_f64(product);
}
CRUCIBLE_FN double crucible_lgamma_f64(double x) {
  double up = crucible_lgamma_up_f64_(x < 0.5 ? 1.0 - x : x);
  double mirror = 0x1.250d048e7a1bdp0 - crucible_log_f64(crucible_abs_f64(crucible_sinpi_f64_(x))) - up;
  double y = x < 0.5 ? mirror : up;
  y = ((x == 1.0) | (x == 2.0)) ? 0.0 : y;
  y = crucible_abs_f64(x) < 0x1p-60 ? -crucible_log_f64(crucible_abs_f64(x)) : y;
  /* whole numbers below 1 are poles, the largest ones too, whose mirror is infinite less infinite */
  double mended = __builtin_floor(x) == x ? __builtin_inf() : y;
  y = x < 0.5 ? mended : y;
  return crucible_abs_f64(x) == __builtin_inf() ? __builtin_inf() : y;
}
CRUCIBLE_FN double crucible_digamma_f64(double x) {
  double n = __builtin_floor(x), up = x < 0.0 ? 1.0 - x : x, sum = 0.0;
  for (int k = 0; k < 12; ++k) {
    sum = up < 12.0 ? sum - 1.0 / up : sum;
    up = up < 12.0 ? up + 1.0 : up;
  }
  double s = 1.0 / (up * up);
  double series = s * (1.0 / 12 - s * (1.0 / 120 - s * (1.0 / 252 - s * (1.0 / 240 - s * (1.0 / 132 - s * (691.0 / 32760))))));
  double y = sum + crucible_log_f64(up) - 0.5 / up - series;
  y = x < 0.0 ? y - 0x1.921fb54442d18p1 / crucible_tan_f64((x - n) * 0x1.921fb54442d18p1) : y;
  y = ((x < 0.0) & (x == n)) ? __builtin_nan("") : y;
  return x == 0.0 ? crucible_copysign_f64(__builtin_inf(), -x) : y;
}
)";

constexpr std::string_view kSingle = R"(
#define CRUCIBLE_ROUNDED(name) \
  CRUCIBLE_FN float crucible_##name##_f32(float x) { return (float)crucible_##name##_f64((double)x); }
CRUCIBLE_ROUNDED(exp2) CRUCIBLE_ROUNDED(expm1) CRUCIBLE_ROUNDED(log1p) CRUCIBLE_ROUNDED(log2) CRUCIBLE_ROUNDED(log10)
CRUCIBLE_ROUNDED(asin) CRUCIBLE_ROUNDED(acos) CRUCIBLE_ROUNDED(atan) CRUCIBLE_ROUNDED(sinh)
CRUCIBLE_ROUNDED(cosh) CRUCIBLE_ROUNDED(asinh) CRUCIBLE_ROUNDED(acosh) CRUCIBLE_ROUNDED(atanh) CRUCIBLE_ROUNDED(erfc)
CRUCIBLE_ROUNDED(erfinv) CRUCIBLE_ROUNDED(lgamma) CRUCIBLE_ROUNDED(digamma)
CRUCIBLE_FN float crucible_tan_f32(float x) { return crucible_sin_f32(x) / crucible_cos_f32(x); } /* any x */
CRUCIBLE_FN float crucible_atan2_f32(float y, float x) { return (float)crucible_atan2_f64((double)y, (double)x); }
CRUCIBLE_FN float crucible_fmod_f32(float x, float y) { return (float)crucible_fmod_f64((double)x, (double)y); }
)";

constexpr std::string_view kIntegers = R"(
#define CRUCIBLE_INTEGERS(name, type, bits) \
  CRUCIBLE_FN type crucible_not_##name(type a) { return (type)~a; } \
  CRUCIBLE_FN type crucible_and_##name(type a, type b) { return (type)(a & b); } \
  CRUCIBLE_FN type crucible_or_##name(type a, type b) { return (type)(a | b); } \
  CRUCIBLE_FN type crucible_xor_##name(type a, type b) { return (type)(a ^ b); } \
  CRUCIBLE_FN type crucible_quotient_##name(type a, type b) { \
    type d = b == 0 || b == (type)-1 ? 1 : b; \
    type q = (type)(a / d); \
    q = b == (type)-1 && b < 0 ? (type)(0u - (uint64_t)a) : q; \
    q = b == (type)-1 && b > 0 ? (type)(a == b) : q; \
    return b == 0 ? 0 : q; \
  } \
  CRUCIBLE_FN type crucible_modulus_##name(type a, type b) { \
    type d = b == 0 || (b == (type)-1 && b < 0) ? 1 : b; \
    return (type)(a % d); \
  } \
  CRUCIBLE_FN type crucible_ipow_##name(type a, type b) { \
    uint64_t r = 1, s = (uint64_t)a, e = b < 0 ? 0 : (uint64_t)b; \
    for (; e != 0; e >>= 1, s *= s) r = (e & 1u) != 0u ? r * s : r; \
    type minus = a == 1 ? 1 : a == (type)-1 ? ((b & 1) != 0 ? (type)-1 : 1) : 0; \
    return b < 0 ? minus : (type)r; \
  } \
  CRUCIBLE_FN type crucible_shl_##name(type a, type b) { \
    return b < 0 || b >= bits ? 0 : (type)((uint64_t)a << (b & (bits - 1))); \
  } \
  CRUCIBLE_FN type crucible_shr_##name(type a, type b) { \
    return b < 0 || b >= bits ? (a < 0 ? (type)-1 : 0) : (type)(a >> (b & (bits - 1))); \
  }
CRUCIBLE_INTEGERS(u8, uint8_t, 8)
CRUCIBLE_INTEGERS(i8, int8_t, 8)
CRUCIBLE_INTEGERS(i16, int16_t, 16)
CRUCIBLE_INTEGERS(i32, int32_t, 32)
CRUCIBLE_INTEGERS(i64, int64_t, 64)
)";

}  // namespace

std::string_view math_functions() {
  static const std::string kText = [] {
    std::string text;
    for (std::string_view part : {kRounding, kExponential, kAngles, kProbability, kSingle, kIntegers}) text += part;
    return text;
  }();
  return kText;
}

}  // namespace crucible::kernel
