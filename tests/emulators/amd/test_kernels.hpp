// HIP texts of the tests: the shapes that a generator of kernels writes.
#pragma once

namespace crucible::emulator {

inline constexpr const char* kElementwise = R"(
#include <hip/hip_runtime.h>
#define GLOBAL_ID ((int64_t)blockIdx.x * blockDim.x + threadIdx.x)
typedef long int64_t;
extern "C" __global__ void scale(float* __restrict__ out, const float* __restrict__ a, float factor, int64_t count) {
  for (int64_t i = GLOBAL_ID; i < count; i += (int64_t)gridDim.x * blockDim.x) out[i] = fmaf(a[i], factor, 1.0f);
}
// Attributes and double scalars, as the SDK's dialect prints them.
#pragma clang fp contract(off)
static __attribute__((device)) inline __attribute__((always_inline, unused)) float twice(float x) { return x + x; }
extern "C" __attribute__((global)) void doubled(float* b0, const float* b1, double s0, int64_t begin, int64_t end) {
  for (int64_t v0 = begin + (int64_t)blockIdx.x * blockDim.x + threadIdx.x; v0 < end; v0 += (int64_t)gridDim.x * blockDim.x) {
    b0[v0] = twice(b1[v0]) * (float)s0;
  }
}
// An index in a function that is no kernel.
__device__ static int where() { return blockIdx.x * blockDim.x + threadIdx.x; }
extern "C" __global__ void places(int* out) { out[where()] = where() * 10 + (int)(blockIdx.y * gridDim.x + threadIdx.y); }
)";

inline constexpr const char* kReductions = R"(
/* A sum by a tree in shared memory: static, and dynamic behind it. */
extern "C" __global__ void __launch_bounds__(256) block_sums(float* out, const float* a, int count) {
  __shared__ float part[256];
  extern __shared__ float kept[];
  const int t = threadIdx.x;
  float sum = 0;
  for (int i = blockIdx.x * 256 + t; i < count; i += gridDim.x * 256) sum += a[i];
  part[t] = sum;
  kept[t] = sum;
  __syncthreads();
  for (int half = 128; half > 0; half >>= 1) {
    if (t < half) part[t] += part[t + half];
    __syncthreads();
  }
  if (t == 0) out[blockIdx.x] = part[0] + kept[255] - kept[255];
}
// Softmax of rows: shuffles in a wave, shared memory across waves.
extern "C" __global__ void softmax(float* out, const float* a, int columns) {
  extern __shared__ float row[];
  __shared__ float part[32];
  const float* from = a + (size_t)blockIdx.x * columns;
  float most = -3.0e38f;
  for (int i = threadIdx.x; i < columns; i += blockDim.x) most = fmaxf(most, row[i] = from[i]);
  const int lane = threadIdx.x % warpSize, wave = threadIdx.x / warpSize, waves = blockDim.x / warpSize;
  for (int k = warpSize / 2; k > 0; k >>= 1) most = fmaxf(most, __shfl_xor(most, k));
  if (lane == 0) part[wave] = most;
  __syncthreads();
  for (int w = 0; w < waves; ++w) most = fmaxf(most, part[w]);
  __syncthreads();
  float sum = 0;
  for (int i = threadIdx.x; i < columns; i += blockDim.x) sum += row[i] = expf(row[i] - most);
  for (int k = warpSize / 2; k > 0; k >>= 1) sum += __shfl_down(sum, k);
  if (lane == 0) part[wave] = sum;
  __syncthreads();
  sum = 0;
  for (int w = 0; w < waves; ++w) sum += part[w];
  for (int i = threadIdx.x; i < columns; i += blockDim.x) out[(size_t)blockIdx.x * columns + i] = row[i] / sum;
}
extern "C" __global__ void waves(unsigned long long* ballots, int* values, double* doubles) {
  const int t = threadIdx.x, lane = t % warpSize;
  ballots[t] = __ballot(lane % 3 == 0);
  int odd = -1;
  if (lane % 2) odd = __shfl(lane, 1) * 1000 + __shfl_up(lane, 2) + (__all(lane % 2) ? 500000 : 0);
  values[t] = odd;
  doubles[t] = __shfl_xor((double)t, 1) + 0.25 * __shfl(t, 3, 4) + (__any(lane == 5) ? 0 : 1e9);
  // The word of the lane half a wave on, by its place in bytes.
  values[t] += 7000000 * __builtin_amdgcn_ds_bpermute((lane ^ (warpSize / 2)) * 4, lane);
}
)";

inline constexpr const char* kGemm = R"(
// 32 x 32 tiles, 16 x 16 threads of 2 x 2 each, two buffers in shared memory.
extern "C" __global__ void __launch_bounds__(256) gemm(float* c, const float* a, const float* b, int m, int n, int k) {
  __shared__ float as[2][16][32], bs[2][16][32];
  const int tx = threadIdx.x, ty = threadIdx.y, t = ty * 16 + tx, row = blockIdx.y * 32, column = blockIdx.x * 32;
  float sum[2][2] = {};
  int buffer = 0;
  auto load = [&](int to, int k0) {
    for (int i = t; i < 512; i += 256) {
      as[to][i % 16][i / 16] = a[(size_t)(row + i / 16) * k + k0 + i % 16];
      bs[to][i / 32][i % 32] = b[(size_t)(k0 + i / 32) * n + column + i % 32];
    }
  };
  load(0, 0);
  __syncthreads();
  for (int k0 = 0; k0 < k; k0 += 16) {
    if (k0 + 16 < k) load(buffer ^ 1, k0 + 16);
    for (int q = 0; q < 16; ++q) {
      for (int i = 0; i < 2; ++i) {
        for (int j = 0; j < 2; ++j) sum[i][j] = fmaf(as[buffer][q][ty * 2 + i], bs[buffer][q][tx * 2 + j], sum[i][j]);
      }
    }
    buffer ^= 1;
    __syncthreads();
  }
  for (int i = 0; i < 2; ++i) {
    for (int j = 0; j < 2; ++j) c[(size_t)(row + ty * 2 + i) * n + column + tx * 2 + j] = sum[i][j];
  }
}
)";

inline constexpr const char* kAtomics = R"(
extern "C" __global__ void histogram(unsigned* counts, const unsigned char* a, unsigned n, unsigned long long* total, float* sum,
                                     int* most) {
  __shared__ unsigned mine[256];
  mine[threadIdx.x] = 0;
  __syncthreads();
  for (unsigned i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) atomicAdd(&mine[a[i]], 1);
  __syncthreads();
  atomicAdd(&counts[threadIdx.x], mine[threadIdx.x]);
  atomicAdd(total, mine[threadIdx.x]);
  atomicAdd(sum, (float)mine[threadIdx.x]);
  atomicMax(most, (int)mine[threadIdx.x]);
}
extern "C" __global__ void first_come(int* owner, int* won) {
  if (atomicCAS(owner, -1, (int)(blockIdx.x * blockDim.x + threadIdx.x)) == -1) atomicAdd(won, 1);
}
)";

inline constexpr const char* kHalf = R"(
#include <hip/hip_fp16.h>
struct Scaling { float factor; _Float16* table; int count; };
extern "C" __global__ void half_scale(__half* out, const __half* a, Scaling s) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < s.count) out[i] = __float2half(__half2float(a[i]) * s.factor) + s.table[i % 4];
}
// A table of buffers in device memory.
extern "C" __global__ void table(float* const* buffers, int count, int length) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  float sum = 0;
  for (int b = 1; b < count; ++b) sum += i < length ? buffers[b][i] : 0;
  if (i < length) buffers[0][i] = sum;
}
)";

inline constexpr const char* kBad = R"(
extern "C" __global__ void wild(float* a, long at) { a[at] = 1; }
extern "C" __global__ void wild_behind_a_barrier(float* a, long at) { __syncthreads(); a[at] = 1; }
// Two barriers that wait for each other.
extern "C" __global__ void divergent(int* out) {
  if (threadIdx.x % 2) {
    out[threadIdx.x] = 1;
    __syncthreads();
  } else {
    __syncthreads();
    out[threadIdx.x] = 2;
  }
}
// The second half has ended when the first comes to the barrier: that is allowed.
extern "C" __global__ void half_ended(int* out) {
  if (threadIdx.x >= 32) return;
  __syncthreads();
  out[threadIdx.x] = 3;
}
extern "C" __global__ void trap(int* out) { if (threadIdx.x == 7) __builtin_trap(); out[threadIdx.x] = 1; }
extern "C" __global__ void shared_overrun(int* out, int at) {
  extern __shared__ int words[];
  words[at] = 1;
  __syncthreads();
  out[threadIdx.x] = words[0];
}
)";

}  // namespace crucible::emulator
