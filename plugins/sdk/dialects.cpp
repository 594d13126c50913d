// The four tables of spellings: see c_dialect.hpp.
#include <string>

#include "plugins/sdk/c_dialect.hpp"
#include "plugins/sdk/opencl_teams.hpp"

namespace crucible::sdk {
namespace {

// Vectors of a tile for languages without them: arrays of registers.
#define CRUCIBLE_SDK_VECTORS(vector, scalar, lanes, fused)                                           \
  "typedef struct { " scalar " v[" lanes "]; } crucible_" vector                                     \
  ";\n"                                                                                              \
  "CRUCIBLE_FN crucible_" vector " crucible_load_" vector "(const " scalar "* p) { crucible_" vector \
  " r;\n"                                                                                            \
  "#pragma unroll\n  for (int i = 0; i < " lanes                                                     \
  "; ++i) r.v[i] = p[i]; return r; }\n"                                                              \
  "CRUCIBLE_FN void crucible_store_" vector "(" scalar "* p, crucible_" vector                       \
  " x) {\n"                                                                                          \
  "#pragma unroll\n  for (int i = 0; i < " lanes                                                     \
  "; ++i) p[i] = x.v[i]; }\n"                                                                        \
  "CRUCIBLE_FN crucible_" vector " crucible_splat_" vector "(" scalar " x) { crucible_" vector       \
  " r;\n"                                                                                            \
  "#pragma unroll\n  for (int i = 0; i < " lanes                                                     \
  "; ++i) r.v[i] = x; return r; }\n"                                                                 \
  "CRUCIBLE_FN crucible_" vector " crucible_add_" vector "(crucible_" vector " a, crucible_" vector  \
  " b) {\n"                                                                                          \
  "#pragma unroll\n  for (int i = 0; i < " lanes                                                     \
  "; ++i) b.v[i] = a.v[i] + b.v[i]; return b; }\n"                                                   \
  "CRUCIBLE_FN crucible_" vector " crucible_fma_" vector "(crucible_" vector " a, crucible_" vector  \
  " b, crucible_" vector                                                                             \
  " c) {\n"                                                                                          \
  "#pragma unroll\n  for (int i = 0; i < " lanes "; ++i) c.v[i] = " fused "(a.v[i], b.v[i], c.v[i]); return c; }\n"

// Rows of a buffer into columns of an array. `loop` stands before the loops: fully unrolled, one of these takes NVRTC
// five seconds.
#define CRUCIBLE_SDK_TRANSPOSE(suffix, scalar, global, loop)                                                   \
  "CRUCIBLE_FN void crucible_transpose_" suffix "(" scalar "* to, int64_t to_step, " global "const " scalar    \
  "* from, "                                                                                                   \
  "int64_t from_step, int64_t columns, int64_t steps) {\n" loop "  for (int64_t q = 0; q < steps; ++q)\n" loop \
  "    for (int64_t j = 0; j < columns; ++j) to[q * to_step + j] = from[j * from_step + q];\n}\n"

// The types of the C library on 64-bit Linux, so that a text that has them already agrees.
#define CRUCIBLE_SDK_CXX_TYPES                                                                       \
  "typedef signed char int8_t; typedef short int16_t; typedef int int32_t; typedef long int64_t;\n"  \
  "typedef unsigned char uint8_t; typedef unsigned short uint16_t; typedef unsigned int uint32_t;\n" \
  "typedef unsigned long uint64_t;\n"

// What C++ for devices has beside: an i64 that counts items is seldom longer than 32 bits.
#define CRUCIBLE_SDK_QUOTIENTS                                                          \
  "CRUCIBLE_FN int64_t crucible_quotient(int64_t a, int32_t b) {\n"                     \
  "  return (uint64_t)a >> 32 == 0 ? (int64_t)((uint32_t)a / (uint32_t)b) : a / b; }\n" \
  "CRUCIBLE_FN int64_t crucible_remainder(int64_t a, int32_t b) {\n"                    \
  "  return (uint64_t)a >> 32 == 0 ? (int64_t)((uint32_t)a % (uint32_t)b) : a % b; }\n"

// No header of the toolkit: NVRTC comes without them (PyPI's package). So f16 is its bits, converted by the
// instructions, and GNU C's builtins, which the prelude is written with, are the language's own functions. memcpy there
// only takes a number's bits.
constexpr std::string_view kCudaPreamble = CRUCIBLE_SDK_CXX_TYPES
    "#define crucible_prefetch(p)\n"
    "#define crucible_assume_aligned(p, n) __builtin_assume(((uint64_t)(p) & ((n) - 1)) == 0)\n"
    "typedef uint16_t crucible_f16;\n"
    "typedef uint16_t crucible_bf16;\n"
    "#define CRUCIBLE_FN static __device__ __forceinline__\n"
    "CRUCIBLE_FN void crucible_copy_bits_(uint32_t* to, const float* from) { *to = __float_as_uint(*from); }\n"
    "CRUCIBLE_FN void crucible_copy_bits_(float* to, const uint32_t* from) { *to = __uint_as_float(*from); }\n"
    "CRUCIBLE_FN void crucible_copy_bits_(uint64_t* to, const double* from) { *to = "
    "(uint64_t)__double_as_longlong(*from); }\n"
    "CRUCIBLE_FN void crucible_copy_bits_(double* to, const uint64_t* from) { *to = __longlong_as_double((long "
    "long)*from); }\n"
    "#define __builtin_memcpy(to, from, n) crucible_copy_bits_(to, from)\n"
    "CRUCIBLE_FN float crucible_f16_to_f32(crucible_f16 h) { float x; asm(\"cvt.f32.f16 %0, %1;\" : \"=f\"(x) : "
    "\"h\"(h)); return x; }\n"
    "CRUCIBLE_FN crucible_f16 crucible_f32_to_f16(float x) {\n"
    "  crucible_f16 h; asm(\"cvt.rn.f16.f32 %0, %1;\" : \"=h\"(h) : \"f\"(x)); return h; }\n"
    "CRUCIBLE_FN crucible_f16 crucible_f64_to_f16(double x) {\n"
    "  crucible_f16 h; asm(\"cvt.rn.f16.f64 %0, %1;\" : \"=h\"(h) : \"d\"(x)); return h; }\n"
    "#define __builtin_fma(a, b, c) fma(a, b, c)\n"
    "#define __builtin_sqrt(a) sqrt(a)\n"
    "#define __builtin_floor(a) floor(a)\n"
    "#define __builtin_fmaf(a, b, c) fmaf(a, b, c)\n"
    "#define __builtin_sqrtf(a) sqrtf(a)\n"
    "#define __builtin_floorf(a) floorf(a)\n"
    "#define __builtin_nanf(a) __int_as_float(0x7fc00000)\n"
    "#define __builtin_nan(a) __longlong_as_double(0x7ff8000000000000ll)\n"
    "#define __builtin_inff() __int_as_float(0x7f800000)\n"
    "#define __builtin_inf() __longlong_as_double(0x7ff0000000000000ll)\n" CRUCIBLE_SDK_VECTORS(
        "f32x16", "float", "16", "fmaf") CRUCIBLE_SDK_VECTORS("f64x8", "double", "8", "fma")
        CRUCIBLE_SDK_TRANSPOSE("f32", "float", "", "#pragma unroll 1\n")
            CRUCIBLE_SDK_TRANSPOSE("f64", "double", "", "#pragma unroll 1\n") CRUCIBLE_SDK_QUOTIENTS
    "#define CRUCIBLE_EXCHANGE_(name, how) \\\n"
    "  template <class T> CRUCIBLE_FN T name(T x, int32_t lane, int32_t n) { \\\n"
    "    if constexpr (sizeof(T) < 4) return (T)how(0xffffffffu, (int32_t)x, n); \\\n"
    "    else return how(0xffffffffu, x, n); }\n"
    "CRUCIBLE_EXCHANGE_(crucible_lane_xor, __shfl_xor_sync)\n"
    "CRUCIBLE_EXCHANGE_(crucible_lane_above, __shfl_down_sync)\n"
    "CRUCIBLE_EXCHANGE_(crucible_from_lane, __shfl_sync)\n"
    "template <class T, int n> struct alignas(sizeof(T) * n) crucible_group { T v[n]; };\n"
    "template <int n, class T> CRUCIBLE_FN void crucible_read_(T* to, const T* from) {\n"
    "  const crucible_group<T, n> g = *(const crucible_group<T, n>*)from;\n"
    "#pragma unroll\n"
    "  for (int i = 0; i < n; ++i) to[i] = g.v[i]; }\n"
    "template <int n, class T> CRUCIBLE_FN void crucible_write_(T* to, const T* from) {\n"
    "  crucible_group<T, n> g;\n"
    "#pragma unroll\n"
    "  for (int i = 0; i < n; ++i) g.v[i] = from[i];\n"
    "  *(crucible_group<T, n>*)to = g; }\n"
    "#define crucible_read(n, to, from) crucible_read_<n>(to, from)\n"
    "#define crucible_write(n, to, from) crucible_write_<n>(to, from)\n";

// HIP's compiler is clang: the builtins are there.
constexpr std::string_view kHipPreamble =
    "#pragma clang fp contract(off)\n" CRUCIBLE_SDK_CXX_TYPES
    "#ifndef __shared__\n"
    "#define __shared__ __attribute__((shared))\n"
    "#endif\n"
    "#define crucible_prefetch(p)\n"
    "typedef _Float16 crucible_f16;\n"
    "typedef uint16_t crucible_bf16;\n"
    "typedef float crucible_f32x16 __attribute__((vector_size(64)));\n"
    "typedef double crucible_f64x8 __attribute__((vector_size(64)));\n"
    "typedef float crucible_f32x16_in_memory __attribute__((vector_size(64), aligned(4), may_alias));\n"
    "typedef double crucible_f64x8_in_memory __attribute__((vector_size(64), aligned(8), may_alias));\n"
    "#define crucible_load_f32x16(p) ((crucible_f32x16)*(const crucible_f32x16_in_memory*)(p))\n"
    "#define crucible_load_f64x8(p) ((crucible_f64x8)*(const crucible_f64x8_in_memory*)(p))\n"
    "#define crucible_store_f32x16(p, v) (*(crucible_f32x16_in_memory*)(p) = (v))\n"
    "#define crucible_store_f64x8(p, v) (*(crucible_f64x8_in_memory*)(p) = (v))\n"
    "#define crucible_splat_f32x16(x) ((x) - (crucible_f32x16){}) /* less zero: -0 stays */\n"
    "#define crucible_splat_f64x8(x) ((x) - (crucible_f64x8){})\n"
    "#define crucible_add_f32x16(a, b) ((a) + (b))\n"
    "#define crucible_add_f64x8(a, b) ((a) + (b))\n"
    "#define crucible_fma_f32x16(a, b, c) __builtin_elementwise_fma(a, b, c)\n"
    "#define crucible_fma_f64x8(a, b, c) __builtin_elementwise_fma(a, b, c)\n"
    "#define CRUCIBLE_FN static __attribute__((device)) inline __attribute__((always_inline, "
    "unused))\n" CRUCIBLE_SDK_TRANSPOSE("f32", "float", "", "#pragma unroll 1\n")
        CRUCIBLE_SDK_TRANSPOSE("f64", "double", "", "#pragma unroll 1\n") CRUCIBLE_SDK_QUOTIENTS
    // A lane's words by way of the crossbar of the shared memory, which takes none of it. It stands in the kernel, for
    // a function that asks other lanes would make all kernels of a text such.
    "#define crucible_from_lane(number, lane, which) ({ \\\n"
    "  auto x_ = (number); \\\n"
    "  int32_t words_[(sizeof(x_) + 3) / 4] = {}; \\\n"
    "  __builtin_memcpy(words_, &x_, sizeof(x_)); \\\n"
    "  for (unsigned i_ = 0; i_ < sizeof(words_) / 4; ++i_) \\\n"
    "    words_[i_] = __builtin_amdgcn_ds_bpermute((which) * 4, words_[i_]); \\\n"
    "  __builtin_memcpy(&x_, words_, sizeof(x_)); \\\n"
    "  x_; })\n"
    "#define crucible_lane_xor(x, lane, width) crucible_from_lane(x, lane, (lane) ^ (width))\n"
    "#define crucible_lane_above(x, lane, distance) crucible_from_lane(x, lane, (lane) + (distance))\n"
    "template <int n, class T> CRUCIBLE_FN void crucible_read_(T* to, const T* from) {\n"
    "  __builtin_memcpy(to, __builtin_assume_aligned(from, n * sizeof(T)), n * sizeof(T)); }\n"
    "template <int n, class T> CRUCIBLE_FN void crucible_write_(T* to, const T* from) {\n"
    "  __builtin_memcpy(__builtin_assume_aligned(to, n * sizeof(T)), from, n * sizeof(T)); }\n"
    "#define crucible_read(n, to, from) crucible_read_<n>(to, from)\n"
    "#define crucible_write(n, to, from) crucible_write_<n>(to, from)\n";

// f16 is storage, and a device without cl_khr_fp16 has no values of that type: the bits, converted by the two functions
// that every device has. `half` is a name of variables in the prelude, so it is spoken of first. The bits of a number
// are the language's as_TYPE: byte by byte, some compilers do not see that nothing is to be done.
constexpr std::string_view kOpenClPreamble =
    "#pragma OPENCL EXTENSION cl_khr_fp64 : enable\n"
    "#pragma OPENCL FP_CONTRACT OFF\n"
    "typedef char int8_t; typedef short int16_t; typedef int int32_t; typedef long int64_t;\n"
    "typedef uchar uint8_t; typedef ushort uint16_t; typedef uint uint32_t; typedef ulong uint64_t;\n"
    "#define crucible_prefetch(p) prefetch(p, 1)\n"
    "typedef ushort crucible_f16;\n"
    "typedef ushort crucible_bf16;\n"
    "typedef float16 crucible_f32x16; typedef double8 crucible_f64x8;\n"
    "#define crucible_load_f32x16(p) vload16(0, p)\n"
    "#define crucible_load_f64x8(p) vload8(0, p)\n"
    "#define crucible_store_f32x16(p, v) vstore16(v, 0, p)\n"
    "#define crucible_store_f64x8(p, v) vstore8(v, 0, p)\n"
    "#define crucible_splat_f32x16(x) ((float16)(x))\n"
    "#define crucible_splat_f64x8(x) ((double8)(x))\n"
    "#define crucible_add_f32x16(a, b) ((a) + (b))\n"
    "#define crucible_add_f64x8(a, b) ((a) + (b))\n"
    "#define crucible_fma_f32x16(a, b, c) fma(a, b, c)\n"
    "#define crucible_fma_f64x8(a, b, c) fma(a, b, c)\n"
    "#define CRUCIBLE_FN static inline\n"
    CRUCIBLE_SDK_TRANSPOSE("f32", "float", "__global ", "") CRUCIBLE_SDK_TRANSPOSE("f64", "double", "__global ", "")
    "CRUCIBLE_FN float crucible_f16_to_f32(crucible_f16 h) { return vload_half(0, (const half*)&h); }\n"
    "CRUCIBLE_FN crucible_f16 crucible_f32_to_f16(float x) {\n"
    "  crucible_f16 h;\n"
    "  vstore_half_rte(x, 0, (half*)&h);\n"
    "  return h;\n"
    "}\n"
    "CRUCIBLE_FN crucible_f16 crucible_f64_to_f16(double x) {\n"
    "  crucible_f16 h;\n"
    "  vstore_half_rte(x, 0, (half*)&h);\n"
    "  return h;\n"
    "}\n"
    "#define half half_\n"
    "#define CRUCIBLE_BITS_(to, from) \\\n"
    "  CRUCIBLE_FN void __attribute__((overloadable)) crucible_copy_bits_(to* y, const from* x) { *y = as_##to(*x); }\n"
    "CRUCIBLE_BITS_(uint, float) CRUCIBLE_BITS_(float, uint) "
    "CRUCIBLE_BITS_(ulong, double) CRUCIBLE_BITS_(double, ulong)\n"
    "#define __builtin_memcpy(to, from, n) crucible_copy_bits_(to, from)\n"
    "#define __builtin_fma(a, b, c) fma(a, b, c)\n"
    "#define __builtin_sqrt(a) sqrt(a)\n"
    "#define __builtin_floor(a) floor(a)\n"
    "#define __builtin_fmaf(a, b, c) fma(a, b, c)\n"
    "#define __builtin_sqrtf(a) sqrt(a)\n"
    "#define __builtin_floorf(a) floor(a)\n"
    "#define __builtin_nanf(a) as_float(0x7fc00000u)\n"
    "#define __builtin_nan(a) as_double(0x7ff8000000000000ul)\n"
    "#define __builtin_inff() as_float(0x7f800000u)\n"
    "#define __builtin_inf() as_double(0x7ff0000000000000ul)\n";

constexpr Dialect kC = {
    .name = "c",
    .flags = "-ffp-contract=off",
    .preamble = "",
    .kernel = "void ",
    .packed_arguments = true,
    .global = "",
    .restrict_ = "restrict ",
    .bool_type = "_Bool",
    .align_array = "_Alignas(64) ",
    .first_item = "",
    .item_step = "",
    .vector_loop = "#pragma clang loop vectorize(assume_safety) interleave(enable)",
    .wide_vector_loop = "#pragma clang loop vectorize(assume_safety) interleave(enable) vectorize_width(16)",
    .unrolled_loop = "#pragma clang loop unroll(full)",
    .ordered_loop = "",
    .outer_loop = "",
    .inner_loop = "",
    .nan_f32 = "__builtin_nanf(\"\")",
    .nan_f64 = "__builtin_nan(\"\")",
    .inf_f32 = "__builtin_inff()",
    .inf_f64 = "__builtin_inf()",
    .wide_suffix = "ll",
    .thread = "",
    .shared = "",
    .meet = "",
    .meet_all = "",
};

constexpr Dialect kCuda = {
    .name = "cuda",
    .flags = "-fmad=false",
    .preamble = kCudaPreamble,
    .kernel = "extern \"C\" __global__ void ",
    .packed_arguments = false,
    .global = "",
    .restrict_ = "__restrict__ ",
    .bool_type = "bool",
    .align_array = "",
    .first_item = "(int64_t)blockIdx.x * blockDim.x + threadIdx.x",
    .item_step = "(int64_t)gridDim.x * blockDim.x",
    .vector_loop = "",
    .wide_vector_loop = "",
    .unrolled_loop = "#pragma unroll",
    .ordered_loop = "",
    .outer_loop = "#pragma unroll 1",
    .inner_loop = "#pragma unroll 4",
    .nan_f32 = "__int_as_float(0x7fc00000)",
    .nan_f64 = "__longlong_as_double(0x7ff8000000000000ll)",
    .inf_f32 = "__int_as_float(0x7f800000)",
    .inf_f64 = "__longlong_as_double(0x7ff0000000000000ll)",
    .wide_suffix = "ll",
    .f16_is_bits = true,
    .alignment = 16,
    .thread = "threadIdx.x",
    .shared = "__shared__ ",
    .meet = "__syncwarp();",
    .meet_all = "__syncthreads();",
};

constexpr Dialect make_hip() {
  Dialect hip = kCuda;
  hip.alignment = 1;  // it loads several numbers from any address
  hip.f16_is_bits = false;
  hip.name = "hip";
  hip.flags = "-ffp-contract=off";
  hip.preamble = kHipPreamble;
  hip.kernel = "extern \"C\" __attribute__((global)) void ";
  hip.nan_f32 = "__builtin_nanf(\"\")";
  hip.nan_f64 = "__builtin_nan(\"\")";
  hip.inf_f32 = "__builtin_inff()";
  hip.inf_f64 = "__builtin_inf()";
  // Lanes of a wave are in step, but the compiler does not know what that orders.
  hip.meet =
      "__builtin_amdgcn_fence(__ATOMIC_RELEASE, \"wavefront\"); __builtin_amdgcn_wave_barrier(); "
      "__builtin_amdgcn_fence(__ATOMIC_ACQUIRE, \"wavefront\");";
  hip.meet_all =
      "__builtin_amdgcn_fence(__ATOMIC_RELEASE, \"workgroup\"); __builtin_amdgcn_s_barrier(); "
      "__builtin_amdgcn_fence(__ATOMIC_ACQUIRE, \"workgroup\");";
  return hip;
}
constexpr Dialect kHip = make_hip();

constexpr Dialect kOpenCl = {
    .name = "opencl",
    .flags = "-cl-fp32-correctly-rounded-divide-sqrt",
    .preamble = kOpenClPreamble,
    .kernel = "__kernel void ",
    .packed_arguments = false,
    .global = "__global ",
    .restrict_ = "restrict ",
    .bool_type = "bool",
    .align_array = "",
    .first_item = "(int64_t)get_global_id(0)",
    .item_step = "(int64_t)get_global_size(0)",
    // Intel's compiler makes vectors of sums of floats by itself; across work-items it may.
    .vector_loop = "#pragma clang loop vectorize(disable)",
    .wide_vector_loop = "#pragma clang loop vectorize(disable)",
    .unrolled_loop = "#pragma unroll",
    .ordered_loop = "#pragma clang loop vectorize(disable)",
    .outer_loop = "",
    .inner_loop = "",
    .nan_f32 = "as_float(0x7fc00000u)",
    .nan_f64 = "as_double(0x7ff8000000000000ul)",
    .inf_f32 = "as_float(0x7f800000u)",
    .inf_f64 = "as_double(0x7ff0000000000000ul)",
    .wide_suffix = "l",
    .f16_is_bits = true,
    .thread = "",
    .shared = "",
    .meet = "",
    .meet_all = "",
};

}  // namespace

const Dialect& dialect_c() { return kC; }
const Dialect& dialect_cuda() { return kCuda; }
const Dialect& dialect_hip() { return kHip; }
const Dialect& dialect_opencl() { return kOpenCl; }

namespace {

Dialect with_teams(const std::string& preamble) {
  Dialect dialect = kOpenCl;
  dialect.preamble = preamble;
  dialect.shared = dialect.local = "__local ";
  dialect.meet_all = "barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);";
  dialect.inner_loop = "#pragma unroll 4";
  return dialect;
}

}  // namespace

const Dialect& dialect_opencl_subgroups() {
  static const std::string preamble = std::string(kOpenClPreamble) + std::string(opencl_subgroup_preamble());
  static const Dialect dialect = [] {
    Dialect made = with_teams(preamble);
    // How work-items are dealt out to sub-groups is the driver's choice.
    made.thread = "(get_sub_group_id() * get_max_sub_group_size() + get_sub_group_local_id())";
    made.first_item =
        "(int64_t)get_group_id(0) * get_local_size(0) + get_sub_group_id() * get_max_sub_group_size() + "
        "get_sub_group_local_id()";
    made.meet = "sub_group_barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);";
    return made;
  }();
  return dialect;
}

const Dialect& dialect_opencl_groups() {
  static const std::string preamble = std::string(kOpenClPreamble) + std::string(opencl_group_preamble());
  static const Dialect dialect = [] {
    Dialect made = with_teams(preamble);
    made.thread = "get_local_id(0)";
    made.meet = made.meet_all;
    made.has_words = true;
    return made;
  }();
  return dialect;
}

}  // namespace crucible::sdk
