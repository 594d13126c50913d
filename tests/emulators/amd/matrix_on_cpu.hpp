// AMD's matrix instructions on the processor: stands behind device_on_cpu.hpp, before texts that use some. Each exists
// where the architecture
// (__gfx90a__ and the like, given by hiprtc.cpp) has it. Their operands lie in lanes as AMD's manuals say. Products are
// exact; those of floats are summed in double, the accumulator first and then along k, and rounded once, where devices
// cut off or flush bits on the way.
#pragma once

typedef _Float16 EmuHalf4 __attribute__((ext_vector_type(4)));
typedef _Float16 EmuHalf16 __attribute__((ext_vector_type(16)));
typedef short EmuShort4 __attribute__((ext_vector_type(4)));
typedef short EmuShort16 __attribute__((ext_vector_type(16)));
typedef float EmuFloat4 __attribute__((ext_vector_type(4)));
typedef float EmuFloat8 __attribute__((ext_vector_type(8)));
typedef float EmuFloat16 __attribute__((ext_vector_type(16)));
typedef int EmuInt4 __attribute__((ext_vector_type(4)));
typedef int EmuInt8 __attribute__((ext_vector_type(8)));
typedef int EmuInt16 __attribute__((ext_vector_type(16)));

// Elements of operands: a vector of shorts holds bfloats, an integer bytes.
EMU_INLINE float emu_bfloat(short bits) { return __builtin_bit_cast(float, (unsigned)(unsigned short)bits << 16); }
EMU_INLINE double emu_element(const EmuHalf4& v, unsigned i) { return (double)v[i]; }
EMU_INLINE double emu_element(const EmuHalf16& v, unsigned i) { return (double)v[i]; }
EMU_INLINE double emu_element(const EmuShort4& v, unsigned i) { return emu_bfloat(v[i]); }
EMU_INLINE double emu_element(const EmuShort16& v, unsigned i) { return emu_bfloat(v[i]); }
EMU_INLINE long emu_element(long v, unsigned i) { return (signed char)(v >> 8 * i); }
EMU_INLINE long emu_element(int v, unsigned i) { return (signed char)(v >> 8 * i); }
EMU_INLINE long emu_byte(const EmuInt4& v, unsigned i, bool is_signed) {
  const unsigned byte = (unsigned)v[i / 4] >> 8 * (i % 4) & 255;
  return is_signed ? (signed char)byte : (long)byte;
}

// The operands of all lanes, which stay where they are until the wave has met again. An instruction of a whole wave is
// none of a part of it.
template <class Mine>
EMU_INLINE void emu_operands(unsigned place, const Mine& mine, const Mine** lanes) {
  emu_thread->value = (uint64_t)&mine;
  emu_meet(EMU_WARP, place);
  for (unsigned i = 0; i < EMU_WAVE; ++i) {
    const unsigned there = emu_first_lane() + i;
    if (there >= emu_block->thread_count || !emu_block->present[there]) emu_trap();
    lanes[i] = (const Mine*)emu_block->offered[there];
  }
}

// MFMA, M by M: lane l has n elements of row l % M of A, and of that column of B, from k = n (l / M) on.
template <unsigned M, unsigned n, class Sum, class V, class C>
__attribute__((noinline)) C emu_mfma(unsigned place, V a, V b, C c) {
  struct Operands {
    V a, b;
  };
  const Operands mine = {a, b}, *lanes[EMU_WAVE];
  emu_operands(place, mine, lanes);
  const unsigned lane = __lane_id();
  for (unsigned i = 0; i < sizeof(C) / 4; ++i) {
    const unsigned row = 256 / M * (i / 4) + 4 * (lane / M) + i % 4, column = lane % M;
    Sum sum = c[i];
    for (unsigned k = 0; k < n * 64 / M; ++k) {
      const Operands* const* const of = lanes + k / n * M;
      sum += (Sum)emu_element(of[row]->a, k % n) * (Sum)emu_element(of[column]->b, k % n);
    }
    c[i] = sum;
  }
  emu_meet(EMU_WARP, place);
  return c;
}

// WMMA of waves of 32, 16 by 16: lanes l and l + 16 both have row l of A and column l of B.
template <class Sum, class Operand, class C, class Element, class Round>
EMU_INLINE C emu_wmma(unsigned place, Operand a, Operand b, C c, Element element, Round round) {
  struct Operands {
    Operand a, b;
  };
  const Operands mine = {a, b}, *lanes[EMU_WAVE];
  emu_operands(place, mine, lanes);
  const unsigned lane = __lane_id();
  for (unsigned i = 0; i < 16; ++i) {
    if (__builtin_memcmp(lanes[i], lanes[i + 16], sizeof(Operands)) != 0) emu_trap();
  }
  for (unsigned i = 0; i < 8; ++i) {
    Sum sum = c[i];
    for (unsigned k = 0; k < 16; ++k)
      sum += element(lanes[2 * i + lane / 16]->a, k, true) * element(lanes[lane % 16]->b, k, false);
    c[i] = round(sum);
  }
  emu_meet(EMU_WARP, place);
  return c;
}
template <class V>
__attribute__((noinline)) EmuFloat8 emu_wmma_floats(unsigned place, V a, V b, EmuFloat8 c) {
  return emu_wmma<double>(
      place, a, b, c, [](const V& v, unsigned k, bool) { return emu_element(v, k); },
      [](double sum) { return (float)sum; });
}
static __attribute__((noinline, unused)) EmuInt8 emu_wmma_bytes(unsigned place, bool a_signed, EmuInt4 a, bool b_signed,
                                                                EmuInt4 b, EmuInt8 c, bool clamp) {
  const auto element = [=](const EmuInt4& v, unsigned k, bool is_a) {
    return emu_byte(v, k, is_a ? a_signed : b_signed);
  };
  const auto round = [=](long sum) {
    return (int)(!clamp ? sum : sum > 0x7fffffffl ? 0x7fffffffl : sum < -0x80000000l ? -0x80000000l : sum);
  };
  return emu_wmma<long>(place, a, b, c, element, round);
}

#define EMU_MFMA(name, M, n, Sum, V, C)                                                                                \
  EMU_INLINE C name(unsigned place, V a, V b, C c, int cbsz, int abid, int blgp) __attribute__((diagnose_if(           \
      cbsz || abid || blgp, "the emulator has no broadcasts of blocks: cbsz, abid and blgp have to be 0", "error"))) { \
    return emu_mfma<M, n, Sum>(place, a, b, c);                                                                        \
  }
EMU_MFMA(emu_mfma_f32_16x16x16f16, 16, 4, double, EmuHalf4, EmuFloat4)
EMU_MFMA(emu_mfma_f32_32x32x8f16, 32, 4, double, EmuHalf4, EmuFloat16)
EMU_MFMA(emu_mfma_f32_16x16x16bf16_1k, 16, 4, double, EmuShort4, EmuFloat4)
EMU_MFMA(emu_mfma_f32_32x32x8bf16_1k, 32, 4, double, EmuShort4, EmuFloat16)
EMU_MFMA(emu_mfma_i32_16x16x16i8, 16, 4, long, int, EmuInt4)
EMU_MFMA(emu_mfma_i32_32x32x8i8, 32, 4, long, int, EmuInt16)
EMU_MFMA(emu_mfma_i32_16x16x32_i8, 16, 8, long, long, EmuInt4)
EMU_MFMA(emu_mfma_i32_32x32x16_i8, 32, 8, long, long, EmuInt16)

// What an architecture lacks is refused by its name, as by the real compiler.
#define EMU_LACKS(name, words) void name(...) __attribute__((unavailable(words)));
#if EMU_WAVE == 64 && \
    (defined(__gfx908__) || defined(__gfx90a__) || defined(__gfx940__) || defined(__gfx941__) || defined(__gfx942__))
#define __builtin_amdgcn_mfma_f32_16x16x16f16(...) emu_mfma_f32_16x16x16f16(__COUNTER__ + 1, __VA_ARGS__)
#define __builtin_amdgcn_mfma_f32_32x32x8f16(...) emu_mfma_f32_32x32x8f16(__COUNTER__ + 1, __VA_ARGS__)
#else
EMU_LACKS(__builtin_amdgcn_mfma_f32_16x16x16f16, "needs target feature mai-insts, and waves of 64")
EMU_LACKS(__builtin_amdgcn_mfma_f32_32x32x8f16, "needs target feature mai-insts, and waves of 64")
#endif
#if EMU_WAVE == 64 && (defined(__gfx90a__) || defined(__gfx940__) || defined(__gfx941__) || defined(__gfx942__))
#define __builtin_amdgcn_mfma_f32_16x16x16bf16_1k(...) emu_mfma_f32_16x16x16bf16_1k(__COUNTER__ + 1, __VA_ARGS__)
#define __builtin_amdgcn_mfma_f32_32x32x8bf16_1k(...) emu_mfma_f32_32x32x8bf16_1k(__COUNTER__ + 1, __VA_ARGS__)
#else
EMU_LACKS(__builtin_amdgcn_mfma_f32_16x16x16bf16_1k, "needs target feature gfx90a-insts, and waves of 64")
EMU_LACKS(__builtin_amdgcn_mfma_f32_32x32x8bf16_1k, "needs target feature gfx90a-insts, and waves of 64")
#endif
#if EMU_WAVE == 64 && (defined(__gfx908__) || defined(__gfx90a__))
#define __builtin_amdgcn_mfma_i32_16x16x16i8(...) emu_mfma_i32_16x16x16i8(__COUNTER__ + 1, __VA_ARGS__)
#define __builtin_amdgcn_mfma_i32_32x32x8i8(...) emu_mfma_i32_32x32x8i8(__COUNTER__ + 1, __VA_ARGS__)
#else
EMU_LACKS(__builtin_amdgcn_mfma_i32_16x16x16i8, "gfx908 and gfx90a alone have it, in waves of 64")
EMU_LACKS(__builtin_amdgcn_mfma_i32_32x32x8i8, "gfx908 and gfx90a alone have it, in waves of 64")
#endif
#if EMU_WAVE == 64 && (defined(__gfx940__) || defined(__gfx941__) || defined(__gfx942__))
#define __builtin_amdgcn_mfma_i32_16x16x32_i8(...) emu_mfma_i32_16x16x32_i8(__COUNTER__ + 1, __VA_ARGS__)
#define __builtin_amdgcn_mfma_i32_32x32x16_i8(...) emu_mfma_i32_32x32x16_i8(__COUNTER__ + 1, __VA_ARGS__)
#else
EMU_LACKS(__builtin_amdgcn_mfma_i32_16x16x32_i8, "gfx940 to gfx942 alone have it, in waves of 64")
EMU_LACKS(__builtin_amdgcn_mfma_i32_32x32x16_i8, "gfx940 to gfx942 alone have it, in waves of 64")
#endif
#if EMU_WAVE == 32 && defined(__GFX11__)
#define __builtin_amdgcn_wmma_f32_16x16x16_f16_w32(...) emu_wmma_floats<EmuHalf16>(__COUNTER__ + 1, __VA_ARGS__)
#define __builtin_amdgcn_wmma_f32_16x16x16_bf16_w32(...) emu_wmma_floats<EmuShort16>(__COUNTER__ + 1, __VA_ARGS__)
#define __builtin_amdgcn_wmma_i32_16x16x16_iu8_w32(...) emu_wmma_bytes(__COUNTER__ + 1, __VA_ARGS__)
#else
EMU_LACKS(__builtin_amdgcn_wmma_f32_16x16x16_f16_w32, "needs target feature gfx11-insts,wavefrontsize32")
EMU_LACKS(__builtin_amdgcn_wmma_f32_16x16x16_bf16_w32, "needs target feature gfx11-insts,wavefrontsize32")
EMU_LACKS(__builtin_amdgcn_wmma_i32_16x16x16_iu8_w32, "needs target feature gfx11-insts,wavefrontsize32")
#endif
