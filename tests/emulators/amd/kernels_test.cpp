// Kernels of every shape on the emulated device, with waves of 64 and of 32, against the same sums on the host.
#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>

#include "tests/emulators/amd/test_kernels.hpp"
#include "tests/emulators/amd/testing.hpp"

namespace crucible::emulator {
namespace {

std::vector<float> numbers(std::size_t count, unsigned seed) {
  std::vector<float> values(count);
  for (std::size_t i = 0; i < count; ++i) {
    values[i] = static_cast<float>(static_cast<int>((i * 2654435761u + seed * 40503u) >> 7) % 2001 - 1000) / 997;
  }
  return values;
}

class EmulatedHipKernels : public HipTest, public ::testing::WithParamInterface<const char*> {
 protected:
  void SetUp() override {
    set("CRUCIBLE_EMU_WAVE", GetParam());
    wave_ = std::atoi(GetParam());
  }
  int wave_ = 0;
};
INSTANTIATE_TEST_SUITE_P(Waves, EmulatedHipKernels, ::testing::Values("64", "32"),
                         [](const auto& info) { return std::string(info.param); });

TEST_P(EmulatedHipKernels, Elementwise) {
  const std::vector<float> a = numbers(100'003, 1);
  float* const in = upload(a);
  float* const out = allocate<float>(a.size());
  const auto count = static_cast<std::int64_t>(a.size());
  ASSERT_HIP_OK(launch(kernel(kElementwise, "scale"), {.grid_x = 37, .block_x = 256}, out, in, 1.25f, count));
  std::vector<float> result = download(out, a.size());
  for (std::size_t i = 0; i < a.size(); ++i) ASSERT_EQ(result[i], std::fma(a[i], 1.25f, 1.0f)) << i;
  ASSERT_HIP_OK(
      launch(kernel(kElementwise, "doubled"), {.grid_x = 400, .block_x = 256}, out, in, 3.0, std::int64_t{5}, count));
  std::vector<float> doubled = download(out, a.size());
  for (std::size_t i = 0; i < a.size(); ++i) ASSERT_EQ(doubled[i], i < 5 ? result[i] : 2 * a[i] * 3.0f) << i;
}

TEST_P(EmulatedHipKernels, IndicesInFunctionsAndInTwoDimensions) {
  int* const out = allocate<int>(4 * 8);
  ASSERT_HIP_OK(launch(kernel(kElementwise, "places"), {.grid_x = 4, .block_x = 8}, out));
  const std::vector<int> result = download(out, 32);
  for (int i = 0; i < 32; ++i) EXPECT_EQ(result[i], i * 10);
  ASSERT_HIP_OK(launch(kernel(kElementwise, "places"), {.grid_x = 4, .grid_y = 2, .block_x = 8, .block_y = 3}, out));
  for (const int value : download(out, 32)) EXPECT_LE(value % 10, 6);
}

TEST_P(EmulatedHipKernels, ReductionWithBarriersInStaticAndDynamicSharedMemory) {
  const std::vector<float> a = numbers(10'000, 2);
  float* const in = upload(a);
  float* const out = allocate<float>(3);
  const hipFunction_t sums = kernel(kReductions, "block_sums");
  ASSERT_HIP_OK(launch(sums, {.grid_x = 3, .block_x = 256, .shared = 1024}, out, in, 10'000));
  float expected[3] = {};
  for (int block = 0; block < 3; ++block) {
    float part[256] = {};
    for (int t = 0; t < 256; ++t) {
      for (int i = block * 256 + t; i < 10'000; i += 768) part[t] += a[i];
    }
    for (int half = 128; half > 0; half /= 2) {
      for (int t = 0; t < half; ++t) part[t] += part[t + half];
    }
    expected[block] = part[0];
  }
  const std::vector<float> result = download(out, 3);
  for (int block = 0; block < 3; ++block) EXPECT_NEAR(result[block], expected[block], 1e-5) << block;
  int shared = 0;
  EXPECT_HIP(hip().hipFuncGetAttribute(&shared, HIP_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES, sums));
  EXPECT_EQ(shared, 1024);
  int threads = 0;
  EXPECT_HIP(hip().hipFuncGetAttribute(&threads, HIP_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, sums));
  EXPECT_EQ(threads, 256);
}

TEST_P(EmulatedHipKernels, SoftmaxWithShuffles) {
  constexpr int kRows = 20, kColumns = 777;
  const std::vector<float> a = numbers(kRows * kColumns, 3);
  float* const in = upload(a);
  float* const out = allocate<float>(a.size());
  ASSERT_HIP_OK(launch(kernel(kReductions, "softmax"), {.grid_x = kRows, .block_x = 256, .shared = kColumns * 4}, out,
                       in, kColumns));
  const std::vector<float> result = download(out, a.size());
  for (int r = 0; r < kRows; ++r) {
    double sum = 0;
    for (int i = 0; i < kColumns; ++i) sum += std::exp(static_cast<double>(a[r * kColumns + i]));
    for (int i = 0; i < kColumns; ++i) {
      ASSERT_NEAR(result[r * kColumns + i] * sum, std::exp(static_cast<double>(a[r * kColumns + i])), 1e-4)
          << r << " " << i;
    }
  }
}

TEST_P(EmulatedHipKernels, BallotsAndShufflesOfAWave) {
  constexpr int kThreads = 128;
  auto* const ballots = allocate<unsigned long long>(kThreads);
  int* const values = allocate<int>(kThreads);
  double* const doubles = allocate<double>(kThreads);
  ASSERT_HIP_OK(launch(kernel(kReductions, "waves"), {.block_x = kThreads}, ballots, values, doubles));
  unsigned long long thirds = 0;
  for (int lane = 0; lane < wave_; lane += 3) thirds |= 1ull << lane;
  const auto ballot = download(ballots, kThreads);
  const auto value = download(values, kThreads);
  const auto number = download(doubles, kThreads);
  for (int t = 0; t < kThreads; ++t) {
    const int lane = t % wave_;
    EXPECT_EQ(ballot[t], thirds);
    EXPECT_EQ(value[t],
              (lane % 2 ? 1000 + (lane >= 2 ? lane - 2 : lane) + 500'000 : -1) + 7'000'000 * (lane ^ (wave_ / 2)))
        << t;
    EXPECT_EQ(number[t], (t ^ 1) + 0.25 * (t - t % 4 + 3)) << t;
  }
}

TEST_P(EmulatedHipKernels, TiledGemm) {
  constexpr int kM = 64, kN = 96, kK = 80;
  const std::vector<float> a = numbers(kM * kK, 4), b = numbers(kK * kN, 5);
  float* const c = allocate<float>(kM * kN);
  ASSERT_HIP_OK(launch(kernel(kGemm, "gemm"), {.grid_x = kN / 32, .grid_y = kM / 32, .block_x = 16, .block_y = 16}, c,
                       upload(a), upload(b), kM, kN, kK));
  const std::vector<float> result = download(c, kM * kN);
  for (int i = 0; i < kM; ++i) {
    for (int j = 0; j < kN; ++j) {
      float sum = 0;
      for (int q = 0; q < kK; ++q) sum = std::fma(a[i * kK + q], b[q * kN + j], sum);
      ASSERT_EQ(result[i * kN + j], sum) << i << " " << j;
    }
  }
}

TEST_P(EmulatedHipKernels, Atomics) {
  constexpr unsigned kBytes = 50'000;
  std::vector<unsigned char> a(kBytes);
  std::vector<unsigned> expected(256);
  for (unsigned i = 0; i < kBytes; ++i) ++expected[a[i] = static_cast<unsigned char>(i * 2654435761u >> 13)];
  unsigned* const counts = upload(std::vector<unsigned>(256));
  auto* const total = upload(std::vector<unsigned long long>(1));
  float* const sum = upload(std::vector<float>(1));
  int* const most = upload(std::vector<int>(1));
  ASSERT_HIP_OK(launch(kernel(kAtomics, "histogram"), {.grid_x = 13, .block_x = 256}, counts, upload(a), kBytes, total,
                       sum, most));
  EXPECT_EQ(download(counts, 256), expected);
  EXPECT_EQ(download(total, 1)[0], kBytes);
  EXPECT_EQ(download(sum, 1)[0], static_cast<float>(kBytes));
  EXPECT_GE(download(most, 1)[0], static_cast<int>(*std::ranges::max_element(expected)) / 13);
  int* const owner = upload(std::vector<int>{-1});
  int* const won = upload(std::vector<int>{0});
  ASSERT_HIP_OK(launch(kernel(kAtomics, "first_come"), {.grid_x = 40, .block_x = 64}, owner, won));
  EXPECT_EQ(download(won, 1)[0], 1);
  EXPECT_GE(download(owner, 1)[0], 0);
}

TEST_P(EmulatedHipKernels, HalfPrecisionAndAStructWithAPointer) {
  struct Scaling {
    float factor;
    std::uint16_t* table;
    int count;
  };
  // 1, -2, the largest, the smallest subnormal, 0.1 rounded, 2049 is not one: bits, because GCC 12 has no _Float16 in
  // C++.
  const std::vector<std::uint16_t> a = {0x3c00, 0xc000, 0x7bff, 0x0001, 0x2e66}, table = {0, 0x3c00, 0, 0x8000};
  std::uint16_t* const out = upload(std::vector<std::uint16_t>(5));
  const Scaling scaling = {2.0f, upload(table), 5};
  ASSERT_HIP_OK(launch(kernel(kHalf, "half_scale"), {.block_x = 64}, out, upload(a), scaling));
  // 2, -4 + 1 = -3, infinity, twice the subnormal, 0.2
  EXPECT_EQ(download(out, 5), (std::vector<std::uint16_t>{0x4000, 0xc200, 0x7c00, 0x0002, 0x3266}));
}

TEST_P(EmulatedHipKernels, ATableOfBuffersInDeviceMemory) {
#if !defined(__x86_64__)
  GTEST_SKIP() << "x86-64 only";
#endif
  std::vector<float*> buffers;
  for (unsigned i = 0; i < 30; ++i) buffers.push_back(upload(numbers(100, i)));
  ASSERT_HIP_OK(launch(kernel(kHalf, "table"), {.grid_x = 2, .block_x = 64}, upload(buffers), 30, 100));
  const std::vector<float> result = download(buffers[0], 100);
  std::vector<float> expected(100);
  for (unsigned b = 1; b < 30; ++b) {
    const std::vector<float> values = numbers(100, b);
    for (int i = 0; i < 100; ++i) expected[i] += values[i];
  }
  EXPECT_EQ(result, expected);
}

TEST_P(EmulatedHipKernels, ArgumentsInABuffer) {
  const std::vector<float> a = numbers(100, 1);
  struct {
    float* out;
    float* in;
    float factor;
    std::int64_t count;
  } arguments = {allocate<float>(100), upload(a), 2.0f, 100};
  std::size_t size = sizeof arguments;
  void* extra[] = {HIP_LAUNCH_PARAM_BUFFER_POINTER, &arguments, HIP_LAUNCH_PARAM_BUFFER_SIZE, &size,
                   HIP_LAUNCH_PARAM_END};
  const hipFunction_t scale = kernel(kElementwise, "scale");
  EXPECT_HIP(hip().hipModuleLaunchKernel(scale, 1, 1, 1, 128, 1, 1, 0, nullptr, nullptr, extra));
  EXPECT_EQ(download(arguments.out, 100)[99], a[99] * 2 + 1);
  size = 24;
  EXPECT_HIP_ERROR(hip().hipModuleLaunchKernel(scale, 1, 1, 1, 128, 1, 1, 0, nullptr, nullptr, extra),
                   hipErrorInvalidValue);
}

TEST_P(EmulatedHipKernels, SharedMemoryIsNotZeroAtFirst) {
  const char* const text = R"(extern "C" __global__ void fresh(unsigned* out) {
    __shared__ unsigned own[64];
    extern __shared__ unsigned given[];
    out[threadIdx.x] = own[threadIdx.x] & given[threadIdx.x];
    __syncthreads();
    own[threadIdx.x] = given[threadIdx.x] = 0;
  })";
  unsigned* const out = allocate<unsigned>(64);
  const hipFunction_t fresh = kernel(text, "fresh");
  for (int round = 0; round < 2; ++round) {
    ASSERT_HIP_OK(launch(fresh, {.grid_x = 5, .block_x = 64, .shared = 256}, out));
    for (const unsigned word : download(out, 64)) EXPECT_EQ(word, 0xCDCDCDCDu);
  }
}

}  // namespace
}  // namespace crucible::emulator
