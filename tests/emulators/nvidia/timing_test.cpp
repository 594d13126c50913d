// The model of times as an application sees it: events of the driver under CRUCIBLE_EMU_TIMING=roofline.
#include <gmock/gmock.h>

#include <cmath>
#include <cstdlib>

#include "tests/emulators/nvidia/testing/cuda_session.hpp"

namespace crucible::emulators::nvidia::testing {
namespace {

// An sm_90: launches, memory, link to the host, f32 (rates.cpp).
constexpr double kLaunchNs = 2000, kMemory = 3350, kLink = 63, kF32 = 67000;

std::int64_t ns_of(double roof) { return static_cast<std::int64_t>(std::ceil(kLaunchNs + roof)); }

/// Each thread reads four bytes, computes 2 `steps` operations with them and writes them.
constexpr const char* kWork = R"(
.version 8.0
.target sm_80
.address_size 64
.visible .entry work(.param .u64 p, .param .u32 steps)
{
  .reg .b32 %r<8>; .reg .b64 %d<4>; .reg .pred %q;
  mov.u32 %r1, %tid.x; mov.u32 %r2, %ctaid.x; mov.u32 %r3, %ntid.x; mad.lo.u32 %r1, %r2, %r3, %r1;
  ld.param.u64 %d1, [p]; mul.wide.u32 %d2, %r1, 4; add.s64 %d1, %d1, %d2; ld.param.u32 %r4, [steps];
  ld.global.f32 %r5, [%d1];
again:
  setp.eq.u32 %q, %r4, 0; @%q bra done;
  fma.rn.f32 %r5, %r5, %r5, %r5; sub.u32 %r4, %r4, 1; bra again;
done:
  st.global.f32 [%d1], %r5;
  ret;
}
)";

class EmulatedCudaTiming : public CudaSession {
 protected:
  static void SetUpTestSuite() { setenv("CRUCIBLE_EMU_TIMING", "roofline", 1); }
  void SetUp() override {
    CudaSession::SetUp();
    if (HasFatalFailure()) return;
    kernel_ = function(load(kWork), "work");
    memory_ = allocate(kBytes);
    ASSERT_CUDA(cuMemAllocHost(&host_, kBytes));
  }
  void TearDown() override {
    cuMemFreeHost(host_);
    CudaSession::TearDown();
  }
  void launch(unsigned blocks, unsigned steps, CUstream stream) {
    void* arguments[] = {&memory_, &steps};
    EXPECT_CUDA(CUDA_SUCCESS, cuLaunchKernel(kernel_, blocks, 1, 1, kThreads, 1, 1, 0, stream, arguments, nullptr));
  }
  /// Between two events round what `enqueue` puts on the stream.
  template <typename Enqueue>
  std::int64_t timed(Enqueue enqueue) {
    CUevent begin = nullptr, end = nullptr;
    EXPECT_CUDA(CUDA_SUCCESS, cuEventCreate(&begin, 0));
    EXPECT_CUDA(CUDA_SUCCESS, cuEventCreate(&end, 0));
    EXPECT_CUDA(CUDA_SUCCESS, cuEventRecord(begin, stream_));
    enqueue();
    EXPECT_CUDA(CUDA_SUCCESS, cuEventRecord(end, stream_));
    EXPECT_CUDA(CUDA_SUCCESS, cuStreamSynchronize(stream_));
    float milliseconds = -1;
    EXPECT_CUDA(CUDA_SUCCESS, cuEventElapsedTime(&milliseconds, begin, end));
    cuEventDestroy(begin);
    cuEventDestroy(end);
    return std::lround(static_cast<double>(milliseconds) * 1e6);
  }

  static constexpr unsigned kThreads = 256, kBlocks = 64;
  static constexpr std::size_t kBytes = 4 * kThreads * kBlocks;
  CUfunction kernel_ = nullptr;
  CUdeviceptr memory_ = 0;
  void* host_ = nullptr;
};

TEST_F(EmulatedCudaTiming, TheNameSaysSo) {
  char name[128] = {};
  ASSERT_CUDA(cuDeviceGetName(name, sizeof name, 0));
  EXPECT_STREQ(name, "NVIDIA sm_90 (emulated, not a GPU; times of a roofline model)");
}

TEST_F(EmulatedCudaTiming, KernelsByMemoryOrByArithmetic) {
  EXPECT_EQ(timed([&] { launch(kBlocks, 1, stream_); }), ns_of(2 * kBytes / kMemory));
  EXPECT_EQ(timed([&] { launch(kBlocks, 1000, stream_); }), ns_of(2000.0 * kThreads * kBlocks / kF32));
  EXPECT_EQ(timed([&] { launch(1, 0, stream_), launch(1, 0, stream_); }), 2 * ns_of(2.0 * 4 * kThreads / kMemory));
}

TEST_F(EmulatedCudaTiming, ATimeIsTheSameEachTime) {
  const std::int64_t first = timed([&] { launch(kBlocks, 100, stream_); });
  for (int i = 0; i < 20; ++i) EXPECT_EQ(timed([&] { launch(kBlocks, 100, stream_); }), first);
}

TEST_F(EmulatedCudaTiming, CopiesAndFillsByTheirBandwidth) {
  EXPECT_EQ(timed([&] { cuMemcpyHtoDAsync(memory_, host_, kBytes, stream_); }), ns_of(kBytes / kLink));
  EXPECT_EQ(timed([&] { cuMemcpyDtoHAsync(host_, memory_, kBytes, stream_); }), ns_of(kBytes / kLink));
  EXPECT_EQ(timed([&] { cuMemcpyDtoDAsync(memory_, memory_ + kBytes / 2, kBytes / 2, stream_); }),
            ns_of(2 * (kBytes / 2) / kMemory));
  EXPECT_EQ(timed([&] { cuMemsetD32Async(memory_, 0, kBytes / 4, stream_); }), ns_of(kBytes / kMemory));
}

TEST_F(EmulatedCudaTiming, NodesOfAGraphOneAfterAnother) {
  CUgraph graph = nullptr;
  CUgraphNode node = nullptr;
  ASSERT_CUDA(cuGraphCreate(&graph, 0));
  CUDA_MEMSET_NODE_PARAMS fill = {};
  fill.dst = memory_, fill.elementSize = 4, fill.width = kBytes / 4, fill.height = 1;
  ASSERT_CUDA(cuGraphAddMemsetNode(&node, graph, nullptr, 0, &fill, context_));
  CUDA_MEMCPY3D copy = {};
  copy.srcMemoryType = copy.dstMemoryType = CU_MEMORYTYPE_DEVICE;
  copy.srcDevice = memory_, copy.dstDevice = memory_ + kBytes / 2;
  copy.WidthInBytes = kBytes / 2, copy.Height = copy.Depth = 1;
  ASSERT_CUDA(cuGraphAddMemcpyNode(&node, graph, &node, 1, &copy, context_));
  unsigned steps = 1000;
  void* arguments[] = {&memory_, &steps};
  CUDA_KERNEL_NODE_PARAMS kernel = {};
  kernel.func = kernel_, kernel.gridDimX = kBlocks, kernel.gridDimY = kernel.gridDimZ = 1;
  kernel.blockDimX = kThreads, kernel.blockDimY = kernel.blockDimZ = 1, kernel.kernelParams = arguments;
  ASSERT_CUDA(cuGraphAddKernelNode(&node, graph, &node, 1, &kernel));
  CUgraphExec executable = nullptr;
  ASSERT_CUDA(cuGraphInstantiate(&executable, graph, 0));
  EXPECT_EQ(timed([&] { cuGraphLaunch(executable, stream_); }),
            ns_of(kBytes / kMemory) + ns_of(2 * (kBytes / 2) / kMemory) + ns_of(2000.0 * kThreads * kBlocks / kF32));
  cuGraphExecDestroy(executable);
  cuGraphDestroy(graph);
}

TEST_F(EmulatedCudaTiming, AWaitBetweenStreamsJoinsTheirClocks) {
  CUstream other = nullptr;
  CUevent ready = nullptr;
  ASSERT_CUDA(cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
  ASSERT_CUDA(cuEventCreate(&ready, 0));
  const std::int64_t together = timed([&] {
    launch(kBlocks, 1000, other);
    cuEventRecord(ready, other);
    launch(kBlocks, 1, stream_);
    cuStreamWaitEvent(stream_, ready, 0);
    launch(kBlocks, 1, stream_);
  });
  EXPECT_EQ(together, ns_of(2000.0 * kThreads * kBlocks / kF32) + ns_of(2 * kBytes / kMemory));
  cuEventDestroy(ready);
  cuStreamDestroy(other);
}

}  // namespace
}  // namespace crucible::emulators::nvidia::testing
