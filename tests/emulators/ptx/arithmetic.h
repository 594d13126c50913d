/* The third part of each translated text: floating point on bit patterns, rounded as PTX says. Every result that is not
   a number is the one pattern that the device gives for the type. GNU C17 with -ffp-contract=off; compiled only with
   what ptx/ translates. Approximate operations (.approx) are the C library's, which are closer than the device's. */
#pragma once
#include <fenv.h>

SI float f32(u32 bits) { float x; memcpy(&x, &bits, 4); return x; }
SI u32 bits32(float x) { u32 bits; memcpy(&bits, &x, 4); return bits; }
SI double f64(u64 bits) { double x; memcpy(&x, &bits, 8); return x; }
SI u64 bits64(double x) { u64 bits; memcpy(&bits, &x, 8); return bits; }
SI u32 to_f32(float x) { return x != x ? 0x7fffffffu : bits32(x); }
SI u64 to_f64(double x) { return x != x ? 0xfff8000000000000ull : bits64(x); }
SI float f16(u16 bits) { _Float16 x; memcpy(&x, &bits, 2); return (float)x; }
SI u16 to_f16(float x) { _Float16 h = (_Float16)x; u16 bits; memcpy(&bits, &h, 2); return x != x ? 0x7fff : bits; }
SI float bf16(u16 bits) { return f32((u32)bits << 16); }
SI u16 to_bf16(float x) {
  u32 u = bits32(x);
  return x != x ? 0x7fff : (u16)((u + 0x7fff + (u >> 16 & 1)) >> 16);
}
/* Rounded to odd, a value can be rounded once more as if it had been rounded once. */
SI float odd_f32(double x) {
  float f = (float)x;
  if (x != x || f == x) return f;
  u32 u = bits32(f);
  if (__builtin_fabs((double)f) > __builtin_fabs(x)) --u;
  return f32(u | 1);
}
SI double odd_sum(double a, double b) {
  double s = a + b, t = s - a, e = (a - (s - t)) + (b - t);
  if (!(e != 0) || s - s != 0) return s;
  u64 u = bits64(s);
  if (u & 1) return s;
  return f64((e > 0) == (s > 0) ? u + 1 : u - 1);
}
SI u32 flush_f32(u32 a) { return a & 0x7f800000u ? a : a & 0x80000000u; }
SI u16 flush_f16(u16 a) { return a & 0x7c00 ? a : a & 0x8000; }
#define flush_f64(a) (a)
#define flush_bf16(a) (a)
#define flush_bf16x2(a) (a)
#define f16_one 0x3c00u
#define bf16_one 0x3f80u
SI u32 flush_f16x2(u32 a) { return (u32)flush_f16((u16)(a >> 16)) << 16 | flush_f16((u16)a); }
SI u32 saturate_f32(u32 a) { float x = f32(a); return x > 0 ? (x < 1 ? a : 0x3f800000u) : 0; }
SI u64 saturate_f64(u64 a) { double x = f64(a); return x > 0 ? (x < 1 ? a : 0x3ff0000000000000ull) : 0; }
SI u16 saturate_f16(u16 a) { float x = f16(a); return x > 0 ? (x < 1 ? a : 0x3c00) : 0; }
SI u32 saturate_f16x2(u32 a) { return (u32)saturate_f16((u16)(a >> 16)) << 16 | saturate_f16((u16)a); }
SI u16 saturate_bf16(u16 a) { float x = bf16(a); return x > 0 ? (x < 1 ? a : 0x3f80) : 0; }
SI u32 saturate_bf16x2(u32 a) { return (u32)saturate_bf16((u16)(a >> 16)) << 16 | saturate_bf16((u16)a); }

/* ---- to nearest ---- */
SI u32 add_rn_f32(u32 a, u32 b) { return to_f32(f32(a) + f32(b)); }
SI u32 sub_rn_f32(u32 a, u32 b) { return to_f32(f32(a) - f32(b)); }
SI u32 mul_rn_f32(u32 a, u32 b) { return to_f32(f32(a) * f32(b)); }
SI u32 fma_rn_f32(u32 a, u32 b, u32 c) { return to_f32(__builtin_fmaf(f32(a), f32(b), f32(c))); }
SI u32 div_rn_f32(u32 a, u32 b) { return to_f32(f32(a) / f32(b)); }
SI u32 rcp_rn_f32(u32 a) { return to_f32(1.0f / f32(a)); }
SI u32 sqrt_rn_f32(u32 a) { return to_f32(__builtin_sqrtf(f32(a))); }
SI u64 add_rn_f64(u64 a, u64 b) { return to_f64(f64(a) + f64(b)); }
SI u64 sub_rn_f64(u64 a, u64 b) { return to_f64(f64(a) - f64(b)); }
SI u64 mul_rn_f64(u64 a, u64 b) { return to_f64(f64(a) * f64(b)); }
SI u64 fma_rn_f64(u64 a, u64 b, u64 c) { return to_f64(__builtin_fma(f64(a), f64(b), f64(c))); }
SI u64 div_rn_f64(u64 a, u64 b) { return to_f64(f64(a) / f64(b)); }
SI u64 rcp_rn_f64(u64 a) { return to_f64(1.0 / f64(a)); }
SI u64 sqrt_rn_f64(u64 a) { return to_f64(__builtin_sqrt(f64(a))); }

/* ---- towards zero, down, up ---- */
enum { kNearest, kZero, kDown, kUp };
/* s + e, of which s is the nearest double and e the error, as a float. */
SI u32 round_f32(double s, double e, int mode) {
  float f = (float)s;
  if (f != f) return 0x7fffffffu;
  int above = (double)f > s || ((double)f == s && e < 0), below_ = (double)f < s || ((double)f == s && e > 0);
  int down = mode == kDown || (mode == kZero && (s > 0)), up = mode == kUp || (mode == kZero && (s < 0));
  u32 u = bits32(f);
  if (s - s != 0) return u;
  if (above && down) return f > 0 ? u - 1 : f == 0 ? 0x80000001u : u + 1;
  if (below_ && up) return f < 0 ? u - 1 : f == 0 ? 1 : u + 1;
  return u;
}
SI u32 sum_f32(double p, double c, int mode) {
  double s = p + c, t = s - p, e = (p - (s - t)) + (c - t);
  if (s == 0 && mode == kDown) return p == 0 && c == 0 && 1 / p > 0 && 1 / c > 0 ? 0 : 0x80000000u;
  return round_f32(s, s - s != 0 ? 0 : e, mode);
}
/* The rest is rare: done by the processor in that mode. */
static __attribute__((noinline, unused)) double directed(int op, double a, double b, double c, int mode, int single) {
  static const int modes[] = {FE_TONEAREST, FE_TOWARDZERO, FE_DOWNWARD, FE_UPWARD};
  int before = fegetround();
  volatile double x = a, y = b, z = c, r = 0;
  volatile float fx = (float)a, fy = (float)b, fr = 0;
  fesetround(modes[mode]);
  if (single) {
    if (op == 'd') fr = fx / fy;
    if (op == 's') fr = __builtin_sqrtf(fx);
    if (op == 'c') fr = (float)x;
    r = fr;
  } else {
    if (op == '+') r = x + y;
    if (op == '-') r = x - y;
    if (op == '*') r = x * y;
    if (op == 'f') r = fma(x, y, z);
    if (op == 'd') r = x / y;
    if (op == 's') r = __builtin_sqrt(x);
  }
  fesetround(before);
  return r;
}
#define EMU_DIRECTED(name, mode)                                                                                  \
  SI u32 add_##name##_f32(u32 a, u32 b) { return sum_f32(f32(a), f32(b), mode); }                                 \
  SI u32 sub_##name##_f32(u32 a, u32 b) { return sum_f32(f32(a), -f32(b), mode); }                                \
  SI u32 mul_##name##_f32(u32 a, u32 b) { return round_f32((double)f32(a) * f32(b), 0, mode); }                   \
  SI u32 fma_##name##_f32(u32 a, u32 b, u32 c) { return sum_f32((double)f32(a) * f32(b), f32(c), mode); }         \
  SI u32 div_##name##_f32(u32 a, u32 b) { return to_f32((float)directed('d', f32(a), f32(b), 0, mode, 1)); }      \
  SI u32 rcp_##name##_f32(u32 a) { return to_f32((float)directed('d', 1, f32(a), 0, mode, 1)); }                  \
  SI u32 sqrt_##name##_f32(u32 a) { return to_f32((float)directed('s', f32(a), 0, 0, mode, 1)); }                 \
  SI u64 add_##name##_f64(u64 a, u64 b) { return to_f64(directed('+', f64(a), f64(b), 0, mode, 0)); }             \
  SI u64 sub_##name##_f64(u64 a, u64 b) { return to_f64(directed('-', f64(a), f64(b), 0, mode, 0)); }             \
  SI u64 mul_##name##_f64(u64 a, u64 b) { return to_f64(directed('*', f64(a), f64(b), 0, mode, 0)); }             \
  SI u64 fma_##name##_f64(u64 a, u64 b, u64 c) { return to_f64(directed('f', f64(a), f64(b), f64(c), mode, 0)); } \
  SI u64 div_##name##_f64(u64 a, u64 b) { return to_f64(directed('d', f64(a), f64(b), 0, mode, 0)); }             \
  SI u64 rcp_##name##_f64(u64 a) { return to_f64(directed('d', 1, f64(a), 0, mode, 0)); }                         \
  SI u64 sqrt_##name##_f64(u64 a) { return to_f64(directed('s', f64(a), 0, 0, mode, 0)); }                        \
  SI u32 cvt_##name##_f32_f64(u64 a) { return round_f32(f64(a), 0, mode); }
EMU_DIRECTED(rz, kZero)
EMU_DIRECTED(rm, kDown)
EMU_DIRECTED(rp, kUp)

/* ---- halves: the float or double between them is wide enough to round once, or rounded to odd ---- */
#define EMU_HALF(type, to)                                                                                 \
  SI u16 add_rn_##type(u16 a, u16 b) { return to(odd_f32(odd_sum(type(a), type(b)))); }                           \
  SI u16 sub_rn_##type(u16 a, u16 b) { return to(odd_f32(odd_sum(type(a), -(double)type(b)))); }                  \
  SI u16 mul_rn_##type(u16 a, u16 b) { return to(odd_f32((double)type(a) * type(b))); }                           \
  SI u16 fma_rn_##type(u16 a, u16 b, u16 c) { return to(odd_f32(odd_sum((double)type(a) * type(b), type(c)))); }  \
  SI u16 relu_##type(u16 a) { return type(a) != type(a) ? 0x7fff : a & 0x8000 ? 0 : a; }                          \
  SI u16 ex2_approx_##type(u16 a) { return to(exp2f(type(a))); }                                                  \
  SI u16 tanh_approx_##type(u16 a) { return to(tanhf(type(a))); }                                                 \
  SI u32 both_##type(u16 high, u16 low) { return (u32)high << 16 | low; }
EMU_HALF(f16, to_f16)
EMU_HALF(bf16, to_bf16)
/* op on each half of a register: X2(name_of_half_function, operands...) */
#define EMU_X2_1(f, a) ((u32)f((u16)((a) >> 16)) << 16 | f((u16)(a)))
#define EMU_X2_2(f, a, b) ((u32)f((u16)((a) >> 16), (u16)((b) >> 16)) << 16 | f((u16)(a), (u16)(b)))
#define EMU_X2_3(f, a, b, c) \
  ((u32)f((u16)((a) >> 16), (u16)((b) >> 16), (u16)((c) >> 16)) << 16 | f((u16)(a), (u16)(b), (u16)(c)))

/* ---- the greater and the smaller: of a number and none, the number; +0 is greater than -0 ---- */
#define EMU_EXTREMA(type, U, value, none)                                                                       \
  SI U max_##type(U a, U b) {                                                                                   \
    return value(a) != value(a) ? (value(b) != value(b) ? (U)none : b)                                          \
           : value(b) != value(b) ? a : value(a) == value(b) ? (U)(value(a) == 0 ? a & b : a)                   \
           : value(a) > value(b) ? a : b;                                                                       \
  }                                                                                                             \
  SI U min_##type(U a, U b) {                                                                                   \
    return value(a) != value(a) ? (value(b) != value(b) ? (U)none : b)                                          \
           : value(b) != value(b) ? a : value(a) == value(b) ? (U)(value(a) == 0 ? a | b : a)                   \
           : value(a) < value(b) ? a : b;                                                                       \
  }                                                                                                             \
  SI U max_NaN_##type(U a, U b) { return value(a) != value(a) || value(b) != value(b) ? (U)none : max_##type(a, b); } \
  SI U min_NaN_##type(U a, U b) { return value(a) != value(a) || value(b) != value(b) ? (U)none : min_##type(a, b); }
EMU_EXTREMA(f32, u32, f32, 0x7fffffffu)
EMU_EXTREMA(f64, u64, f64, 0xfff8000000000000ull)
EMU_EXTREMA(f16, u16, f16, 0x7fff)
EMU_EXTREMA(bf16, u16, bf16, 0x7fff)

/* ---- approximate ---- */
SI u32 ex2_approx_f32(u32 a) { return to_f32(exp2f(f32(a))); }
SI u32 lg2_approx_f32(u32 a) { return to_f32(log2f(f32(a))); }
SI u32 sin_approx_f32(u32 a) { return to_f32(sinf(f32(a))); }
SI u32 cos_approx_f32(u32 a) { return to_f32(cosf(f32(a))); }
SI u32 tanh_approx_f32(u32 a) { return to_f32(tanhf(f32(a))); }
SI u32 rsqrt_approx_f32(u32 a) { return to_f32((float)(1 / __builtin_sqrt((double)f32(a)))); }
SI u64 rsqrt_approx_f64(u64 a) { return to_f64(1 / __builtin_sqrt(f64(a))); }
