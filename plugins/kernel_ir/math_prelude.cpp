// The C text in front of every batch of kernels: types, conversions and float32 mathematics. Each function is scalar
// and free of branches on data, so that clang vectorises the loops that call it; about 1 ulp, with NaN, infinities,
// subnormals and signed zeros right. float64 is in math_prelude_f64.cpp. Nothing here needs a header or a library.
#include "plugins/kernel_ir/math_prelude.hpp"

#include <cstdint>
#include <cstdio>
#include <string>

namespace crucible::kernel {
namespace {

constexpr std::string_view kHead = R"(
typedef __INT8_TYPE__ int8_t; typedef __INT16_TYPE__ int16_t; typedef __INT32_TYPE__ int32_t; typedef __INT64_TYPE__ int64_t;
typedef __UINT8_TYPE__ uint8_t; typedef __UINT16_TYPE__ uint16_t; typedef __UINT32_TYPE__ uint32_t; typedef __UINT64_TYPE__ uint64_t;
typedef _Float16 crucible_f16;
typedef uint16_t crucible_bf16;
typedef int64_t crucible_i64_scalar __attribute__((may_alias)); /* a whole number among a kernel's scalars */
typedef float crucible_f32x16 __attribute__((vector_size(64)));
typedef double crucible_f64x8 __attribute__((vector_size(64)));
typedef float crucible_f32x16_in_memory __attribute__((vector_size(64), aligned(4), may_alias));
typedef double crucible_f64x8_in_memory __attribute__((vector_size(64), aligned(8), may_alias));
#define crucible_load_f32x16(p) ((crucible_f32x16)*(const crucible_f32x16_in_memory*)(p))
#define crucible_load_f64x8(p) ((crucible_f64x8)*(const crucible_f64x8_in_memory*)(p))
#define crucible_store_f32x16(p, v) (*(crucible_f32x16_in_memory*)(p) = (v))
#define crucible_store_f64x8(p, v) (*(crucible_f64x8_in_memory*)(p) = (v))
#define crucible_splat_f32x16(x) ((x) - (crucible_f32x16){0}) /* less zero: -0 stays */
#define crucible_splat_f64x8(x) ((x) - (crucible_f64x8){0})
#define crucible_prefetch(p) __builtin_prefetch(p, 1)
#define crucible_add_f32x16(a, b) ((a) + (b))
#define crucible_add_f64x8(a, b) ((a) + (b))
#ifdef __clang__
#define crucible_fma_f32x16(a, b, c) __builtin_elementwise_fma(a, b, c)
#define crucible_fma_f64x8(a, b, c) __builtin_elementwise_fma(a, b, c)
#else
static inline crucible_f32x16 crucible_fma_f32x16(crucible_f32x16 a, crucible_f32x16 b, crucible_f32x16 c) {
  for (int i = 0; i < 16; ++i) c[i] = __builtin_fmaf(a[i], b[i], c[i]);
  return c;
}
static inline crucible_f64x8 crucible_fma_f64x8(crucible_f64x8 a, crucible_f64x8 b, crucible_f64x8 c) {
  for (int i = 0; i < 8; ++i) c[i] = __builtin_fma(a[i], b[i], c[i]);
  return c;
}
#endif
/* to[q * to_step + j] = from[j * from_step + q] for q < steps, j < columns */
#ifdef __clang__
#define CRUCIBLE_LOW_(a, b) __builtin_shufflevector(a, b, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23)
#define CRUCIBLE_HIGH_(a, b) __builtin_shufflevector(a, b, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31)
/* `columns` of 16 x 16: four times the first half is interleaved with the second */
static inline __attribute__((always_inline)) void crucible_transpose_block_(float* to, int64_t to_step, const float* from, int64_t from_step, int64_t columns) {
  crucible_f32x16 a[16], b[16];
#pragma clang loop unroll(full)
  for (int i = 0; i < 16; ++i) a[i] = i < columns ? crucible_load_f32x16(from + i * from_step) : (crucible_f32x16){0};
#pragma clang loop unroll(full)
  for (int round = 0; round < 2; ++round) {
#pragma clang loop unroll(full)
    for (int i = 0; i < 8; ++i) { b[2 * i] = CRUCIBLE_LOW_(a[i], a[i + 8]); b[2 * i + 1] = CRUCIBLE_HIGH_(a[i], a[i + 8]); }
#pragma clang loop unroll(full)
    for (int i = 0; i < 8; ++i) { a[2 * i] = CRUCIBLE_LOW_(b[i], b[i + 8]); a[2 * i + 1] = CRUCIBLE_HIGH_(b[i], b[i + 8]); }
  }
#pragma clang loop unroll(full)
  for (int i = 0; i < 16; ++i) __builtin_memcpy(to + i * to_step, &a[i], (uint64_t)columns * 4);
}
#endif
/* blocks; the last one of a row and of a column lies over the one before */
static inline __attribute__((always_inline, unused)) void crucible_transpose_f32(float* to, int64_t to_step, const float* from, int64_t from_step, int64_t columns, int64_t steps) {
#ifdef __clang__
  if (columns >= 4 && steps >= 16) {
    const int64_t width = columns < 16 ? columns : 16;
    for (int64_t j = 0;; j = j + 2 * width <= columns ? j + width : columns - width) {
      for (int64_t q = 0;; q = q + 32 <= steps ? q + 16 : steps - 16) {
        crucible_transpose_block_(to + q * to_step + j, to_step, from + j * from_step + q, from_step, width);
        if (q + 16 == steps) break;
      }
      if (j + width == columns) break;
    }
    return;
  }
#endif
  for (int64_t j = 0; j < columns; ++j)
    for (int64_t q = 0; q < steps; ++q) to[q * to_step + j] = from[j * from_step + q];
}
static __attribute__((noinline, unused)) void crucible_transpose_f64(double* to, int64_t to_step, const double* from, int64_t from_step, int64_t columns, int64_t steps) {
  for (int64_t at = 0; at < steps; at += 8)
    for (int64_t j = 0; j < columns; ++j)
      for (int64_t q = at; q < steps && q < at + 8; ++q) to[q * to_step + j] = from[j * from_step + q];
}
#define CRUCIBLE_FN static inline __attribute__((always_inline, unused))
)";

constexpr std::string_view kBits = R"(
CRUCIBLE_FN uint32_t crucible_bits(float x) { uint32_t u; __builtin_memcpy(&u, &x, 4); return u; }
CRUCIBLE_FN float crucible_float(uint32_t u) { float x; __builtin_memcpy(&x, &u, 4); return x; }
CRUCIBLE_FN uint64_t crucible_bits64(double x) { uint64_t u; __builtin_memcpy(&u, &x, 8); return u; }
CRUCIBLE_FN double crucible_double(uint64_t u) { double x; __builtin_memcpy(&x, &u, 8); return x; }

/* bf16 is the upper half of a float: round to nearest even, one NaN */
CRUCIBLE_FN float crucible_bf16_to_f32(crucible_bf16 h) { return crucible_float((uint32_t)h << 16); }
CRUCIBLE_FN crucible_bf16 crucible_f32_to_bf16(float x) {
  uint32_t u = crucible_bits(x);
  uint32_t rounded = (u + 0x7fffu + ((u >> 16) & 1u)) >> 16;
  return (crucible_bf16)(x != x ? 0x7fc0u : rounded);
}
/* towards zero; NaN and what has no place is the lowest integer, as processors of the x86 line say */
CRUCIBLE_FN int64_t crucible_f64_to_i64(double x) { return (int64_t)(((x >= -0x1p63) & (x < 0x1p63)) ? x : -0x1p63); }
CRUCIBLE_FN int64_t crucible_f32_to_i64(float x) { return (int64_t)(((x >= -0x1p63f) & (x < 0x1p63f)) ? x : -0x1p63f); }
CRUCIBLE_FN int32_t crucible_f64_to_i32(double x) { return (int32_t)(((x > -2147483649.0) & (x < 0x1p31)) ? x : -0x1p31); }
CRUCIBLE_FN int32_t crucible_f32_to_i32(float x) { return (int32_t)(((x >= -0x1p31f) & (x < 0x1p31f)) ? x : -0x1p31f); }

CRUCIBLE_FN int64_t crucible_abs_i64(int64_t x) { return x < 0 ? (int64_t)(0ull - (uint64_t)x) : x; }
CRUCIBLE_FN int32_t crucible_abs_i32(int32_t x) { return x < 0 ? (int32_t)(0u - (uint32_t)x) : x; }
CRUCIBLE_FN int16_t crucible_abs_i16(int16_t x) { return (int16_t)(x < 0 ? -x : x); }
CRUCIBLE_FN int8_t crucible_abs_i8(int8_t x) { return (int8_t)(x < 0 ? -x : x); }
CRUCIBLE_FN uint8_t crucible_abs_u8(uint8_t x) { return x; }
)";

constexpr std::string_view kBasic = R"(
CRUCIBLE_FN float crucible_abs_f32(float x) { return crucible_float(crucible_bits(x) & 0x7fffffffu); }
CRUCIBLE_FN float crucible_copysign_f32(float m, float s) {
  return crucible_float((crucible_bits(m) & 0x7fffffffu) | (crucible_bits(s) & 0x80000000u));
}
CRUCIBLE_FN float crucible_sqrt_f32(float x) { return __builtin_sqrtf(x); }
CRUCIBLE_FN float crucible_floor_f32(float x) { return __builtin_floorf(x); }
/* NaN if any operand is NaN; +0 above -0 */
CRUCIBLE_FN float crucible_max_f32(float a, float b) {
  float r = a > b ? a : b;
  r = a == b ? crucible_float(crucible_bits(a) & crucible_bits(b)) : r;
  return a != a ? a : r;
}
CRUCIBLE_FN float crucible_min_f32(float a, float b) {
  float r = a < b ? a : b;
  r = a == b ? crucible_float(crucible_bits(a) | crucible_bits(b)) : r;
  return a != a ? a : r;
}
/* integers in the order of the floats: maxima of keys vectorise, and NaN wins */
CRUCIBLE_FN int32_t crucible_order_key_f32(float x) {
  int32_t i = (int32_t)crucible_bits(x);
  int32_t key = i ^ (int32_t)((uint32_t)(i >> 31) >> 1);
  return x != x ? 0x7fffffff : key;
}
CRUCIBLE_FN float crucible_from_order_key_f32(int32_t key) {
  return crucible_float((uint32_t)(key ^ (int32_t)((uint32_t)(key >> 31) >> 1)));
}
/* about half an ulp for a normal d in [2^-60, 2^60], without a division */
CRUCIBLE_FN float crucible_rcp_(float d) {
  float y = crucible_float(0x7ef311c3u - crucible_bits(d));
  float e = __builtin_fmaf(-d, y, 1.0f);
  y = __builtin_fmaf(y, __builtin_fmaf(e, e, e), y);
  e = __builtin_fmaf(-d, y, 1.0f);
  return __builtin_fmaf(y, __builtin_fmaf(e, e, e), y);
}
CRUCIBLE_FN float crucible_rsqrt_f32(float x) { return 1.0f / __builtin_sqrtf(x); }
)";

constexpr std::string_view kExp = R"(
/* e^r - 1 on |r| <= ln2 / 2 */
CRUCIBLE_FN float crucible_expm1r_(float r) {
  float q = 0x1.a2d978p-13f;
  q = __builtin_fmaf(q, r, 0x1.6d307ap-10f);
  q = __builtin_fmaf(q, r, 0x1.110fc2p-7f);
  q = __builtin_fmaf(q, r, 0x1.5555p-5f);
  q = __builtin_fmaf(q, r, 0x1.555556p-3f);
  q = __builtin_fmaf(q, r, 0.5f);
  return __builtin_fmaf(r * r, q, r);
}
CRUCIBLE_FN float crucible_pow2i_(uint32_t n) { return crucible_float((n + 127u) << 23); } /* n in [-126, 127] */
CRUCIBLE_FN float crucible_scalb_(float p, uint32_t n) {                                   /* |n| <= 252 */
  uint32_t half = (uint32_t)((int32_t)n >> 1);
  return (p * crucible_pow2i_(half)) * crucible_pow2i_(n - half);
}
/* x = n ln2 + r; z holds n in its low bits */
CRUCIBLE_FN float crucible_expz_(float x) { return __builtin_fmaf(x, 0x1.715476p0f, 0x1.8p23f); }
CRUCIBLE_FN float crucible_expr_(float x, float z) {
  float n = z - 0x1.8p23f;
  float r = __builtin_fmaf(n, -0x1.62e4p-1f, x);
  return __builtin_fmaf(n, -0x1.7f7d1cp-20f, r);
}
/* below -104: 0, from 0's numbers; a product that vanishes costs a processor a hundred cycles, and masked scores are -inf */
CRUCIBLE_FN float crucible_exp_f32(float x) {
  float c = x > 89.0f ? 89.0f : x;
  c = x < -104.0f ? 0.0f : c;
  float z = crucible_expz_(c);
  float y = crucible_scalb_(crucible_expm1r_(crucible_expr_(c, z)) + 1.0f, crucible_bits(z) - 0x4b400000u);
  return x < -104.0f ? 0.0f : y;
}
/* for -87 <= x <= 88 only: one scaling multiplication */
CRUCIBLE_FN float crucible_exp_narrow_(float x) {
  float z = crucible_expz_(x);
  return (crucible_expm1r_(crucible_expr_(x, z)) + 1.0f) * crucible_pow2i_(crucible_bits(z) - 0x4b400000u);
}
CRUCIBLE_FN float crucible_tanh_f32(float x) {
  float a = crucible_abs_f32(x), s = x * x;
  float p = 0x1.3acde6p-9f;
  p = __builtin_fmaf(p, s, -0x1.1547fap-7f);
  p = __builtin_fmaf(p, s, 0x1.656cb2p-6f);
  p = __builtin_fmaf(p, s, -0x1.ba19acp-5f);
  p = __builtin_fmaf(p, s, 0x1.111136p-3f);
  p = __builtin_fmaf(p, s, -0x1.555556p-2f);
  float low = __builtin_fmaf(p * s, x, x);
  float c = a > 10.0f ? 10.0f : a;
  float high = __builtin_fmaf(-2.0f, crucible_rcp_(crucible_exp_narrow_(c + c) + 1.0f), 1.0f);
  return crucible_copysign_f32(a < 0.625f ? low : high, x);
}
/* e^-|x| kept as a sum of two floats */
CRUCIBLE_FN float crucible_sigmoid_f32(float x) {
  float c = -crucible_abs_f32(x);
  c = c < -104.0f ? -104.0f : c;
  float z = crucible_expz_(c);
  float t = crucible_expm1r_(crucible_expr_(c, z));
  float p = 1.0f + t, pl = (1.0f - p) + t;
  uint32_t n = crucible_bits(z) - 0x4b400000u;
  uint32_t half = (uint32_t)((int32_t)n >> 1);
  float s1 = crucible_pow2i_(half), s2 = crucible_pow2i_(n - half);
  float e = (p * s1) * s2, el = (pl * s1) * s2;
  float d = 1.0f + e, dl = ((1.0f - d) + e) + el;
  float y = crucible_rcp_(d);
  float nu = x < 0.0f ? e : 1.0f, nl = x < 0.0f ? el : 0.0f;
  float q = nu * y;
  float g = __builtin_fmaf(-q, d, nu) + __builtin_fmaf(-q, dl, nl);
  return __builtin_fmaf(g, y, q);
}
CRUCIBLE_FN float crucible_erf_f32(float x) {
  float a = crucible_abs_f32(x), s = x * x;
  float p = -0x1.197618p-17f;
  p = __builtin_fmaf(p, s, 0x1.c5cc26p-14f);
  p = __builtin_fmaf(p, s, -0x1.b97f06p-11f);
  p = __builtin_fmaf(p, s, 0x1.55dccap-8f);
  p = __builtin_fmaf(p, s, -0x1.b8220ep-6f);
  p = __builtin_fmaf(p, s, 0x1.ce2ea2p-4f);
  p = __builtin_fmaf(p, s, -0x1.812744p-2f);
  p = __builtin_fmaf(p, s, 0x1.06eba8p-3f);
  float low = __builtin_fmaf(p, x, x);
  float c = a > 4.0f ? 4.0f : a;
  float q = 0x1.3cc9bcp-19f;
  q = __builtin_fmaf(q, c, -0x1.3acbfcp-15f);
  q = __builtin_fmaf(q, c, 0x1.f2c4f6p-13f);
  q = __builtin_fmaf(q, c, -0x1.31ec44p-11f);
  q = __builtin_fmaf(q, c, -0x1.b254dap-10f);
  q = __builtin_fmaf(q, c, 0x1.593cep-6f);
  q = __builtin_fmaf(q, c, -0x1.aa1ae6p-4f);
  q = __builtin_fmaf(q, c, -0x1.45b642p-1f);
  q = __builtin_fmaf(q, c, -0x1.20e258p0f);
  float high = 1.0f - crucible_exp_narrow_(q * c);
  return crucible_copysign_f32(a < 0.9275f ? low : high, x);
}
)";

constexpr std::string_view kLog = R"(
/* log(1 + f) - f for f in [-1/3, 1/3] */
CRUCIBLE_FN float crucible_log1pmf_(float f) {
  float p = 0x1.ea94f2p-4f;
  p = __builtin_fmaf(p, f, -0x1.fd1f2ep-4f);
  p = __builtin_fmaf(p, f, 0x1.b92a46p-4f);
  p = __builtin_fmaf(p, f, -0x1.f74a28p-4f);
  p = __builtin_fmaf(p, f, 0x1.24e844p-3f);
  p = __builtin_fmaf(p, f, -0x1.55789p-3f);
  p = __builtin_fmaf(p, f, 0x1.999816p-3f);
  p = __builtin_fmaf(p, f, -0x1.ffffb4p-3f);
  p = __builtin_fmaf(p, f, 0x1.555556p-2f);
  p = __builtin_fmaf(p, f, -0.5f);
  return p * (f * f);
}
CRUCIBLE_FN float crucible_log_f32(float x) {
  uint32_t tiny = crucible_bits(x) < 0x00800000u;
  uint32_t u = crucible_bits(tiny ? x * 0x1p23f : x);
  uint32_t e = (u - 0x3f2aaaabu) & 0xff800000u;
  float f = crucible_float(u - e) - 1.0f;
  float n = (float)(int32_t)((uint32_t)((int32_t)e >> 23) - (tiny ? 23u : 0u));
  float t = __builtin_fmaf(n, -0x1.05c61p-29f, crucible_log1pmf_(f));
  float r = __builtin_fmaf(n, 0x1.62e43p-1f, f + t);
  float special = crucible_bits(x) == 0x7f800000u ? x : __builtin_nanf("");
  special = x == 0.0f ? -__builtin_inff() : special;
  return (crucible_bits(x) - 1u) < 0x7f7fffffu ? r : special;
}
/* 2^r - 1, |r| <= 0.5 */
CRUCIBLE_FN float crucible_exp2m1_(float r) {
  float q = 0x1.da6cbap-17f;
  q = __builtin_fmaf(q, r, 0x1.441764p-13f);
  q = __builtin_fmaf(q, r, 0x1.5da978p-10f);
  q = __builtin_fmaf(q, r, 0x1.3b2a54p-7f);
  q = __builtin_fmaf(q, r, 0x1.c6b06cp-5f);
  q = __builtin_fmaf(q, r, 0x1.ebfbep-3f);
  q = __builtin_fmaf(q, r, 0x1.62e43p-1f);
  return q * r;
}
/* log2 |x| = kh + kl to about 2^-40, then 2^(y log2 |x|) */
CRUCIBLE_FN float crucible_powabs_(float a, float y) {
  uint32_t tiny = crucible_bits(a) < 0x00800000u;
  uint32_t u = crucible_bits(tiny ? a * 0x1p23f : a);
  uint32_t e = (u - 0x3f3504f3u) & 0xff800000u;
  float m = crucible_float(u - e); /* [sqrt 1/2, sqrt 2) */
  float n = (float)(int32_t)((uint32_t)((int32_t)e >> 23) - (tiny ? 23u : 0u));
  float f = m - 1.0f;
  float gh = m + 1.0f, gl = m - (gh - 1.0f);
  float rc = crucible_rcp_(gh);
  float sh = f * rc;
  float sr = __builtin_fmaf(-sh, gh, f);
  sr = __builtin_fmaf(-sh, gl, sr);
  float sl = sr * rc; /* s = sh + sl = f / (m + 1) */
  float v = sh * sh;
  float vl = __builtin_fmaf(sh, sh, -v);
  vl = __builtin_fmaf(sh + sh, sl, vl); /* s^2 = v + vl */
  float p = 0x1.54794p-2f;
  p = __builtin_fmaf(p, v, 0x1.a5f4e8p-2f);
  p = __builtin_fmaf(p, v, 0x1.2776ccp-1f);
  p = p * v;
  float th = 0x1.ec709ep-1f + p;
  float tl = ((0x1.ec709ep-1f - th) + p) + -0x1.e2fe02p-28f;
  float wh = v * th;
  float wl = __builtin_fmaf(v, th, -wh);
  wl = __builtin_fmaf(v, tl, wl);
  wl = __builtin_fmaf(vl, th, wl);
  float ch = 0x1.715476p1f + wh;
  float cl = ((0x1.715476p1f - ch) + wh) + (wl + 0x1.4ae0cp-25f);
  float lh = sh * ch;
  float ll = __builtin_fmaf(sh, ch, -lh);
  ll = __builtin_fmaf(sh, cl, ll);
  ll = __builtin_fmaf(sl, ch, ll);
  float kh = n + lh;
  float kl = ((n - kh) + lh) + ll;
  float sum = kh + kl;
  kl = (kh - sum) + kl;
  kh = sum;
  float yc = y > 0x1p60f ? 0x1p60f : y;
  yc = yc < -0x1p60f ? -0x1p60f : yc;
  float ph = kh * yc;
  float pl = __builtin_fmaf(kh, yc, -ph);
  pl = __builtin_fmaf(kl, yc, pl);
  float pc = ph <= -160.0f ? -160.0f : ph;
  pc = ph >= 160.0f ? 160.0f : pc;
  pl = ((ph >= 160.0f) | (ph <= -160.0f)) ? 0.0f : pl;
  float z = pc + 0x1.8p23f;
  float r = (pc - (z - 0x1.8p23f)) + pl;
  return crucible_scalb_(crucible_exp2m1_(r) + 1.0f, crucible_bits(z) - 0x4b400000u);
}
CRUCIBLE_FN float crucible_pow_f32(float x, float y) {
  float a = crucible_abs_f32(x), ay = crucible_abs_f32(y);
  uint32_t ux = crucible_bits(x), ua = crucible_bits(a), uy = crucible_bits(y);
  float res = crucible_powabs_(a, y);
  uint32_t ybig = ay >= 0x1p24f; /* even, or infinite */
  int32_t iy = (int32_t)(ay < 0x1p24f ? y : 0.0f);
  uint32_t yint = ybig | (uint32_t)((float)iy == y);
  uint32_t yodd = (ybig ^ 1u) & yint & (uint32_t)iy & 1u;
  uint32_t negative = ux >> 31;
  res = ua == 0u ? ((uy >> 31) != 0u ? __builtin_inff() : 0.0f) : res;
  res = ua == 0x7f800000u ? ((uy >> 31) != 0u ? 0.0f : __builtin_inff()) : res;
  res = ua == 0x3f800000u ? 1.0f : res;
  uint32_t finite_negative = negative & (uint32_t)(ua - 1u < 0x7f7fffffu);
  res = crucible_float(crucible_bits(res) ^ ((negative & yodd) << 31));
  res = (finite_negative & (yint ^ 1u)) != 0u ? __builtin_nanf("") : res;
  res = x != x ? x : res;
  res = y != y ? y : res;
  res = y == 0.0f ? 1.0f : res;
  return ux == 0x3f800000u ? 1.0f : res;
}
)";

constexpr std::string_view kTrigonometry = R"(
/* word i of 2/pi behind one zero word */
CRUCIBLE_FN uint32_t crucible_two_over_pi_(uint32_t i) {
  return i == 0u ? 0u : i == 1u ? 0xA2F9836Eu : i == 2u ? 0x4E441529u : i == 3u ? 0xFC2757D1u :
         i == 4u ? 0xF534DDC0u : i == 5u ? 0xDB629599u : i == 6u ? 0x3C439041u : 0xFE5163ABu;
}
CRUCIBLE_FN uint32_t crucible_shift_in_(uint32_t high, uint32_t low, uint32_t s) { return (high << s) | ((low >> 1) >> (31u - s)); }
typedef struct { float h, l; uint32_t q; } crucible_angle_; /* |x| = q pi/2 + h + l */
/* |x| below 2^17: three constants and a two-term remainder */
CRUCIBLE_FN crucible_angle_ crucible_angle_small_(float a) {
  float z = __builtin_fmaf(a, 0x1.45f306p-1f, 0x1.8p23f);
  float n = z - 0x1.8p23f;
  float r1 = __builtin_fmaf(n, -0x1.921fb6p0f, a);
  float p = n * 0x1.777a5cp-25f, pe = __builtin_fmaf(n, 0x1.777a5cp-25f, -p);
  crucible_angle_ r;
  r.h = r1 + p;
  r.l = ((r1 - r.h) + p) + pe;
  r.l = __builtin_fmaf(n, 0x1.ee59dap-50f, r.l);
  r.q = crucible_bits(z);
  return r;
}
/* the rest: 96 bits of 2/pi in integers */
CRUCIBLE_FN crucible_angle_ crucible_angle_large_(float a) {
  uint32_t u = crucible_bits(a);
  uint32_t k = (u >> 23) - 120u, m = (u & 0x007fffffu) | 0x00800000u;
  uint32_t i = k >> 5, s = k & 31u;
  uint32_t w0 = crucible_two_over_pi_(i), w1 = crucible_two_over_pi_(i + 1u);
  uint32_t w2 = crucible_two_over_pi_(i + 2u), w3 = crucible_two_over_pi_(i + 3u);
  uint32_t t0 = crucible_shift_in_(w0, w1, s), t1 = crucible_shift_in_(w1, w2, s), t2 = crucible_shift_in_(w2, w3, s);
  uint64_t product = ((uint64_t)(m * t0) << 32) + (uint64_t)m * t1 + (((uint64_t)m * t2) >> 32);
  crucible_angle_ r;
  r.q = (uint32_t)((product + ((uint64_t)1 << 61)) >> 62);
  product -= (uint64_t)r.q << 62;
  uint32_t high = (uint32_t)(product >> 32), low = (uint32_t)product;
  float fa = (float)((int32_t)high >> 6) * 0x1p38f;
  float fb = (float)(int32_t)(((high & 63u) << 18) | (low >> 14)) * 0x1p14f;
  float fc = (float)(int32_t)(low & 0x3fffu);
  float fh = fa + fb;
  float fl = ((fa - fh) + fb) + fc;
  r.h = fh * 0x1.921fb6p-62f;
  r.l = __builtin_fmaf(fh, 0x1.921fb6p-62f, -r.h);
  r.l = __builtin_fmaf(fh, -0x1.777a5cp-87f, r.l);
  r.l = __builtin_fmaf(fl, 0x1.921fb6p-62f, r.l);
  return r;
}
CRUCIBLE_FN float crucible_sinpoly_(float h, float l) {
  float s = h * h;
  float p = 0x1.8776f8p-19f;
  p = __builtin_fmaf(p, s, -0x1.a0831p-13f);
  p = __builtin_fmaf(p, s, 0x1.111198p-7f);
  p = __builtin_fmaf(p, s, -0x1.555556p-3f);
  return h + __builtin_fmaf(p * s, h, l);
}
CRUCIBLE_FN float crucible_cospoly_(float h, float l) {
  float s = h * h;
  float p = 0x1.9bc672p-16f;
  p = __builtin_fmaf(p, s, -0x1.6c129cp-10f);
  p = __builtin_fmaf(p, s, 0x1.555554p-5f);
  float half = 0.5f * s, w = 1.0f - half;
  float t = (1.0f - w) - half;
  t = __builtin_fmaf(-h, l, t);
  return w + __builtin_fmaf(s * s, p, t);
}
CRUCIBLE_FN float crucible_quadrant_(float x, uint32_t turn, uint32_t sign) {
  float a = crucible_abs_f32(x);
  crucible_angle_ small = crucible_angle_small_(a), large = crucible_angle_large_(a);
  uint32_t big = a >= 0x1p17f;
  uint32_t q = (big ? large.q : small.q) + turn;
  float h = big ? large.h : small.h, l = big ? large.l : small.l;
  float s = crucible_sinpoly_(h, l), c = crucible_cospoly_(h, l);
  float v = (q & 1u) != 0u ? c : s;
  v = crucible_float(crucible_bits(v) ^ ((q & 2u) << 30) ^ sign);
  return (crucible_bits(x) & 0x7fffffffu) < 0x7f800000u ? v : __builtin_nanf("");
}
CRUCIBLE_FN float crucible_sin_f32(float x) {
  float r = crucible_quadrant_(x, 0u, crucible_bits(x) & 0x80000000u);
  return x == 0.0f ? x : r;
}
CRUCIBLE_FN float crucible_cos_f32(float x) { return crucible_quadrant_(x, 1u, 0u); }
)";

std::string join() {
  std::string text;
  for (std::string_view part : {kHead, kBits, kBasic, kExp, kLog, kTrigonometry, math_prelude_f64(), math_functions()})
    text += part;
  return text;
}

std::string hash_of(std::string_view text) {
  std::uint64_t hash = 0xcbf29ce484222325u;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
  char digits[17];
  std::snprintf(digits, sizeof(digits), "%016llx", static_cast<unsigned long long>(hash));
  return digits;
}

}  // namespace

std::string_view math_prelude() {
  static const std::string kText = join();
  return kText;
}

std::string_view math_prelude_body() { return math_prelude().substr(kHead.size()); }

std::string_view math_identity() {
  static const std::string kIdentity = hash_of(math_prelude());
  return kIdentity;
}

}  // namespace crucible::kernel
