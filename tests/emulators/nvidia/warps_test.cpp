// Counted blocks alone, as an application sees them: CRUCIBLE_EMU_TIMING=warps with CRUCIBLE_EMU_EMPTY=1. What is
// counted is in ../ptx/warps_test.cpp.
#include <algorithm>
#include <cstdlib>

#include "tests/emulators/nvidia/testing/cuda_session.hpp"

namespace crucible::emulators::nvidia::testing {
namespace {

/// Each thread adds 1 to its number, after `steps` turns of a loop.
constexpr const char* kAdd = R"(
.version 8.0
.target sm_80
.address_size 64
.visible .entry add(.param .u64 p, .param .u32 steps)
{
  .reg .b32 %r<8>; .reg .b64 %d<4>; .reg .pred %q;
  mov.u32 %r1, %tid.x; mov.u32 %r2, %ctaid.x; mov.u32 %r3, %ntid.x; mad.lo.u32 %r1, %r2, %r3, %r1;
  ld.param.u64 %d1, [p]; mul.wide.u32 %d2, %r1, 4; add.s64 %d1, %d1, %d2; ld.param.u32 %r4, [steps];
again:
  setp.eq.u32 %q, %r4, 0; @%q bra done;
  sub.u32 %r4, %r4, 1; bra again;
done:
  ld.global.u32 %r5, [%d1]; add.u32 %r5, %r5, 1; st.global.u32 [%d1], %r5;
  ret;
}
)";

class EmulatedCudaWarps : public CudaSession {
 protected:
  static void SetUpTestSuite() {
    setenv("CRUCIBLE_EMU_TIMING", "warps", 1);
    setenv("CRUCIBLE_EMU_EMPTY", "1", 1);
    setenv("CRUCIBLE_EMU_WARPS", "/dev/null", 1);
  }

  /// The first thread's number of each block after some launches.
  std::vector<unsigned> after(unsigned launches, unsigned steps, unsigned blocks) {
    const CUfunction kernel = function(load(kAdd), "add");
    CUdeviceptr memory = allocate(4 * blocks * kThreads);
    EXPECT_CUDA(CUDA_SUCCESS, cuMemsetD32Async(memory, 0, blocks * kThreads, stream_));
    void* arguments[] = {&memory, &steps};
    for (unsigned i = 0; i < launches; ++i)
      EXPECT_CUDA(CUDA_SUCCESS, cuLaunchKernel(kernel, blocks, 1, 1, kThreads, 1, 1, 0, stream_, arguments, nullptr));
    EXPECT_CUDA(CUDA_SUCCESS, cuStreamSynchronize(stream_));
    const std::vector<unsigned> all = download<unsigned>(memory, blocks * kThreads);
    std::vector<unsigned> firsts;
    for (unsigned i = 0; i < blocks; ++i) firsts.push_back(all[std::size_t{i} * kThreads]);
    return firsts;
  }

  static constexpr unsigned kThreads = 64;
};

TEST_F(EmulatedCudaWarps, OfADearLaunchOnlyCountedBlocksRunAndOnce) {
  const std::vector<unsigned> blocks = after(3, 5000, 64);
  EXPECT_EQ(blocks[0], 1u);
  EXPECT_EQ(blocks[32], 1u);
  EXPECT_EQ(blocks[63], 1u);
  EXPECT_EQ(std::ranges::count(blocks, 0u), 61);
}

TEST_F(EmulatedCudaWarps, ACheapLaunchRunsAsAWhole) {
  const std::vector<unsigned> blocks = after(3, 5, 65);
  EXPECT_EQ(blocks[0], 4u) << "counted, and then as a whole";
  EXPECT_EQ(std::ranges::count(blocks, 3u), 62);
}

TEST_F(EmulatedCudaWarps, TheNameSaysSo) {
  char name[128] = {};
  ASSERT_CUDA(cuDeviceGetName(name, sizeof name, 0));
  EXPECT_STREQ(name, "NVIDIA sm_90 (emulated, not a GPU; not all is computed)");
}

}  // namespace
}  // namespace crucible::emulators::nvidia::testing
