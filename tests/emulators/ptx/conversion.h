/* The fourth part of each translated text: conversions between types, comparisons of floats, and atomic operations on
   floats. GNU C17; compiled only with what ptx/ translates. */
#pragma once

/* ---- floats to integers: cut at the ends; what is no number gives 0, or the highest bit alone for f64 and for 64 bits
 * ---- */
SI double whole_rni(double x) { return __builtin_rint(x); }
SI double whole_rzi(double x) { return __builtin_trunc(x); }
SI double whole_rmi(double x) { return __builtin_floor(x); }
SI double whole_rpi(double x) { return __builtin_ceil(x); }
#define EMU_TO_INT(U, S, un, sn, width)                                                                      \
  SI U un##_from(double x, int wide) {                                                                       \
    if (x != x) return wide || width == 64 ? (U)((U)1 << (width - 1)) : 0;                                   \
    return x <= 0 ? 0 : x >= 2.0 * (double)(1ull << (width - 1)) ? (U)~(U)0 : (U)x;                          \
  }                                                                                                          \
  SI S sn##_from(double x, int wide) {                                                                       \
    const double end = (double)(1ull << (width - 1));                                                        \
    if (x != x) return wide || width == 64 ? (S)((U)1 << (width - 1)) : 0;                                   \
    return x <= -end ? (S)((U)1 << (width - 1)) : x >= end ? (S)((U)~(U)0 >> 1) : (S)x;                      \
  }
EMU_TO_INT(u8, s8, u8, s8, 8)
EMU_TO_INT(u16, s16, u16, s16, 16)
EMU_TO_INT(u32, s32, u32, s32, 32)
EMU_TO_INT(u64, s64, u64, s64, 64)

/* ---- integers to integers, cut at the ends ---- */
SI __int128 clamped(__int128 v, __int128 low, __int128 high) { return v < low ? low : v > high ? high : v; }
#define clamp_to_u8(v) (u8)clamped(v, 0, 255)
#define clamp_to_u16(v) (u16)clamped(v, 0, 65535)
#define clamp_to_u32(v) (u32)clamped(v, 0, 0xffffffffll)
#define clamp_to_u64(v) (u64)clamped(v, 0, (__int128)~0ull)
#define clamp_to_s8(v) (s8)clamped(v, -128, 127)
#define clamp_to_s16(v) (s16)clamped(v, -32768, 32767)
#define clamp_to_s32(v) (s32)clamped(v, -2147483648ll, 2147483647)
#define clamp_to_s64(v) (s64)clamped(v, -(__int128)0x7fffffffffffffffll - 1, 0x7fffffffffffffffll)

/* ---- integers to floats ---- */
SI double odd_f64(__int128 v) {
  double d = (double)v;
  if ((__int128)d == v) return d;
  u64 u = bits64(d);
  if ((v > 0) == ((__int128)d > v)) --u;
  return f64(u | 1);
}
#define EMU_FROM_INT(name, mode)                                                                   \
  SI u32 cvt_##name##_f32_int(__int128 v) { return round_f32(odd_f64(v), 0, mode); }               \
  SI u64 cvt_##name##_f64_int(__int128 v) {                                                        \
    double d = (double)v;                                                                          \
    u64 u = bits64(d);                                                                             \
    int above = (__int128)d > v, below_ = (__int128)d < v;                                         \
    int down = mode == kDown || (mode == kZero && v > 0), up = mode == kUp || (mode == kZero && v < 0); \
    if (above && down) return v > 0 ? u - 1 : u + 1;                                               \
    if (below_ && up) return v > 0 ? u + 1 : u - 1;                                                \
    return u;                                                                                      \
  }
EMU_FROM_INT(rz, kZero)
EMU_FROM_INT(rm, kDown)
EMU_FROM_INT(rp, kUp)
#define cvt_rn_f32_int(v) bits32((float)(v))
#define cvt_rn_f64_int(v) bits64((double)(v))
#define cvt_rn_f16_int(v) to_f16((float)(v)) /* what a float does not hold is infinite as a half */
SI u16 cvt_rn_bf16_int(__int128 v) { return to_bf16(odd_f32(odd_f64(v))); }

/* ---- floats to floats ---- */
SI u32 cvt_rn_f32_f64(u64 a) { return to_f32((float)f64(a)); }
SI u64 cvt_f64_f32(u32 a) { return to_f64(f32(a)); }
SI u32 cvt_f32_f16(u16 a) { return to_f32(f16(a)); }
SI u64 cvt_f64_f16(u16 a) { return to_f64(f16(a)); }
SI u32 cvt_f32_bf16(u16 a) { return to_f32(bf16(a)); }
SI u64 cvt_f64_bf16(u16 a) { return to_f64(bf16(a)); }
SI u16 cvt_rn_f16_f32(u32 a) { return to_f16(f32(a)); }
SI u16 cvt_rn_bf16_f32(u32 a) { return to_bf16(f32(a)); }
SI u16 cvt_rn_f16_f64(u64 a) { return to_f16(odd_f32(f64(a))); }
SI u16 cvt_rn_bf16_f64(u64 a) { return to_bf16(odd_f32(f64(a))); }
SI u16 cvt_rn_bf16_f16(u16 a) { return to_bf16(f16(a)); }
SI u16 cvt_rn_f16_bf16(u16 a) { return to_f16(bf16(a)); }
SI u16 cvt_rz_bf16_f32(u32 a) { return f32(a) != f32(a) ? 0x7fff : (u16)(a >> 16); }
SI u16 cvt_rz_f16_f32(u32 a) {
  u16 h = to_f16(f32(a));
  if (f32(a) != f32(a) || f32(a) - f32(a) != 0) return h;
  return __builtin_fabsf(f16(h)) > __builtin_fabsf(f32(a)) ? (u16)(h - 1) : h;
}
SI u16 step_f16(u16 h, int up) {
  return (h & 0x7fff) == 0 ? (u16)(up ? 1 : 0x8001) : (u16)(((h & 0x8000) == 0) == up ? h + 1 : h - 1);
}
SI u16 cvt_rm_f16_f32(u32 a) { u16 h = to_f16(f32(a)); return f16(h) > f32(a) ? step_f16(h, 0) : h; }
SI u16 cvt_rp_f16_f32(u32 a) { u16 h = to_f16(f32(a)); return f16(h) < f32(a) ? step_f16(h, 1) : h; }
SI u32 cvt_rna_tf32_f32(u32 a) {
  return f32(a) != f32(a) ? 0x7fffffffu : f32(a) - f32(a) != 0 ? a : (a + 0x1000) & ~0x1fffu;
}
SI u32 cvt_rn_tf32_f32(u32 a) {
  return f32(a) != f32(a) ? 0x7fffffffu : f32(a) - f32(a) != 0 ? a : (a + 0xfff + (a >> 13 & 1)) & ~0x1fffu;
}
SI u32 relu_f32(u32 a) { return f32(a) != f32(a) ? 0x7fffffffu : a >> 31 ? 0 : a; }

/* ---- comparisons ---- */
#define EMU_COMPARE(type, value)                                                                               \
  SI u32 eq_##type(u64 a, u64 b) { return value(a) == value(b); }                                              \
  SI u32 lt_##type(u64 a, u64 b) { return value(a) < value(b); }                                               \
  SI u32 le_##type(u64 a, u64 b) { return value(a) <= value(b); }                                              \
  SI u32 gt_##type(u64 a, u64 b) { return value(a) > value(b); }                                               \
  SI u32 ge_##type(u64 a, u64 b) { return value(a) >= value(b); }                                              \
  SI u32 nan_##type(u64 a, u64 b) { return (u32)(value(a) != value(a)) | (u32)(value(b) != value(b)); }        \
  SI u32 num_##type(u64 a, u64 b) { return !nan_##type(a, b); }                                                \
  SI u32 ne_##type(u64 a, u64 b) { return (u32)(value(a) != value(b)) & num_##type(a, b); }                    \
  SI u32 equ_##type(u64 a, u64 b) { return eq_##type(a, b) | nan_##type(a, b); }                               \
  SI u32 neu_##type(u64 a, u64 b) { return value(a) != value(b); }                                             \
  SI u32 ltu_##type(u64 a, u64 b) { return !(value(a) >= value(b)); }                                          \
  SI u32 leu_##type(u64 a, u64 b) { return !(value(a) > value(b)); }                                           \
  SI u32 gtu_##type(u64 a, u64 b) { return !(value(a) <= value(b)); }                                          \
  SI u32 geu_##type(u64 a, u64 b) { return !(value(a) < value(b)); }                                           \
  SI u32 testp_finite_##type(u64 a) { return value(a) - value(a) == 0; }                                       \
  SI u32 testp_infinite_##type(u64 a) { return value(a) == value(a) && value(a) - value(a) != 0; }             \
  SI u32 testp_number_##type(u64 a) { return value(a) == value(a); }                                           \
  SI u32 testp_notanumber_##type(u64 a) { return value(a) != value(a); }                                       \
  SI u32 testp_normal_##type(u64 a) { return __builtin_isnormal(value(a)) != 0; }                              \
  SI u32 testp_subnormal_##type(u64 a) {                                                                       \
    return value(a) == value(a) && value(a) != 0 && value(a) - value(a) == 0 && !__builtin_isnormal(value(a)); \
  }
#define EMU_AS_F32(a) f32((u32)(a))
#define EMU_AS_F16(a) f16((u16)(a))
#define EMU_AS_BF16(a) bf16((u16)(a))
EMU_COMPARE(f32, EMU_AS_F32)
EMU_COMPARE(f64, f64)
EMU_COMPARE(f16, EMU_AS_F16)
EMU_COMPARE(bf16, EMU_AS_BF16)
#define EMU_COMPARE_INT(name, op)                                                                      \
  SI u32 name##_u16(u16 a, u16 b) { return a op b; }                                                   \
  SI u32 name##_u32(u32 a, u32 b) { return a op b; }                                                   \
  SI u32 name##_u64(u64 a, u64 b) { return a op b; }                                                   \
  SI u32 name##_s16(u16 a, u16 b) { return (s16)a op (s16)b; }                                         \
  SI u32 name##_s32(u32 a, u32 b) { return (s32)a op (s32)b; }                                         \
  SI u32 name##_s64(u64 a, u64 b) { return (s64)a op (s64)b; }
EMU_COMPARE_INT(eq, ==)
EMU_COMPARE_INT(ne, !=)
EMU_COMPARE_INT(lt, <)
EMU_COMPARE_INT(le, <=)
EMU_COMPARE_INT(gt, >)
EMU_COMPARE_INT(ge, >=)
EMU_COMPARE_INT(lo, <)
EMU_COMPARE_INT(ls, <=)
EMU_COMPARE_INT(hi, >)
EMU_COMPARE_INT(hs, >=)
#define eq_b16 eq_u16
#define eq_b32 eq_u32
#define eq_b64 eq_u64
#define ne_b16 ne_u16
#define ne_b32 ne_u32
#define ne_b64 ne_u64

/* ---- atomic operations on floats ---- */
EMU_ATOM(atom_add_f32, u32, add_rn_f32(old, v))
EMU_ATOM(atom_add_f64, u64, add_rn_f64(old, v))
EMU_ATOM(atom_add_f16, u16, add_rn_f16(old, v))
EMU_ATOM(atom_add_bf16, u16, add_rn_bf16(old, v))
EMU_ATOM(atom_add_f16x2, u32, EMU_X2_2(add_rn_f16, old, v))
EMU_ATOM(atom_add_bf16x2, u32, EMU_X2_2(add_rn_bf16, old, v))
