// Races on shared memory, under CRUCIBLE_EMU_RACES=on: kernels by NVIDIA's real compiler with a barrier left out.
#include <gmock/gmock.h>

#include <cstdlib>
#include <fstream>
#include <iterator>

#include "tests/emulators/nvidia/testing/cuda_session.hpp"

namespace crucible::emulators::nvidia::testing {
namespace {

using ::testing::ContainsRegex;
using ::testing::HasSubstr;

std::string kernels() {
  std::ifstream stream(CRUCIBLE_KERNELS "/kernels.cu");
  return std::string(std::istreambuf_iterator<char>(stream), {});
}

class EmulatedCudaRaces : public CudaSession {
 protected:
  static void SetUpTestSuite() { setenv("CRUCIBLE_EMU_RACES", "on", 1); }

  /// Launches; what the driver says on standard error.
  template <typename... Arguments>
  std::string race_of(const std::string& text, const char* name, Shape shape, Arguments... arguments) {
    const CUfunction kernel = function(load(compile_cuda(text)), name);
    ::testing::internal::CaptureStderr();
    const CUresult code = run(kernel, shape, arguments...);
    const std::string said = ::testing::internal::GetCapturedStderr();
    EXPECT_EQ(name_of(code), said.empty() ? "CUDA_SUCCESS" : "CUDA_ERROR_LAUNCH_FAILED");
    return said;
  }
  std::string product(const std::string& text) {
    const CUdeviceptr a = upload(std::vector<float>(64 * 64, 1.0f)), c = allocate(64 * 64 * 4);
    return race_of(text, "gemm", {.block_x = 16, .block_y = 16}, c, a, a, 64, 64, 64);
  }
};

TEST_F(EmulatedCudaRaces, ALostBarrierInATiledProductIsFound) {
  const std::string whole = kernels();
  EXPECT_EQ(product(whole), "");
  const std::string inner = "As[buf][i&15][i>>4]=ra[j]; Bs[buf][i>>6][i&63]=rb[j]; } }\n    __syncthreads();",
                    first = "__syncthreads();\n  for(int k0=0;";
  for (const std::string& place : {inner, first}) {
    std::string lost = whole;
    const std::size_t at = lost.find(place);
    ASSERT_NE(at, std::string::npos);
    lost.replace(lost.find("__syncthreads();", at), 16, "");
    const std::string said = product(lost);
    EXPECT_THAT(said, HasSubstr("race: kernel gemm, block (0, 0, 0): thread ("));
    EXPECT_THAT(said, ContainsRegex("thread \\([0-9]+, [0-9]+, 0\\) (reads|writes) shared byte 0x[0-9a-f]+, which "
                                    "thread \\([0-9]+, [0-9]+, 0\\) (wrote|read)"));
    ASSERT_CUDA(cuDevicePrimaryCtxReset(0));
  }
}

TEST_F(EmulatedCudaRaces, TheLineNamesBothThreadsAndTheByte) {
  const std::string said = race_of(R"(extern "C" __global__ void k(int* out, int i, int j) {
    __shared__ int a[64];
    if (threadIdx.x == 5) a[i] = 1;
    if (threadIdx.x == 40) out[0] = a[j];
  })", "k", {.block_x = 64}, allocate(4), 3, 3);
  EXPECT_EQ(said,
            "crucible emulator: race: kernel k, block (0, 0, 0): thread (40, 0, 0) reads shared byte 0xc, which thread "
            "(5, 0, 0) wrote, with no barrier "
            "between them\n");
}

TEST_F(EmulatedCudaRaces, DynamicSharedMemoryBehindAGenericPointer) {
  const std::string said = race_of(R"(__device__ __noinline__ void put(int* p, int v) { *p = v; }
  extern "C" __global__ void k() {
    extern __shared__ int a[];
    put(&a[threadIdx.x / 2], threadIdx.x);
  })", "k", {.block_x = 64, .shared_bytes = 128});
  EXPECT_THAT(said, HasSubstr("thread (1, 0, 0) writes shared byte 0x0, which thread (0, 0, 0) wrote"));
}

TEST_F(EmulatedCudaRaces, AtomicsAndSyncedWarpsDoNotRace) {
  EXPECT_EQ(race_of(R"(extern "C" __global__ void k(int* out) {
    __shared__ int sum, slots[64];
    if (threadIdx.x == 0) sum = 0;
    __syncthreads();
    atomicAdd(&sum, (int)threadIdx.x);
    slots[threadIdx.x] = threadIdx.x;
    __syncwarp();
    int other = slots[threadIdx.x ^ 1];
    __syncthreads();
    out[threadIdx.x] = sum + other;
  })", "k", {.block_x = 64}, allocate(256)), "");
}

TEST_F(EmulatedCudaRaces, WarpsThatOnlySyncThemselvesDo) {
  EXPECT_THAT(race_of(R"(extern "C" __global__ void k(int* out) {
    __shared__ int slots[64];
    slots[threadIdx.x] = threadIdx.x;
    __syncwarp();
    out[threadIdx.x] = slots[threadIdx.x ^ 32];
  })", "k", {.block_x = 64}, allocate(256)), HasSubstr("race: kernel k"));
}

TEST_F(EmulatedCudaRaces, CopiesRaceFromWhereTheyBeginToWhereTheyAreWaitedFor) {
  // A copy by each lane into the row of its neighbour, which ldmatrix reads; then another copy over it.
  const auto said =
      [&](const std::string& before_the_wait, const std::string& behind_it, const std::string& before_the_next) {
        const std::string text = R"(extern "C" __global__ void k(unsigned* p) {
      __shared__ __align__(16) unsigned s[32][4];
      unsigned i = threadIdx.x, to = __cvta_generic_to_shared(s[i ^ 1]), row = __cvta_generic_to_shared(s[i]), d[4], sum = 0;
      for (int n = 0; n < 2; n++) {
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" :: "r"(to), "l"(p + 4 * i) : "memory");
        )" + before_the_wait + R"( asm volatile("cp.async.wait_all;" ::: "memory"); )" +
                                 behind_it + R"(
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];" : "=r"(d[0]), "=r"(d[1]), "=r"(d[2]), "=r"(d[3]) : "r"(row) : "memory");
        sum += d[0] + s[i ^ 2][0];
        )" + before_the_next + R"(
      }
      p[128 + i] = sum;
    })";
        return race_of(text, "k", {.block_x = 32}, upload(std::vector<unsigned>(160)));
      };
  EXPECT_EQ(said("", "__syncwarp();", "__syncwarp();"), "");
  EXPECT_THAT(said("__syncwarp();", "", "__syncwarp();"), HasSubstr("race: kernel k"))
      << "with what reads it when it is there";
  ASSERT_CUDA(cuDevicePrimaryCtxReset(0));
  EXPECT_THAT(said("__syncwarp();", "__syncwarp();", ""), HasSubstr("race: kernel k"))
      << "with what still reads when it begins";
}

}  // namespace
}  // namespace crucible::emulators::nvidia::testing
