// HIP's device language for clang's amdgcn target without any of ROCm: put before the kernels' text for the check that
// it really compiles for an AMD processor. Nothing is run. The functions that ROCm's device libraries would define are
// declared only.
#pragma once

#define __global__ __attribute__((global))
#define __device__ __attribute__((device))
#define __host__ __attribute__((host))
#define __shared__ __attribute__((shared))
#define __constant__ __attribute__((constant))
#define __forceinline__ inline __attribute__((always_inline))
#define __noinline__ __attribute__((noinline))
#define __launch_bounds__(most, ...) __attribute__((amdgpu_flat_work_group_size(1, most)))
#define EMU_DEVICE static inline __attribute__((device, unused))

typedef __SIZE_TYPE__ size_t;
struct dim3 {
  unsigned x, y, z;
};
#define EMU_AXES(struct_name, expression)                                                                 \
  struct struct_name {                                                                                    \
    __attribute__((device)) unsigned get_x() const { return __builtin_amdgcn_##expression(x); }            \
    __attribute__((device)) unsigned get_y() const { return __builtin_amdgcn_##expression(y); }            \
    __attribute__((device)) unsigned get_z() const { return __builtin_amdgcn_##expression(z); }            \
    __declspec(property(get = get_x)) unsigned x;                                                         \
    __declspec(property(get = get_y)) unsigned y;                                                         \
    __declspec(property(get = get_z)) unsigned z;                                                         \
  };
#define __builtin_amdgcn_emu_thread(axis) __builtin_amdgcn_workitem_id_##axis()
#define __builtin_amdgcn_emu_block(axis) __builtin_amdgcn_workgroup_id_##axis()
#define __builtin_amdgcn_emu_size(axis) __builtin_amdgcn_workgroup_size_##axis()
#define __builtin_amdgcn_emu_grid(axis) (__builtin_amdgcn_grid_size_##axis() / __builtin_amdgcn_workgroup_size_##axis())
EMU_AXES(EmuThreadIndex, emu_thread)
EMU_AXES(EmuBlockIndex, emu_block)
EMU_AXES(EmuBlockSize, emu_size)
EMU_AXES(EmuGridSize, emu_grid)
#define threadIdx (EmuThreadIndex())
#define blockIdx (EmuBlockIndex())
#define blockDim (EmuBlockSize())
#define gridDim (EmuGridSize())
#define warpSize ((int)__builtin_amdgcn_wavefrontsize())

// A barrier of the hardware orders nothing by itself.
EMU_DEVICE void __syncthreads() {
  __builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup");
  __builtin_amdgcn_s_barrier();
  __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "workgroup");
}
EMU_DEVICE void __threadfence() { __builtin_amdgcn_fence(__ATOMIC_SEQ_CST, "agent"); }
EMU_DEVICE void __threadfence_block() { __builtin_amdgcn_fence(__ATOMIC_SEQ_CST, "workgroup"); }

EMU_DEVICE unsigned __lane_id() { return __builtin_amdgcn_mbcnt_hi(~0u, __builtin_amdgcn_mbcnt_lo(~0u, 0)); }
template <class T>
EMU_DEVICE T emu_read_lane(T value, int lane) {
  static_assert(sizeof(T) == 4 || sizeof(T) == 8, "lanes give words");
  int words[sizeof(T) / 4];
  __builtin_memcpy(words, &value, sizeof(T));
  for (unsigned i = 0; i < sizeof(T) / 4; ++i) words[i] = __builtin_amdgcn_ds_bpermute(lane * 4, words[i]);
  __builtin_memcpy(&value, words, sizeof(T));
  return value;
}
template <class T>
EMU_DEVICE T __shfl(T value, int from, int width = warpSize) {
  const int self = (int)__lane_id();
  return emu_read_lane(value, (from & (width - 1)) + (self & ~(width - 1)));
}
template <class T>
EMU_DEVICE T __shfl_up(T value, unsigned delta, int width = warpSize) {
  const int self = (int)__lane_id(), lane = self - (int)delta;
  return emu_read_lane(value, lane < (self & ~(width - 1)) ? self : lane);
}
template <class T>
EMU_DEVICE T __shfl_down(T value, unsigned delta, int width = warpSize) {
  const int self = (int)__lane_id();
  return emu_read_lane(value, (self & (width - 1)) + (int)delta >= width ? self : self + (int)delta);
}
template <class T>
EMU_DEVICE T __shfl_xor(T value, int mask, int width = warpSize) {
  const int self = (int)__lane_id(), lane = self ^ mask;
  return emu_read_lane(value, lane >= ((self + width) & ~(width - 1)) ? self : lane);
}
EMU_DEVICE unsigned long long __ballot(int p) {
  return __builtin_amdgcn_wavefrontsize() == 64 ? __builtin_amdgcn_uicmp((unsigned)p, 0u, 33)
                                                : (unsigned long long)__builtin_amdgcn_uicmp((unsigned)p, 0u, 33);
}
EMU_DEVICE int __any(int p) { return __ballot(p) != 0; }
EMU_DEVICE int __all(int p) { return __ballot(!p) == 0; }

template <class T>
struct EmuSame {
  typedef T type;
};
#define EMU_ATOMIC(name, function)                                                            \
  template <class T>                                                                          \
  EMU_DEVICE T name(T* p, typename EmuSame<T>::type v) {                                      \
    return function(p, v, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT);                        \
  }
EMU_ATOMIC(atomicAdd, __hip_atomic_fetch_add)
EMU_ATOMIC(atomicMin, __hip_atomic_fetch_min)
EMU_ATOMIC(atomicMax, __hip_atomic_fetch_max)
EMU_ATOMIC(atomicAnd, __hip_atomic_fetch_and)
EMU_ATOMIC(atomicOr, __hip_atomic_fetch_or)
EMU_ATOMIC(atomicXor, __hip_atomic_fetch_xor)
EMU_ATOMIC(atomicExch, __hip_atomic_exchange)
template <class T>
EMU_DEVICE T atomicCAS(T* p, typename EmuSame<T>::type expected, typename EmuSame<T>::type v) {
  __hip_atomic_compare_exchange_strong(p, &expected, v, __ATOMIC_RELAXED, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT);
  return expected;
}

#define EMU_LIBRARY_1(name)                                                 \
  extern "C" __attribute__((device)) float __ocml_##name##_f32(float);      \
  extern "C" __attribute__((device)) double __ocml_##name##_f64(double);    \
  EMU_DEVICE float name##f(float a) { return __ocml_##name##_f32(a); }      \
  EMU_DEVICE double name(double a) { return __ocml_##name##_f64(a); }
EMU_LIBRARY_1(exp)
EMU_LIBRARY_1(log) EMU_LIBRARY_1(tanh) EMU_LIBRARY_1(erf) EMU_LIBRARY_1(sin) EMU_LIBRARY_1(cos)
#define EMU_BUILTIN_1(name)                                            \
  EMU_DEVICE float name##f(float a) { return __builtin_##name##f(a); } \
  EMU_DEVICE double name(double a) { return __builtin_##name(a); }
    EMU_BUILTIN_1(sqrt) EMU_BUILTIN_1(floor) EMU_BUILTIN_1(ceil) EMU_BUILTIN_1(trunc) EMU_BUILTIN_1(rint)
        EMU_BUILTIN_1(fabs) EMU_DEVICE float fmaxf(float a, float b) {
  return __builtin_fmaxf(a, b);
}
EMU_DEVICE float fminf(float a, float b) { return __builtin_fminf(a, b); }
EMU_DEVICE float fmaf(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
EMU_DEVICE float __fmaf_rn(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
EMU_DEVICE int __float_as_int(float a) { return __builtin_bit_cast(int, a); }
EMU_DEVICE float __int_as_float(int a) { return __builtin_bit_cast(float, a); }
EMU_DEVICE int __popc(unsigned a) { return __builtin_popcount(a); }
EMU_DEVICE int __popcll(unsigned long long a) { return __builtin_popcountll(a); }
EMU_DEVICE int __clz(int a) { return a ? __builtin_clz((unsigned)a) : 32; }
typedef _Float16 __half;
EMU_DEVICE float __half2float(__half a) { return (float)a; }
EMU_DEVICE __half __float2half(float a) { return (__half)a; }
#define EMU_VECTOR(T, name)                                \
  typedef T name##2 __attribute__((ext_vector_type(2)));   \
  typedef T name##4 __attribute__((ext_vector_type(4)));
EMU_VECTOR(float, float)
EMU_VECTOR(double, double)
EMU_VECTOR(int, int)
EMU_VECTOR(unsigned, uint)
