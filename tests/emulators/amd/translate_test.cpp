// How kernels are found in text, and which of them need fibers.
#include "tests/emulators/amd/translate.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace crucible::emulator {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

TEST(EmulatorTranslate, KernelsGetTheirIndicesAndEntries) {
  const Translation result = translate(R"(
extern "C" __global__ void plain(float* a, int n) { const char* s = "}"; a[n] = s[0]; }
extern "C" __attribute__((global)) void none() { }
extern "C" __global__ void __launch_bounds__(128, 2) bounded(int* a) { __syncthreads(); }
__global__ void __attribute__((amdgpu_flat_work_group_size(1, 64))) sized(int* a);
__global__ void sized(int* a) { a[0] = __shfl(a[1], 2); }
)");
  ASSERT_EQ(result.kernels.size(), 4u);
  EXPECT_EQ(result.kernels[0].name, "plain");
  EXPECT_FALSE(result.kernels[0].meets);
  EXPECT_EQ(result.kernels[0].most_threads, 1024u);
  EXPECT_EQ(result.kernels[1].name, "none");
  EXPECT_TRUE(result.kernels[2].meets);
  EXPECT_EQ(result.kernels[2].most_threads, 128u);
  EXPECT_TRUE(result.kernels[3].meets);
  EXPECT_FALSE(result.indices_outside);
  EXPECT_THAT(result.text, HasSubstr("void plain(EMU_INDICES, float* a, int n)"));
  EXPECT_THAT(result.text, HasSubstr("__global__  void none(EMU_INDICES)"));
  EXPECT_THAT(
      result.text,
      HasSubstr(
          "EMU_BLOCK_KERNEL(plain)\nEMU_BLOCK_KERNEL(none)\nEMU_THREAD_KERNEL(bounded)\nEMU_THREAD_KERNEL(sized)\n"));
}

TEST(EmulatorTranslate, APointerFromMemoryIsFollowedWithoutItsTag) {
  const Translation result = translate(
      "__global__ void a(const unsigned long* p) { *(float*)(float __attribute__((address_space(1)))*)(p[0]) ="
      " *(const int*)(const int __attribute__((address_space(1)))*)(p[1]); }");
  EXPECT_THAT(result.text,
              HasSubstr("*(float*)(float*)emu_followed(p[0]) = *(const int*)(const int*)emu_followed(p[1])"));
}

TEST(EmulatorTranslate, AFunctionThatMeetsMakesAllKernelsMeet) {
  const Translation result = translate(R"(
__device__ void all() { __syncthreads(); }
__global__ void a() { all(); }
__global__ void b() { }
)");
  EXPECT_TRUE(result.kernels[0].meets);
  EXPECT_TRUE(result.kernels[1].meets);
}

TEST(EmulatorTranslate, WordsThatLookLikeMeetingsAreNone) {
  const Translation result = translate("__global__ void a(int* p) { my__shfl(p); syncthreads(p); }");
  EXPECT_FALSE(result.kernels[0].meets);
}

TEST(EmulatorTranslate, LanesMeetToReadEachOthersWords) {
  const Translation result = translate(R"(
__global__ void a(int* p) { *p = __builtin_amdgcn_ds_bpermute(0, *p); }
__global__ void b() { }
)");
  EXPECT_TRUE(result.kernels[0].meets);
  EXPECT_FALSE(result.kernels[1].meets);
}

TEST(EmulatorTranslate, LanesMeetForMatrices) {
  const Translation result =
      translate("__global__ void a(float4* p) { *p = __builtin_amdgcn_wmma_f32_16x16x16_f16_w32(x, y, *p); }");
  EXPECT_TRUE(result.kernels[0].meets);
  EXPECT_TRUE(result.matrices);
  EXPECT_FALSE(translate("__global__ void a() { __syncthreads(); }").matrices);
}

TEST(EmulatorTranslate, IndicesOutsideOfKernelsAreSeen) {
  EXPECT_TRUE(translate("__device__ int id() { return threadIdx.x; } __global__ void a() {}").indices_outside);
  EXPECT_TRUE(translate("__device__ int id() { return __builtin_amdgcn_workitem_id_x(); }").indices_outside);
  EXPECT_FALSE(translate("__global__ void a(int* p) { p[threadIdx.x] = 1; }").indices_outside);
}

TEST(EmulatorTranslate, DynamicSharedMemoryInBothSpellings) {
  EXPECT_THAT(translate("__global__ void a() { extern __shared__ float row[]; }").text,
              HasSubstr("{ EMU_DYNAMIC_SHARED(float, row); }"));
  const Translation result = translate(
      "__global__ void a() { extern __attribute__((shared)) unsigned char bytes [ ] ; __attribute__((shared)) int x; "
      "}");
  EXPECT_THAT(result.text, HasSubstr("EMU_DYNAMIC_SHARED(unsigned char, bytes);"));
  EXPECT_THAT(result.text, HasSubstr("__shared__  int x;"));
  EXPECT_THAT(result.text, Not(HasSubstr("extern")));
}

}  // namespace
}  // namespace crucible::emulator
