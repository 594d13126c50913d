// Kernels of all the shapes that a generator writes, compiled by NVIDIA's real compiler and run by the emulated driver,
// against the same computed here.
#include <cmath>
#include <cstring>
#include <fstream>
#include <iterator>

#include "tests/emulators/nvidia/testing/cuda_session.hpp"

namespace crucible::emulators::nvidia::testing {
namespace {

std::string read(const std::string& name) {
  std::ifstream stream(CRUCIBLE_KERNELS "/" + name);
  return std::string(std::istreambuf_iterator<char>(stream), {});
}

/// Numbers of both signs, no two neighbours alike.
std::vector<float> numbers(std::size_t count, unsigned factor, int span, float divisor) {
  std::vector<float> made(count);
  for (std::size_t i = 0; i < count; ++i) {
    made[i] =
        static_cast<float>(static_cast<int>((static_cast<unsigned>(i) * factor) >> 8) % span - span / 2) / divisor;
  }
  return made;
}

/// Cases with a text of their own.
class CudaTexts : public CudaSession {};

class EmulatedCudaKernels : public CudaSession {
 protected:
  void SetUp() override {
    CudaSession::SetUp();
    if (HasFatalFailure()) return;
    static const std::string ptx = compile_cuda(read("kernels.cu"));
    module_ = load(ptx);
    a_ = numbers(kCount, 2654435761u, 2001, 997);
    b_ = numbers(kCount, 40503u, 1999, 1013);
    device_a_ = upload(a_);
    device_b_ = upload(b_);
    out_ = allocate(kCount * sizeof(float));
  }
  static constexpr unsigned kCount = 1 << 16;
  CUmodule module_ = nullptr;
  std::vector<float> a_, b_;
  CUdeviceptr device_a_ = 0, device_b_ = 0, out_ = 0;
};

TEST_F(EmulatedCudaKernels, ElementwiseIsExact) {
  const float scale = 1.25f;
  EXPECT_CUDA(CUDA_SUCCESS, run(function(module_, "ew"), {.grid_x = kCount / 256, .block_x = 256}, out_, device_a_,
                                device_b_, scale, kCount));
  const auto got = download<float>(out_, kCount);
  for (unsigned i = 0; i < kCount; ++i) ASSERT_EQ(got[i], std::fmax(std::fma(a_[i], scale, b_[i]), 0.0f)) << i;
}

TEST_F(EmulatedCudaKernels, VectorsOfFourAreExact) {
  const float scale = 1.25f;
  EXPECT_CUDA(CUDA_SUCCESS, run(function(module_, "ew4"), {.grid_x = 7, .block_x = 96}, out_, device_a_, device_b_,
                                scale, kCount / 4));
  const auto got = download<float>(out_, kCount);
  for (unsigned i = 0; i < kCount; ++i) {
    volatile float product = a_[i] * scale;
    ASSERT_EQ(got[i], product + b_[i]) << i;
  }
}

TEST_F(EmulatedCudaKernels, GeluByTanhIsClose) {
  EXPECT_CUDA(CUDA_SUCCESS,
              run(function(module_, "gelu"), {.grid_x = kCount / 256, .block_x = 256}, out_, device_a_, kCount));
  const auto got = download<float>(out_, kCount);
  for (unsigned i = 0; i < kCount; ++i) {
    const double x = a_[i];
    ASSERT_NEAR(got[i], 0.5 * x * (1 + std::tanh(0.7978845608 * (x + 0.044715 * x * x * x))), 1e-6) << i;
  }
}

TEST_F(EmulatedCudaKernels, SoftmaxByShufflesAndSharedMemoryIsClose) {
  const int columns = 1024, rows = kCount / 1024;
  EXPECT_CUDA(CUDA_SUCCESS,
              run(function(module_, "softmax"), {.grid_x = rows, .block_x = 256, .shared_bytes = columns * 4}, out_,
                  device_a_, columns));
  const auto got = download<float>(out_, kCount);
  for (int row = 0; row < rows; ++row) {
    const float* const x = &a_[static_cast<std::size_t>(row * columns)];
    double most = -1e30, sum = 0;
    for (int i = 0; i < columns; ++i) most = std::fmax(most, x[i]);
    for (int i = 0; i < columns; ++i) sum += std::exp(x[i] - most);
    for (int i = 0; i < columns; ++i)
      ASSERT_NEAR(got[static_cast<std::size_t>(row * columns + i)] * columns, std::exp(x[i] - most) / sum * columns,
                  1e-5);
  }
}

TEST_F(EmulatedCudaKernels, TiledProductIsExact) {
  const int n = 128;
  EXPECT_CUDA(CUDA_SUCCESS,
              run(function(module_, "gemm"), {.grid_x = n / 64, .grid_y = n / 64, .block_x = 16, .block_y = 16}, out_,
                  device_a_, device_b_, n, n, n));
  const auto got = download<float>(out_, n * n);
  for (int i = 0; i < n; ++i) {
    for (int j = 0; j < n; ++j) {
      float sum = 0;
      for (int k = 0; k < n; ++k)
        sum = std::fma(a_[static_cast<std::size_t>(i * n + k)], b_[static_cast<std::size_t>(k * n + j)], sum);
      ASSERT_EQ(got[static_cast<std::size_t>(i * n + j)], sum) << i << ", " << j;
    }
  }
}

TEST_F(EmulatedCudaKernels, TranspositionThroughSharedMemory) {
  const int rows = 250, columns = 200;
  EXPECT_CUDA(CUDA_SUCCESS,
              run(function(module_, "transpose"),
                  {.grid_x = (columns + 31) / 32, .grid_y = (rows + 31) / 32, .block_x = 32, .block_y = 8}, out_,
                  device_a_, rows, columns));
  const auto got = download<float>(out_, rows * columns);
  for (int i = 0; i < rows; ++i) {
    for (int j = 0; j < columns; ++j)
      ASSERT_EQ(got[static_cast<std::size_t>(j * rows + i)], a_[static_cast<std::size_t>(i * columns + j)]);
  }
}

TEST_F(EmulatedCudaKernels, HistogramByAtomicsAndBallot) {
  std::vector<unsigned char> bytes(kCount);
  std::memcpy(bytes.data(), a_.data(), kCount);
  std::vector<unsigned> wanted(256);
  for (const unsigned char byte : bytes) ++wanted[byte];
  const CUdeviceptr counts = upload(std::vector<unsigned>(257)), sum = upload(std::vector<float>{0}),
                    evens = upload(std::vector<unsigned>{0});
  const unsigned blocks = 16, count = kCount;
  EXPECT_CUDA(CUDA_SUCCESS,
              run(function(module_, "hist"), {.grid_x = blocks, .block_x = 256}, counts, device_a_, count, sum, evens));
  auto got = download<unsigned>(counts, 257);
  EXPECT_GT(got[256], 0u);
  got.pop_back();
  EXPECT_EQ(got, wanted);
  EXPECT_EQ(download<float>(sum, 1)[0], static_cast<float>(kCount));
  EXPECT_LE(download<unsigned>(evens, 1)[0], blocks * 256);
  EXPECT_GT(download<unsigned>(evens, 1)[0], 0u);
}

TEST_F(EmulatedCudaKernels, LocalArraysDoublesAndWideIntegers) {
  const int count = 10007;
  std::vector<int> index(count);
  for (int i = 0; i < count; ++i) index[static_cast<std::size_t>(i)] = i * 7;
  const CUdeviceptr device_index = upload(index), out = allocate(count * sizeof(double));
  EXPECT_CUDA(CUDA_SUCCESS, run(function(module_, "misc"), {.grid_x = (count + 255) / 256, .block_x = 256}, out,
                                device_index, count));
  const auto got = download<double>(out, count);
  for (int i = 0; i < count; ++i) {
    double local[8], sum = 0;
    for (int k = 0; k < 8; ++k) local[k] = k * 1.5 + i;
    local[index[static_cast<std::size_t>(i)] & 7] += 100;
    for (int k = 0; k < 8; ++k) sum += local[(k + index[static_cast<std::size_t>(i)]) & 7] * (k + 1);
    const unsigned long long q = static_cast<unsigned long long>(i) * 2654435761ull;
    ASSERT_EQ(got[static_cast<std::size_t>(i)], sum + static_cast<double>(q % 1000) +
                                                    static_cast<double>(__builtin_clz(static_cast<unsigned>(i) | 1) +
                                                                        __builtin_popcount(static_cast<unsigned>(i))))
        << i;
  }
}

float value(std::uint16_t bits, bool is_bfloat) {
  if (is_bfloat) {
    const std::uint32_t wide = static_cast<std::uint32_t>(bits) << 16;
    float x = 0;
    std::memcpy(&x, &wide, 4);
    return x;
  }
  const float magnitude = (bits & 0x7c00) == 0
                              ? std::ldexp(static_cast<float>(bits & 0x3ff), -24)
                              : std::ldexp(static_cast<float>((bits & 0x3ff) | 0x400), ((bits >> 10) & 31) - 25);
  return (bits & 0x8000) != 0 ? -magnitude : magnitude;
}

TEST_F(CudaTexts, HalvesAreExact) {
  const CUmodule module = load(compile_cuda(read("half.cu")));
  const unsigned count = 4096;
  std::vector<std::uint16_t> halves(count), bfloats(count);
  for (unsigned i = 0; i < count; ++i) {
    halves[i] = static_cast<std::uint16_t>(((i * 40503u) & 0x83ff) | (12 + i % 6) << 10);  // between 2^-3 and 2^3
    bfloats[i] = static_cast<std::uint16_t>(((i * 2654435761u >> 7) & 0x807f) | (124 + i % 6) << 7);
  }
  const CUdeviceptr a = upload(halves), b = upload(bfloats), out = allocate(2 * count), out_b = allocate(2 * count);
  EXPECT_CUDA(CUDA_SUCCESS,
              run(function(module, "h16"), {.grid_x = count / 256, .block_x = 256}, out, a, b, out_b, count));
  const auto got = download<std::uint16_t>(out, count), got_b = download<std::uint16_t>(out_b, count);
  for (unsigned i = 0; i < count; ++i) {
    volatile float product = value(halves[i], false) * value(bfloats[i], true);
    const float sum = product + 1.0f, difference = value(halves[i], false) - value(bfloats[i], true);
    // Nothing between the result and what was rounded is closer: half a unit in the last place.
    ASSERT_LE(std::fabs(value(got[i], false) - sum),
              std::ldexp(1.0f, std::max(sum == 0 ? -14 : std::ilogb(sum), -14) - 11))
        << i;
    ASSERT_LE(std::fabs(value(got_b[i], true) - difference),
              difference == 0 ? 0 : std::ldexp(1.0f, std::ilogb(difference) - 8))
        << i;
  }
  EXPECT_CUDA(CUDA_SUCCESS, run(function(module, "h2"), {.grid_x = count / 512, .block_x = 256}, out, a, a, count / 2));
  const auto fused = download<std::uint16_t>(out, count);
  for (unsigned i = 0; i < count; ++i) {
    const double x = value(halves[i], false), wanted = x * x + 2 * x;  // 2 x is exact
    ASSERT_LE(std::fabs(value(fused[i], false) - wanted),
              std::ldexp(1.0, std::max(wanted == 0 ? -14 : std::ilogb(wanted), -14) - 11))
        << i;
  }
}

TEST_F(CudaTexts, PhiloxAsInTheReference) {
  const CUmodule module = load(compile_cuda(R"(
    extern "C" __global__ void philox(unsigned* o, unsigned k0, unsigned k1, unsigned n) {
      unsigned i = blockIdx.x * blockDim.x + threadIdx.x; if (i >= n) return;
      unsigned c0 = i, c1 = 0, c2 = 0, c3 = 0;
      for (int r = 0; r < 10; r++) {
        unsigned h0 = __umulhi(0xD2511F53u, c0), l0 = 0xD2511F53u * c0, h1 = __umulhi(0xCD9E8D57u, c2), l1 = 0xCD9E8D57u * c2;
        c0 = h1 ^ c1 ^ k0; c1 = l1; c2 = h0 ^ c3 ^ k1; c3 = l0; k0 += 0x9E3779B9u; k1 += 0xBB67AE85u;
      }
      o[4 * i] = c0; o[4 * i + 1] = c1; o[4 * i + 2] = c2; o[4 * i + 3] = c3;
    })"));
  const CUdeviceptr out = allocate(1024 * 16);
  EXPECT_CUDA(CUDA_SUCCESS, run(function(module, "philox"), {.grid_x = 4, .block_x = 256}, out, 0u, 0u, 1000u));
  const auto got = download<unsigned>(out, 4);
  // Random123's known answer for counter 0 and key 0.
  EXPECT_EQ(got, (std::vector<unsigned>{0x6627e8d5u, 0xe169c58du, 0xbc57ac4cu, 0x9b00dbd8u}));
  const auto all = download<unsigned>(out, 4096);
  EXPECT_EQ(all[4000], 0xcdcdcdcdu) << "a thread behind the end wrote";
}

TEST_F(CudaTexts, CallsSwitchesConstantsAndStructures) {
  const CUmodule module = load(compile_cuda(R"(
    struct Big { float x[20]; int n; };
    __constant__ float table[4] = {1, 2, 3, 4};
    __device__ int counter = 7;
    __device__ __noinline__ float square(float x, int* p) { *p += 1; return x * x + 1; }
    extern "C" __global__ void all(float* o, Big big, int k) {
      int seen[4] = {1, 2, 3, 4};
      int i = threadIdx.x;
      float y = square(big.x[i], seen + (k & 3));
      switch (i) { case 0: y += 10; break; case 1: y *= 3; break; case 2: y -= big.n; break; case 3: y = -y; break;
                   case 4: y = 0; break; case 5: y /= 2; break; default: y += 1; }
      o[i] = y + table[i & 3] + seen[k & 3];
      if (i == 0) counter += big.n;
    })"));
  struct {
    float x[20];
    int n;
  } big = {};
  for (int i = 0; i < 20; ++i) big.x[i] = static_cast<float>(i) * 0.5f;
  big.n = 5;
  const CUdeviceptr out = allocate(8 * 4);
  EXPECT_CUDA(CUDA_SUCCESS, run(function(module, "all"), {.block_x = 8}, out, big, 2));
  const auto got = download<float>(out, 8);
  for (int i = 0; i < 8; ++i) {
    float y = big.x[i] * big.x[i] + 1;
    const float cases[] = {y + 10, y * 3, y - 5, -y, 0, y / 2, y + 1, y + 1};
    EXPECT_EQ(got[static_cast<std::size_t>(i)], cases[i] + static_cast<float>((i & 3) + 1) + 4) << i;
  }
  CUdeviceptr counter = 0;
  std::size_t bytes = 0;
  ASSERT_CUDA(cuModuleGetGlobal(&counter, &bytes, module, "counter"));
  EXPECT_EQ(bytes, 4u);
  EXPECT_EQ(download<int>(counter, 1)[0], 12);
}

TEST_F(CudaTexts, LanesTalk) {
  const CUmodule module = load(compile_cuda(R"(
    extern "C" __global__ void lanes(unsigned* o) {
      unsigned l = threadIdx.x & 31, w = threadIdx.x / 32, v = threadIdx.x * 3 + 1;
      unsigned* r = o + threadIdx.x * 12;
      r[0] = __shfl_sync(~0u, v, 5); r[1] = __shfl_up_sync(~0u, v, 3); r[2] = __shfl_down_sync(~0u, v, 4); r[3] = __shfl_xor_sync(~0u, v, 9);
      r[4] = __ballot_sync(~0u, l % 3 == w); r[5] = __any_sync(~0u, l == 7 && w == 1); r[6] = __all_sync(~0u, w == 0);
      r[7] = __reduce_add_sync(~0u, v); r[8] = __reduce_max_sync(~0u, l ^ 21); r[9] = __match_any_sync(~0u, l / 8);
      r[10] = __shfl_sync(~0u, v, 1, 8);
      r[11] = l < 16 ? __reduce_min_sync(0xffffu, v) : 0;
    }
    extern "C" __global__ void counts(int* o) {
      int i = threadIdx.x;
      o[i] = __syncthreads_count(i % 3 == 0) + 1000 * __syncthreads_and(i < 96) + 10000 * __syncthreads_or(i == 5) + 100000 * __syncthreads_count(i < 10);
    })"));
  const CUdeviceptr out = allocate(64 * 12 * 4);
  EXPECT_CUDA(CUDA_SUCCESS, run(function(module, "lanes"), {.block_x = 64}, out));
  const auto got = download<unsigned>(out, 64 * 12);
  for (unsigned t = 0; t < 64; ++t) {
    const unsigned lane = t & 31, warp = t / 32, first = warp * 32;
    const auto give = [&](unsigned from) { return (first + from) * 3 + 1; };
    unsigned ballot = 0, sum = 0;
    for (unsigned i = 0; i < 32; ++i) ballot |= static_cast<unsigned>(i % 3 == warp) << i, sum += give(i);
    const std::vector<unsigned> wanted = {give(5),
                                          give(lane < 3 ? lane : lane - 3),
                                          give(lane + 4 > 31 ? lane : lane + 4),
                                          give(lane ^ 9),
                                          ballot,
                                          warp == 1,
                                          warp == 0,
                                          sum,
                                          31,
                                          0xffu << (lane / 8 * 8),
                                          give((lane & ~7u) + 1),
                                          lane < 16 ? give(0) : 0};
    EXPECT_EQ(std::vector<unsigned>(&got[t * 12], &got[t * 12] + 12), wanted) << "thread " << t;
  }
  const CUdeviceptr sums = allocate(100 * 4);
  EXPECT_CUDA(CUDA_SUCCESS, run(function(module, "counts"), {.block_x = 100}, sums));
  EXPECT_EQ(download<int>(sums, 100), std::vector<int>(100, 34 + 10000 + 1000000));
}

TEST_F(CudaTexts, AtomicsOfAllKinds) {
  const CUmodule module = load(compile_cuda(R"(
    #include <cuda_fp16.h>
    extern "C" __global__ void all(unsigned* u, int* s, unsigned long long* l, float* f, double* d, __half2* h) {
      unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
      atomicAdd(u, 1u); atomicSub(u + 1, 2u); atomicMax(u + 2, i * 7 % 1000); atomicMin(u + 3, i + 5); atomicAnd(u + 4, ~(1u << i % 32));
      atomicOr(u + 5, 1u << i % 20); atomicXor(u + 6, i); atomicInc(u + 7, 9u); atomicDec(u + 8, 9u); atomicExch(u + 9, 3u);
      if (atomicCAS(u + 10, 0u, 77u) == 0u) atomicAdd(u + 11, 1u);
      atomicMin(s, -(int)i); atomicMax(s + 1, (int)i - 5000); atomicAdd(s + 2, -3);
      atomicAdd(l, 1ull << 40); atomicMax(l + 1, (unsigned long long)i << 33); atomicCAS(l + 2, 5ull, 6ull);
      atomicAdd(f, 0.5f); atomicAdd(d, 0.25); atomicAdd(h, __floats2half2_rn(1.f, -1.f));
    })"));
  std::vector<unsigned> u(12);
  u[3] = u[4] = ~0u;
  const unsigned n = 1024;
  const CUdeviceptr du = upload(u), ds = upload(std::vector<int>{0, -100000, 0}),
                    dl = upload(std::vector<unsigned long long>{0, 0, 5}), df = upload(std::vector<float>{0}),
                    dd = upload(std::vector<double>{0}), dh = upload(std::vector<unsigned>{0});
  EXPECT_CUDA(CUDA_SUCCESS, run(function(module, "all"), {.grid_x = n / 64, .block_x = 64}, du, ds, dl, df, dd, dh));
  std::vector<unsigned> wanted(12);
  wanted[3] = wanted[4] = ~0u;
  for (unsigned i = 0; i < n; ++i) {
    wanted[2] = std::max(wanted[2], i * 7 % 1000);
    wanted[6] ^= i;
    wanted[7] = wanted[7] >= 9 ? 0 : wanted[7] + 1;
    wanted[8] = wanted[8] == 0 || wanted[8] > 9 ? 9 : wanted[8] - 1;
  }
  wanted[0] = n;
  wanted[1] = 0u - 2 * n;
  wanted[3] = 5;
  wanted[4] = 0;
  wanted[5] = (1u << 20) - 1;
  wanted[9] = 3;
  wanted[10] = 77;
  wanted[11] = 1;
  EXPECT_EQ(download<unsigned>(du, 12), wanted);
  EXPECT_EQ(download<int>(ds, 3), (std::vector<int>{-1023, 1023 - 5000, -3 * 1024}));
  EXPECT_EQ(download<unsigned long long>(dl, 3), (std::vector<unsigned long long>{1ull << 50, 1023ull << 33, 6}));
  EXPECT_EQ(download<float>(df, 1)[0], 512.0f);
  EXPECT_EQ(download<double>(dd, 1)[0], 256.0);
  EXPECT_EQ(download<unsigned>(dh, 1)[0], 0xe4006400u) << "1024 and -1024";
}

TEST_F(CudaTexts, TheMathLibraryIsClose) {
  const CUmodule module = load(compile_cuda(R"(
    extern "C" __global__ void floats(float* o, const float* a, int n) {
      int i = threadIdx.x; if (i >= n) return; float x = a[i];
      float r[] = {sinf(x), cosf(x), tanf(x), expf(x), exp2f(x), logf(fabsf(x)), log2f(fabsf(x)), tanhf(x), erff(x), sqrtf(fabsf(x)), rsqrtf(fabsf(x)), cbrtf(x),
                   powf(fabsf(x), 1.3f), atanf(x), floorf(x), rintf(x), fmodf(x, 0.7f), expm1f(x), log1pf(fabsf(x)), lgammaf(fabsf(x))};
      for (int k = 0; k < 20; k++) o[i * 20 + k] = r[k];
    }
    extern "C" __global__ void doubles(double* o, const float* a, int n) {
      int i = threadIdx.x; if (i >= n) return; double x = a[i];
      double r[] = {sin(x), cos(x), exp(x), log(fabs(x)), tanh(x), erf(x), sqrt(fabs(x)), 1 / sqrt(fabs(x)), pow(fabs(x), 1.3), x / 3, fma(x, x, -1.0), rint(x)};
      for (int k = 0; k < 12; k++) o[i * 12 + k] = r[k];
    })"));
  const std::vector<float> values = {0.01f,  -0.5f, 0.75f,  1.0f,     -1.5f,    3.0f,
                                     -7.25f, 12.5f, 100.0f, -1000.5f, 20000.75f};
  const int n = static_cast<int>(values.size());
  const CUdeviceptr a = upload(values), out = allocate(values.size() * 20 * 4), wide = allocate(values.size() * 12 * 8);
  EXPECT_CUDA(CUDA_SUCCESS, run(function(module, "floats"), {.block_x = 32}, out, a, n));
  EXPECT_CUDA(CUDA_SUCCESS, run(function(module, "doubles"), {.block_x = 32}, wide, a, n));
  const auto got = download<float>(out, values.size() * 20);
  const auto got_wide = download<double>(wide, values.size() * 12);
  for (std::size_t i = 0; i < values.size(); ++i) {
    const double x = values[i], y = std::fabs(x);
    const double wanted[] = {std::sin(x),
                             std::cos(x),
                             std::tan(x),
                             std::exp(x),
                             std::exp2(x),
                             std::log(y),
                             std::log2(y),
                             std::tanh(x),
                             std::erf(x),
                             std::sqrt(y),
                             1 / std::sqrt(y),
                             std::cbrt(x),
                             std::pow(y, static_cast<double>(1.3f)),
                             std::atan(x),
                             std::floor(x),
                             std::rint(x),
                             std::fmod(x, static_cast<double>(0.7f)),
                             std::expm1(x),
                             std::log1p(y),
                             std::lgamma(y)};
    for (std::size_t k = 0; k < 20; ++k) {
      const float near = static_cast<float>(wanted[k]);
      if (std::isinf(near)) {
        EXPECT_EQ(got[i * 20 + k], near) << "function " << k << " of " << x;
      } else {
        EXPECT_NEAR(got[i * 20 + k], wanted[k], 2e-6 * std::fabs(wanted[k]) + 1e-7) << "function " << k << " of " << x;
      }
    }
    const double doubles[] = {std::sin(x),      std::cos(x), std::exp(x),          std::log(y),
                              std::tanh(x),     std::erf(x), std::sqrt(y),         1 / std::sqrt(y),
                              std::pow(y, 1.3), x / 3,       std::fma(x, x, -1.0), std::rint(x)};
    for (std::size_t k = 0; k < 12; ++k) {
      if (std::isinf(doubles[k])) {
        EXPECT_EQ(got_wide[i * 12 + k], doubles[k]);
      } else {
        EXPECT_NEAR(got_wide[i * 12 + k], doubles[k], 4e-15 * std::fabs(doubles[k]) + 1e-300)
            << "double function " << k << " of " << x;
      }
    }
  }
}

TEST_F(CudaTexts, AsynchronousCopiesToSharedMemory) {
  const CUmodule module = load(compile_cuda(R"(
    extern "C" __global__ void k(float* a) {
      __shared__ float s[128];
      unsigned p = __cvta_generic_to_shared(&s[threadIdx.x * 4]);
      asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" :: "r"(p), "l"(a + threadIdx.x * 4));
      asm volatile("cp.async.commit_group; cp.async.wait_group 0;");
      __syncthreads();
      a[threadIdx.x] = s[127 - threadIdx.x] * 2;
    })"));
  const auto values = numbers(128, 2654435761u, 2001, 997);
  const CUdeviceptr a = upload(values);
  EXPECT_CUDA(CUDA_SUCCESS, run(function(module, "k"), {.block_x = 32}, a));
  const auto got = download<float>(a, 32);
  for (std::size_t i = 0; i < 32; ++i) EXPECT_EQ(got[i], values[127 - i] * 2);
}

TEST_F(CudaTexts, WhatTheEmulatorLacksIsNamed) {
  const std::pair<const char*, const char*> texts[] = {
      {R"(extern "C" __global__ void k(int* a) { printf("x %d\n", a[0]); })", "vprintf"},
      {R"(extern "C" __global__ void k(unsigned* a) { unsigned d, e; asm volatile("mma.sync.aligned.m8n8k16.row.col.s32.s8.s8.s32 {%0,%1},{%2},{%3},{%4,%5};"
          : "=r"(d), "=r"(e) : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3])); a[0] = d; })",
       "mma.sync.aligned.m8n8k16.row.col.s32.s8.s8.s32"},
      {R"(extern "C" __global__ void k(void (**f)(int)) { f[0](threadIdx.x); })", "pointer"},
  };
  for (const auto& [text, name] : texts) {
    CUmodule module = nullptr;
    std::string log;
    const std::string declared = std::string("extern \"C\" __device__ int printf(const char*, ...);\n") + text;
    EXPECT_CUDA(CUDA_ERROR_INVALID_PTX, load(compile_cuda(declared), &module, &log));
    EXPECT_NE(log.find(name), std::string::npos) << log;
  }
}

}  // namespace
}  // namespace crucible::emulators::nvidia::testing
