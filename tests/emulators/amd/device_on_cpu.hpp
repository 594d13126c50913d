// HIP's device language on the processor: hiprtc of the emulator puts kernel_abi.h and this before the kernels' text.
// Wave operations meet at their place in the text; lanes elsewhere are inactive, as on the hardware. __shared__
// variables are thread-local, because one block runs on one thread of the machine. EMU_WAVE is given;
// EMU_INDICES_OUTSIDE is 1 when functions that are no kernels ask for an index.
#pragma once

typedef __SIZE_TYPE__ size_t;
struct dim3 {
  unsigned x, y, z;
  constexpr dim3(unsigned x_ = 1, unsigned y_ = 1, unsigned z_ = 1) : x(x_), y(y_), z(z_) {}
};
struct EmuIndex {
  unsigned x, y, z;
};
#define EMU_INLINE static inline __attribute__((always_inline, unused))
// Kernels get their indices as parameters, which hide these: then a loop over threads can become vectors.
#define EMU_INDICES EmuIndex threadIdx, EmuIndex blockIdx, EmuIndex blockDim, EmuIndex gridDim
static thread_local EmuIndex threadIdx, blockIdx, blockDim, gridDim;
static thread_local EmuBlock* emu_block;
static thread_local EmuThread* emu_thread;

#define __global__ inline __attribute__((visibility("hidden"), always_inline))
#define __device__ __attribute__((unused))
#define __host__
#define __forceinline__ inline __attribute__((always_inline))
#define __noinline__ __attribute__((noinline))
#define __shared__ static thread_local
#define __constant__ static const
#define __launch_bounds__(...)
#define __restrict__ __restrict
#define warpSize EMU_WAVE
// The emulator writes this for `extern __shared__ T name[];`.
#define EMU_DYNAMIC_SHARED(type, name) type* const name = (type*)(emu_block->shared)

/// The emulator writes this for a cast to a pointer to global memory.
EMU_INLINE unsigned long emu_followed(unsigned long address) { return address & ~EMU_TAG; }

EMU_INLINE void emu_enter(EmuBlock* b, EmuThread* t) {
  emu_block = b;
  emu_thread = t;
#if EMU_INDICES_OUTSIDE
  threadIdx = {t->x, t->y, t->z};
  blockIdx = {b->bx, b->by, b->bz};
  blockDim = {b->nx, b->ny, b->nz};
  gridDim = {b->gx, b->gy, b->gz};
#endif
}
static __attribute__((noinline, unused)) void emu_meet(int kind, unsigned place) {
  EmuBlock* const b = emu_block;
  EmuThread* const t = emu_thread;
  if (!b->wait) {  // the text was taken for one without meetings
    b->trapped = 1;
    return;
  }
  t->mask = 0;
  t->wait_id = kind == EMU_BARRIER ? 0 : place;
  t->place = place;
  t->wait_count = 0;
  b->wait(b, t, kind);
  emu_enter(b, t);
}
static __attribute__((noinline, unused)) void emu_trap() {
  emu_block->trapped = 1;
  if (emu_block->wait) emu_block->wait(emu_block, emu_thread, EMU_TRAP);
}
#define __builtin_trap() emu_trap()
#define abort() emu_trap()
#define __syncthreads() emu_meet(EMU_BARRIER, __COUNTER__ + 1)
#define __threadfence() __atomic_thread_fence(__ATOMIC_SEQ_CST)
#define __threadfence_block() __threadfence()
#define __threadfence_system() __threadfence()
#define __syncwarp(...) emu_meet(EMU_WARP, __COUNTER__ + 1)

#define __builtin_amdgcn_s_barrier() __syncthreads()
#define __builtin_amdgcn_wave_barrier() __syncwarp()
#define __builtin_amdgcn_fence(...) ((void)0)
#define __builtin_amdgcn_wavefrontsize() EMU_WAVE
#define __builtin_amdgcn_workitem_id_x() (threadIdx.x)
#define __builtin_amdgcn_workitem_id_y() (threadIdx.y)
#define __builtin_amdgcn_workitem_id_z() (threadIdx.z)
#define __builtin_amdgcn_workgroup_id_x() (blockIdx.x)
#define __builtin_amdgcn_workgroup_id_y() (blockIdx.y)
#define __builtin_amdgcn_workgroup_id_z() (blockIdx.z)
#define __builtin_amdgcn_workgroup_size_x() ((unsigned short)blockDim.x)
#define __builtin_amdgcn_workgroup_size_y() ((unsigned short)blockDim.y)
#define __builtin_amdgcn_workgroup_size_z() ((unsigned short)blockDim.z)
#define __builtin_amdgcn_grid_size_x() (gridDim.x * blockDim.x)
#define __builtin_amdgcn_grid_size_y() (gridDim.y * blockDim.y)
#define __builtin_amdgcn_grid_size_z() (gridDim.z * blockDim.z)

// Waves
EMU_INLINE unsigned __lane_id() { return emu_thread->linear % EMU_WAVE; }
EMU_INLINE unsigned emu_first_lane() { return emu_thread->linear - __lane_id(); }
template <class T>
EMU_INLINE T emu_read_lane(unsigned place, T value, int lane) {
  static_assert(sizeof(T) <= 8, "a lane gives at most 8 bytes");
  uint64_t bits = 0;
  __builtin_memcpy(&bits, &value, sizeof(T));
  emu_thread->value = bits;
  emu_meet(EMU_WARP, place);
  if (lane < 0 || lane >= EMU_WAVE || !emu_block->present[emu_first_lane() + lane]) return value;
  bits = emu_block->offered[emu_first_lane() + lane];
  __builtin_memcpy(&value, &bits, sizeof(T));
  return value;
}
template <class T>
EMU_INLINE T emu_shfl(unsigned place, T value, int from, int width = EMU_WAVE) {
  const int self = (int)__lane_id();
  return emu_read_lane(place, value, (from & (width - 1)) + (self & ~(width - 1)));
}
template <class T>
EMU_INLINE T emu_shfl_up(unsigned place, T value, unsigned delta, int width = EMU_WAVE) {
  const int self = (int)__lane_id(), lane = self - (int)delta;
  return emu_read_lane(place, value, lane < (self & ~(width - 1)) ? self : lane);
}
template <class T>
EMU_INLINE T emu_shfl_down(unsigned place, T value, unsigned delta, int width = EMU_WAVE) {
  const int self = (int)__lane_id();
  return emu_read_lane(place, value, (self & (width - 1)) + (int)delta >= width ? self : self + (int)delta);
}
template <class T>
EMU_INLINE T emu_shfl_xor(unsigned place, T value, int mask, int width = EMU_WAVE) {
  const int self = (int)__lane_id(), lane = self ^ mask;
  return emu_read_lane(place, value, lane >= ((self + width) & ~(width - 1)) ? self : lane);
}
#define __builtin_amdgcn_ds_bpermute(address, value) emu_read_lane(__COUNTER__ + 1, (value), (address) / 4)
#define __shfl(...) emu_shfl(__COUNTER__ + 1, __VA_ARGS__)
#define __shfl_up(...) emu_shfl_up(__COUNTER__ + 1, __VA_ARGS__)
#define __shfl_down(...) emu_shfl_down(__COUNTER__ + 1, __VA_ARGS__)
#define __shfl_xor(...) emu_shfl_xor(__COUNTER__ + 1, __VA_ARGS__)
#define __shfl_sync(mask, ...) __shfl(__VA_ARGS__)
#define __shfl_up_sync(mask, ...) __shfl_up(__VA_ARGS__)
#define __shfl_down_sync(mask, ...) __shfl_down(__VA_ARGS__)
#define __shfl_xor_sync(mask, ...) __shfl_xor(__VA_ARGS__)
EMU_INLINE unsigned long long emu_ballot(unsigned place, int predicate, bool everyone) {
  emu_thread->value = predicate != 0;
  emu_meet(EMU_WARP, place);
  unsigned long long lanes = 0;
  for (unsigned i = 0; i < EMU_WAVE && emu_first_lane() + i < emu_block->thread_count; ++i) {
    const unsigned there = emu_first_lane() + i;
    if (emu_block->present[there] && (everyone || emu_block->offered[there])) lanes |= 1ull << i;
  }
  return lanes;
}
#define __ballot(p) emu_ballot(__COUNTER__ + 1, (p), false)
#define __any(p) (__ballot(p) != 0)
#define __all(p) (__ballot(!(p)) == 0)
#define __activemask() emu_ballot(__COUNTER__ + 1, 1, true)

// Atomics
template <class T>
struct EmuSame {
  typedef T type;
};
#define EMU_ATOMIC(name, next_value)                                                                          \
  template <class T>                                                                                          \
  EMU_INLINE T name(T* p, typename EmuSame<T>::type v) {                                                      \
    T old, next;                                                                                              \
    __atomic_load(p, &old, __ATOMIC_RELAXED);                                                                 \
    do {                                                                                                      \
      next = (next_value);                                                                                    \
    } while (!__atomic_compare_exchange(p, &old, &next, false, __ATOMIC_SEQ_CST, __ATOMIC_RELAXED));          \
    return old;                                                                                               \
  }
EMU_ATOMIC(atomicAdd, old + v)
EMU_ATOMIC(atomicSub, old - v)
EMU_ATOMIC(atomicExch, v)
EMU_ATOMIC(atomicMin, old < v ? old : v)
EMU_ATOMIC(atomicMax, old > v ? old : v)
EMU_ATOMIC(atomicAnd, old & v)
EMU_ATOMIC(atomicOr, old | v)
EMU_ATOMIC(atomicXor, old ^ v)
EMU_ATOMIC(atomicInc, old >= v ? 0 : old + 1)
EMU_ATOMIC(atomicDec, old == 0 || old > v ? v : old - 1)
template <class T>
EMU_INLINE T atomicCAS(T* p, typename EmuSame<T>::type expected, typename EmuSame<T>::type v) {
  __atomic_compare_exchange(p, &expected, &v, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
  return expected;
}

// Numbers
#define EMU_MATH_1(X) X(acos) X(asin) X(atan) X(cos) X(sin) X(tan) X(cosh) X(sinh) X(tanh) X(exp) X(exp2) X(expm1) \
  X(log) X(log2) X(log10) X(log1p) X(sqrt) X(cbrt) X(erf) X(erfc) X(floor) X(ceil) X(trunc) X(rint) X(round) X(fabs)
#define EMU_MATH_2(X) X(pow) X(atan2) X(fmod) X(fmin) X(fmax) X(copysign) X(hypot)
#define EMU_DECLARE_1(name)          \
  extern "C" double name(double);    \
  extern "C" float name##f(float);   \
  EMU_INLINE float name(float a) { return name##f(a); }
#define EMU_DECLARE_2(name)                 \
  extern "C" double name(double, double);   \
  extern "C" float name##f(float, float);   \
  EMU_INLINE float name(float a, float b) { return name##f(a, b); }
EMU_MATH_1(EMU_DECLARE_1)
EMU_MATH_2(EMU_DECLARE_2)
EMU_INLINE float fmaf(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
EMU_INLINE double fma(double a, double b, double c) { return __builtin_fma(a, b, c); }
EMU_INLINE float rsqrtf(float a) { return 1.0f / __builtin_sqrtf(a); }
template <class T>
EMU_INLINE T min(T a, T b) { return b < a ? b : a; }
template <class T>
EMU_INLINE T max(T a, T b) { return a < b ? b : a; }
EMU_INLINE float __fmaf_rn(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
EMU_INLINE float __fdiv_rn(float a, float b) { return a / b; }
EMU_INLINE float __fsqrt_rn(float a) { return __builtin_sqrtf(a); }
EMU_INLINE int __float_as_int(float a) { return __builtin_bit_cast(int, a); }
EMU_INLINE unsigned __float_as_uint(float a) { return __builtin_bit_cast(unsigned, a); }
EMU_INLINE float __int_as_float(int a) { return __builtin_bit_cast(float, a); }
EMU_INLINE float __uint_as_float(unsigned a) { return __builtin_bit_cast(float, a); }
EMU_INLINE int __popc(unsigned a) { return __builtin_popcount(a); }
EMU_INLINE int __popcll(unsigned long long a) { return __builtin_popcountll(a); }
EMU_INLINE int __clz(int a) { return a ? __builtin_clz((unsigned)a) : 32; }
EMU_INLINE int __ffs(int a) { return __builtin_ffs(a); }
EMU_INLINE unsigned __umulhi(unsigned a, unsigned b) { return (unsigned)((unsigned long long)a * b >> 32); }

typedef _Float16 __half;
EMU_INLINE float __half2float(__half a) { return (float)a; }
EMU_INLINE __half __float2half(float a) { return (__half)a; }
EMU_INLINE __half __hadd(__half a, __half b) { return a + b; }
EMU_INLINE __half __hmul(__half a, __half b) { return a * b; }
#define EMU_VECTOR(T, name)                                        \
  typedef T name##2 __attribute__((ext_vector_type(2)));           \
  typedef T name##4 __attribute__((ext_vector_type(4)));           \
  EMU_INLINE name##2 make_##name##2(T x, T y) { return {x, y}; }   \
  EMU_INLINE name##4 make_##name##4(T x, T y, T z, T w) { return {x, y, z, w}; }
EMU_VECTOR(float, float)
EMU_VECTOR(double, double)
EMU_VECTOR(int, int)
EMU_VECTOR(unsigned, uint)

// Entries. Arguments lie packed, each at its natural alignment; braces take them in order.
template <class T>
EMU_INLINE T emu_take(const char* arguments, unsigned& at) {
  T value;
  at = (at + alignof(T) - 1) / alignof(T) * alignof(T);
  __builtin_memcpy(&value, arguments + at, sizeof(T));
  at += sizeof(T);
  return value;
}
template <auto Kernel, class... A>
struct EmuOneThread {
  __attribute__((always_inline)) EmuOneThread(EmuBlock* b, EmuThread* t, A... a) {
    Kernel(EmuIndex{t->x, t->y, t->z}, EmuIndex{b->bx, b->by, b->bz}, EmuIndex{b->nx, b->ny, b->nz},
           EmuIndex{b->gx, b->gy, b->gz}, a...);
  }
};
template <auto Kernel, class... A>
struct EmuWholeBlock {
  __attribute__((always_inline)) EmuWholeBlock(EmuBlock* b, EmuThread* t, A... a) {
    const EmuIndex block = {b->bx, b->by, b->bz}, size = {b->nx, b->ny, b->nz}, grid = {b->gx, b->gy, b->gz};
    for (unsigned z = 0; z < size.z; ++z) {
      for (unsigned y = 0; y < size.y; ++y) {
        for (unsigned x = 0; x < size.x; ++x) {
#if EMU_INDICES_OUTSIDE
          t->x = x, t->y = y, t->z = z;
          emu_enter(b, t);
#endif
          Kernel(EmuIndex{x, y, z}, block, size, grid, a...);
        }
      }
    }
  }
};
template <auto Kernel, class... A>
EMU_INLINE void emu_run_thread(void (*)(EmuIndex, EmuIndex, EmuIndex, EmuIndex, A...), EmuBlock* b, EmuThread* t) {
  unsigned at = 0;
  emu_enter(b, t);
  EmuOneThread<Kernel, A...>{b, t, emu_take<A>(b->arguments, at)...};
}
template <auto Kernel, class... A>
EMU_INLINE void emu_run_block(void (*)(EmuIndex, EmuIndex, EmuIndex, EmuIndex, A...), EmuBlock* b, EmuThread* t) {
  unsigned at = 0;
  emu_enter(b, t);
  EmuWholeBlock<Kernel, A...>{b, t, emu_take<A>(b->arguments, at)...};
}
// Size, alignment and whether it is a pointer (1), a number (0) or something else (2), for each parameter.
template <class... A>
EMU_INLINE unsigned emu_describe(void (*)(EmuIndex, EmuIndex, EmuIndex, EmuIndex, A...), unsigned* out, unsigned most) {
  if (sizeof...(A) > most) return sizeof...(A);
  ((*out++ = sizeof(A), *out++ = alignof(A), *out++ = __is_pointer(A) ? 1 : __is_arithmetic(A) ? 0 : 2), ...);
  return sizeof...(A);
}
#define EMU_EXPORT extern "C" __attribute__((visibility("default")))
#define EMU_DESCRIBE(name) \
  EMU_EXPORT unsigned emu_describe_##name(unsigned* out, unsigned most) { return emu_describe(&name, out, most); }
#define EMU_THREAD_KERNEL(name)                            \
  EMU_EXPORT int emu_thread_##name(EmuBlock* b, EmuThread* t) { \
    emu_run_thread<&name>(&name, b, t);                    \
    return EMU_DONE;                                       \
  }                                                        \
  EMU_DESCRIBE(name)
#define EMU_BLOCK_KERNEL(name)                                                                              \
  EMU_EXPORT void emu_block_##name(EmuBlock* b, EmuThread* t) { emu_run_block<&name>(&name, b, t); }        \
  EMU_DESCRIBE(name)
// Makes this thread's copy of the thread-local variables, so that the emulator can find and fill them.
EMU_EXPORT void emu_touch() { emu_block = 0; }
