// float64 mathematics of the prelude: see math_prelude.cpp. Programs hold few float64 tensors, so these are plain
// series, a few ulp; pow is within 1e-13 relative for results in range, sin and cos for |x| up to 2^30.
#include "plugins/kernel_ir/math_prelude.hpp"

namespace crucible::kernel {

std::string_view math_prelude_f64() {
  return R"(
CRUCIBLE_FN double crucible_abs_f64(double x) { return crucible_double(crucible_bits64(x) & 0x7fffffffffffffffull); }
CRUCIBLE_FN double crucible_copysign_f64(double m, double s) {
  return crucible_double((crucible_bits64(m) & 0x7fffffffffffffffull) | (crucible_bits64(s) & 0x8000000000000000ull));
}
CRUCIBLE_FN double crucible_sqrt_f64(double x) { return __builtin_sqrt(x); }
CRUCIBLE_FN double crucible_floor_f64(double x) { return __builtin_floor(x); }
CRUCIBLE_FN double crucible_rsqrt_f64(double x) { return 1.0 / __builtin_sqrt(x); }
CRUCIBLE_FN double crucible_max_f64(double a, double b) {
  double r = a > b ? a : b;
  r = a == b ? crucible_double(crucible_bits64(a) & crucible_bits64(b)) : r;
  return a != a ? a : r;
}
CRUCIBLE_FN double crucible_min_f64(double a, double b) {
  double r = a < b ? a : b;
  r = a == b ? crucible_double(crucible_bits64(a) | crucible_bits64(b)) : r;
  return a != a ? a : r;
}
CRUCIBLE_FN int64_t crucible_order_key_f64(double x) {
  int64_t i = (int64_t)crucible_bits64(x);
  int64_t key = i ^ (int64_t)((uint64_t)(i >> 63) >> 1);
  return x != x ? 0x7fffffffffffffffll : key;
}
CRUCIBLE_FN double crucible_from_order_key_f64(int64_t key) {
  return crucible_double((uint64_t)(key ^ (int64_t)((uint64_t)(key >> 63) >> 1)));
}
/* e^r - 1 on |r| <= ln2 / 2, by its series */
CRUCIBLE_FN double crucible_expm1r_f64_(double r) {
  double q = 1.0 / 6227020800.0;
  q = __builtin_fma(q, r, 1.0 / 479001600.0);
  q = __builtin_fma(q, r, 1.0 / 39916800.0);
  q = __builtin_fma(q, r, 1.0 / 3628800.0);
  q = __builtin_fma(q, r, 1.0 / 362880.0);
  q = __builtin_fma(q, r, 1.0 / 40320.0);
  q = __builtin_fma(q, r, 1.0 / 5040.0);
  q = __builtin_fma(q, r, 1.0 / 720.0);
  q = __builtin_fma(q, r, 1.0 / 120.0);
  q = __builtin_fma(q, r, 1.0 / 24.0);
  q = __builtin_fma(q, r, 1.0 / 6.0);
  q = __builtin_fma(q, r, 0.5);
  return __builtin_fma(r * r, q, r);
}
CRUCIBLE_FN double crucible_pow2i_f64_(int64_t n) { return crucible_double((uint64_t)(n + 1023) << 52); } /* n in [-1022, 1023] */
CRUCIBLE_FN double crucible_exp_sum_f64_(double x, double low) { /* e^(x + low), low small */
  double c = x > 710.0 ? 710.0 : x;
  c = x < -746.0 ? 0.0 : c; /* 0, as in float32 */
  double z = __builtin_fma(c, 0x1.71547652b82fep0, 0x1.8p52);
  double n = z - 0x1.8p52;
  double r = __builtin_fma(n, -0x1.62e42fefa3800p-1, c);
  r = __builtin_fma(n, -0x1.ef35793c76730p-45, r) + low;
  double p = crucible_expm1r_f64_(r) + 1.0;
  int64_t i = (int64_t)(crucible_bits64(z) - 0x4338000000000000ull);
  int64_t half = i >> 1;
  double y = (p * crucible_pow2i_f64_(half)) * crucible_pow2i_f64_(i - half);
  return x < -746.0 ? 0.0 : y;
}
CRUCIBLE_FN double crucible_exp_f64(double x) { return crucible_exp_sum_f64_(x, 0.0); }
/* n ln2 + log m, m in [sqrt 1/2, sqrt 2), with s = (m - 1) / (m + 1): log m = 2 s + 2 s^3 / 3 + ... */
typedef struct { double n, log_m; } crucible_log_parts_;
CRUCIBLE_FN crucible_log_parts_ crucible_log_parts_f64_(double x) {
  uint64_t tiny = crucible_bits64(x) < 0x0010000000000000ull;
  uint64_t u = crucible_bits64(tiny ? x * 0x1p54 : x);
  uint64_t e = (u - 0x3fe6a09e667f3bcdull) & 0xfff0000000000000ull;
  double f = crucible_double(u - e) - 1.0;
  crucible_log_parts_ r;
  r.n = (double)(int64_t)((uint64_t)((int64_t)e >> 52) - (tiny ? 54u : 0u));
  double s = f / (f + 2.0), v = s * s;
  double p = 2.0 / 23.0;
  p = __builtin_fma(p, v, 2.0 / 21.0);
  p = __builtin_fma(p, v, 2.0 / 19.0);
  p = __builtin_fma(p, v, 2.0 / 17.0);
  p = __builtin_fma(p, v, 2.0 / 15.0);
  p = __builtin_fma(p, v, 2.0 / 13.0);
  p = __builtin_fma(p, v, 2.0 / 11.0);
  p = __builtin_fma(p, v, 2.0 / 9.0);
  p = __builtin_fma(p, v, 2.0 / 7.0);
  p = __builtin_fma(p, v, 2.0 / 5.0);
  p = __builtin_fma(p, v, 2.0 / 3.0);
  double half = 0.5 * f * f; /* 2 s = f - s f, and s f = f^2/2 - s f^2/2: the large terms stay exact */
  r.log_m = f - (half - s * (half + p * v));
  return r;
}
CRUCIBLE_FN double crucible_log_f64(double x) {
  crucible_log_parts_ parts = crucible_log_parts_f64_(x);
  double r = __builtin_fma(parts.n, 0x1.62e42fefa3800p-1, __builtin_fma(parts.n, 0x1.ef35793c76730p-45, parts.log_m));
  double special = crucible_bits64(x) == 0x7ff0000000000000ull ? x : __builtin_nan("");
  special = x == 0.0 ? -__builtin_inf() : special;
  return (crucible_bits64(x) - 1u) < 0x7fefffffffffffffull ? r : special;
}
CRUCIBLE_FN double crucible_tanh_f64(double x) { /* t / (t + 2) with t = e^(2|x|) - 1 */
  double a = crucible_abs_f64(x);
  double c = a > 22.0 ? 22.0 : a;
  c = c + c;
  double z = __builtin_fma(c, 0x1.71547652b82fep0, 0x1.8p52);
  double n = z - 0x1.8p52;
  double r = __builtin_fma(n, -0x1.62e42fefa3800p-1, c);
  r = __builtin_fma(n, -0x1.ef35793c76730p-45, r);
  double scale = crucible_pow2i_f64_((int64_t)(crucible_bits64(z) - 0x4338000000000000ull));
  double t = __builtin_fma(crucible_expm1r_f64_(r), scale, scale - 1.0);
  return crucible_copysign_f64(t / (t + 2.0), x);
}
CRUCIBLE_FN double crucible_sigmoid_f64(double x) {
  double e = crucible_exp_f64(-crucible_abs_f64(x));
  return (x < 0.0 ? e : 1.0) / (1.0 + e);
}
/* up to 3: 2 / sqrt(pi) e^(-x^2) x (1 + 2x^2/3 (1 + 2x^2/5 (1 + ...))), all terms positive; above: 1 - erfc by its
   continued fraction e^(-x^2) / (x sqrt(pi)) / (1 + q / (1 + 2q / (1 + 3q / ...))), q = 1 / 2x^2 */
CRUCIBLE_FN double crucible_exp_minus_square_f64_(double c) {
  double h = c * c;
  return crucible_exp_sum_f64_(-h, -__builtin_fma(c, c, -h));
}
CRUCIBLE_FN double crucible_erf_f64(double x) {
  double a = crucible_abs_f64(x);
  double c = a > 3.0 ? 3.0 : a, t = 2.0 * c * c, s = 1.0;
  for (int k = 60; k > 0; --k) s = __builtin_fma(t * (1.0 / (2 * k + 1)), s, 1.0);
  double low = 0x1.20dd750429b6dp0 * c * s * crucible_exp_minus_square_f64_(c);
  double d = a > 6.0 ? 6.0 : a;
  d = d < 3.0 ? 3.0 : d;
  double q = 0.5 / (d * d), f = 1.0;
  for (int k = 40; k > 0; --k) f = 1.0 + k * q / f;
  double high = 1.0 - 0x1.20dd750429b6dp-1 * crucible_exp_minus_square_f64_(d) / (d * f);
  return crucible_copysign_f64(a > 3.0 ? high : a != a ? a : low, x);
}
CRUCIBLE_FN double crucible_powabs_f64_(double a, double y) {
  crucible_log_parts_ parts = crucible_log_parts_f64_(a);
  double lead = parts.n * 0x1.62e42fefa3800p-1;
  double h = lead + parts.log_m;
  double l = ((lead - h) + parts.log_m) + parts.n * 0x1.ef35793c76730p-45;
  double yc = y > 0x1p100 ? 0x1p100 : y;
  yc = yc < -0x1p100 ? -0x1p100 : yc;
  double ph = h * yc;
  double pl = __builtin_fma(h, yc, -ph);
  pl = __builtin_fma(l, yc, pl);
  pl = ((ph > 800.0) | (ph < -800.0)) ? 0.0 : pl;
  return crucible_exp_sum_f64_(ph, pl);
}
CRUCIBLE_FN double crucible_pow_f64(double x, double y) {
  double a = crucible_abs_f64(x), ay = crucible_abs_f64(y);
  double res = crucible_powabs_f64_(a, y);
  uint64_t ybig = ay >= 0x1p53;
  int64_t iy = (int64_t)(ay < 0x1p53 ? y : 0.0);
  uint64_t yint = ybig | (uint64_t)((double)iy == y);
  uint64_t yodd = (ybig ^ 1u) & yint & (uint64_t)iy & 1u;
  uint64_t negative = crucible_bits64(x) >> 63, yneg = crucible_bits64(y) >> 63;
  res = a == 0.0 ? (yneg != 0u ? __builtin_inf() : 0.0) : res;
  res = a == __builtin_inf() ? (yneg != 0u ? 0.0 : __builtin_inf()) : res;
  res = a == 1.0 ? 1.0 : res;
  uint64_t finite_negative = negative & (uint64_t)(crucible_bits64(a) - 1u < 0x7fefffffffffffffull);
  res = crucible_double(crucible_bits64(res) ^ ((negative & yodd) << 63));
  res = (finite_negative & (yint ^ 1u)) != 0u ? __builtin_nan("") : res;
  res = x != x ? x : res;
  res = y != y ? y : res;
  res = y == 0.0 ? 1.0 : res;
  return x == 1.0 ? 1.0 : res;
}
CRUCIBLE_FN double crucible_quadrant_f64_(double x, uint64_t turn, uint64_t sign) {
  double a = crucible_abs_f64(x);
  double z = __builtin_fma(a, 0x1.45f306dc9c883p-1, 0x1.8p52);
  double n = z - 0x1.8p52;
  double r = __builtin_fma(n, -0x1.921fb54442d18p0, a);
  double p = n * 0x1.1a62633145c07p-54, pe = __builtin_fma(n, 0x1.1a62633145c07p-54, -p);
  double h = r - p;
  double l = ((r - h) - p) - pe;
  l = __builtin_fma(n, 0x1.f1976b7ed8fbcp-110, l);
  uint64_t q = crucible_bits64(z) + turn;
  double s = h * h;
  double sp = -1.0 / 1307674368000.0;
  sp = __builtin_fma(sp, s, 1.0 / 6227020800.0);
  sp = __builtin_fma(sp, s, -1.0 / 39916800.0);
  sp = __builtin_fma(sp, s, 1.0 / 362880.0);
  sp = __builtin_fma(sp, s, -1.0 / 5040.0);
  sp = __builtin_fma(sp, s, 1.0 / 120.0);
  sp = __builtin_fma(sp, s, -1.0 / 6.0);
  double sine = h + __builtin_fma(sp * s, h, l);
  double cp = 1.0 / 20922789888000.0;
  cp = __builtin_fma(cp, s, -1.0 / 87178291200.0);
  cp = __builtin_fma(cp, s, 1.0 / 479001600.0);
  cp = __builtin_fma(cp, s, -1.0 / 3628800.0);
  cp = __builtin_fma(cp, s, 1.0 / 40320.0);
  cp = __builtin_fma(cp, s, -1.0 / 720.0);
  cp = __builtin_fma(cp, s, 1.0 / 24.0);
  double half = 0.5 * s, w = 1.0 - half;
  double t = (1.0 - w) - half;
  t = __builtin_fma(-h, l, t);
  double cosine = w + __builtin_fma(s * s, cp, t);
  double v = (q & 1u) != 0u ? cosine : sine;
  v = crucible_double(crucible_bits64(v) ^ ((q & 2u) << 62) ^ sign);
  return crucible_bits64(a) < 0x7ff0000000000000ull ? v : __builtin_nan("");
}
CRUCIBLE_FN double crucible_sin_f64(double x) {
  double r = crucible_quadrant_f64_(x, 0u, crucible_bits64(x) & 0x8000000000000000ull);
  return x == 0.0 ? x : r;
}
CRUCIBLE_FN double crucible_cos_f64(double x) { return crucible_quadrant_f64_(x, 1u, 0u); }
)";
}

}  // namespace crucible::kernel
