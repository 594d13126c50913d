// Two devices: memory of the other one in kernels, with and without leave, and copies between them.
#include <cstdlib>

#include "tests/emulators/nvidia/testing/cuda_session.hpp"

namespace crucible::emulators::nvidia::testing {
namespace {

/// out[i] = in[i] + 1, with both pointers in a struct or, for `pointers`, each a parameter.
constexpr const char* kAdd = R"(
.version 8.0
.target sm_80
.address_size 64
.visible .entry pointers(.param .u64 out, .param .u64 in)
{
  .reg .b32 %r<4>; .reg .b64 %d<4>;
  mov.u32 %r1, %tid.x; mul.wide.u32 %d1, %r1, 4;
  ld.param.u64 %d2, [in]; add.s64 %d2, %d2, %d1; ld.global.u32 %r2, [%d2]; add.u32 %r2, %r2, 1;
  ld.param.u64 %d3, [out]; add.s64 %d3, %d3, %d1; st.global.u32 [%d3], %r2;
  ret;
}
.visible .entry unused(.param .u64 out, .param .u64 in)
{
  .reg .b64 %d; ld.param.u64 %d, [out]; st.global.u32 [%d], 7; ret;
}
.visible .entry inside(.param .align 8 .b8 both[16])
{
  .reg .b32 %r; .reg .b64 %d<2>;
  ld.param.u64 %d0, [both]; ld.param.u64 %d1, [both+8]; ld.global.u32 %r, [%d1]; st.global.u32 [%d0], %r;
  ret;
}
)";

class EmulatedCudaPeers : public CudaSession {
 protected:
  static void SetUpTestSuite() { setenv("CRUCIBLE_EMU_DEVICES", "2", 1); }
  void SetUp() override {
    CudaSession::SetUp();
    if (HasFatalFailure()) return;
    ASSERT_CUDA(cuDevicePrimaryCtxReset(1));
    ASSERT_CUDA(cuDevicePrimaryCtxRetain(&other_, 1));
    ASSERT_CUDA(cuCtxSetCurrent(other_));
    there_ = upload(std::vector<unsigned>{10, 20, 30, 40});
    ASSERT_CUDA(cuCtxSetCurrent(context_));
    here_ = upload(std::vector<unsigned>(4));
    module_ = load(kAdd);
  }
  void TearDown() override {
    cuDevicePrimaryCtxRelease(1);
    CudaSession::TearDown();
  }
  CUresult add() { return run(function(module_, "pointers"), {.block_x = 4}, here_, there_); }

  CUcontext other_ = nullptr;
  CUdeviceptr here_ = 0, there_ = 0;
  CUmodule module_ = nullptr;
};

TEST_F(EmulatedCudaPeers, SayWhatTheyCan) {
  int can = 0;
  ASSERT_CUDA(cuDeviceCanAccessPeer(&can, 0, 1));
  EXPECT_EQ(can, 1);
  ASSERT_CUDA(cuDeviceCanAccessPeer(&can, 1, 1));
  EXPECT_EQ(can, 0);
  ASSERT_CUDA(cuDeviceGetP2PAttribute(&can, CU_DEVICE_P2P_ATTRIBUTE_ACCESS_SUPPORTED, 0, 1));
  EXPECT_EQ(can, 1);
  EXPECT_CUDA(CUDA_ERROR_INVALID_DEVICE, cuDeviceCanAccessPeer(&can, 0, 2));
}

TEST_F(EmulatedCudaPeers, WithoutLeaveItIsAnIllegalAddress) {
  EXPECT_CUDA(CUDA_ERROR_ILLEGAL_ADDRESS, add());
  EXPECT_CUDA(CUDA_ERROR_ILLEGAL_ADDRESS, cuCtxSynchronize());
  ASSERT_CUDA(cuCtxSetCurrent(other_));
  EXPECT_EQ(download<unsigned>(there_, 1), std::vector<unsigned>{10}) << "the other device goes on";
}

TEST_F(EmulatedCudaPeers, WithLeaveItIsMemoryLikeItsOwn) {
  ASSERT_CUDA(cuCtxEnablePeerAccess(other_, 0));
  ASSERT_CUDA(add());
  EXPECT_EQ(download<unsigned>(here_, 4), (std::vector<unsigned>{11, 21, 31, 41}));
  ASSERT_CUDA(run(function(module_, "pointers"), {.block_x = 4}, there_, there_));
  ASSERT_CUDA(cuCtxDisablePeerAccess(other_));
  EXPECT_CUDA(CUDA_ERROR_ILLEGAL_ADDRESS, add());
}

TEST_F(EmulatedCudaPeers, LeaveIsOfOneDirection) {
  ASSERT_CUDA(cuCtxSetCurrent(other_));
  ASSERT_CUDA(cuCtxEnablePeerAccess(context_, 0));
  ASSERT_CUDA(cuCtxSetCurrent(context_));
  EXPECT_CUDA(CUDA_ERROR_ILLEGAL_ADDRESS, add());
}

TEST_F(EmulatedCudaPeers, OnlyAnAccessIsJudged) {
  ASSERT_CUDA(run(function(module_, "unused"), {}, here_, there_));
  EXPECT_EQ(download<unsigned>(here_, 1), std::vector<unsigned>{7});
}

TEST_F(EmulatedCudaPeers, PointersInsideOfStructsAreSeen) {
  const struct {
    CUdeviceptr out, in;
  } both = {here_, there_};
  EXPECT_CUDA(CUDA_ERROR_ILLEGAL_ADDRESS, run(function(module_, "inside"), {}, both));
}

TEST_F(EmulatedCudaPeers, AGraphIsJudgedWhenItRuns) {
  CUgraph graph = nullptr;
  CUgraphNode node = nullptr;
  CUgraphExec executable = nullptr;
  void* arguments[] = {&here_, &there_};
  CUDA_KERNEL_NODE_PARAMS kernel = {};
  kernel.func = function(module_, "pointers"), kernel.gridDimX = kernel.gridDimY = kernel.gridDimZ = 1;
  kernel.blockDimX = 4, kernel.blockDimY = kernel.blockDimZ = 1, kernel.kernelParams = arguments;
  ASSERT_CUDA(cuGraphCreate(&graph, 0));
  ASSERT_CUDA(cuGraphAddKernelNode(&node, graph, nullptr, 0, &kernel));
  ASSERT_CUDA(cuGraphInstantiate(&executable, graph, 0));
  ASSERT_CUDA(cuCtxEnablePeerAccess(other_, 0));
  ASSERT_CUDA(cuGraphLaunch(executable, stream_));
  ASSERT_CUDA(cuStreamSynchronize(stream_));
  EXPECT_EQ(download<unsigned>(here_, 1), std::vector<unsigned>{11});
  cuGraphExecDestroy(executable);
  cuGraphDestroy(graph);
}

TEST_F(EmulatedCudaPeers, WrongRequestsAreRefused) {
  EXPECT_CUDA(CUDA_ERROR_INVALID_CONTEXT, cuCtxEnablePeerAccess(context_, 0));
  EXPECT_CUDA(CUDA_ERROR_INVALID_CONTEXT, cuCtxEnablePeerAccess(nullptr, 0));
  EXPECT_CUDA(CUDA_ERROR_INVALID_VALUE, cuCtxEnablePeerAccess(other_, 1));
  EXPECT_CUDA(CUDA_ERROR_PEER_ACCESS_NOT_ENABLED, cuCtxDisablePeerAccess(other_));
  ASSERT_CUDA(cuCtxEnablePeerAccess(other_, 0));
  EXPECT_CUDA(CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED, cuCtxEnablePeerAccess(other_, 0));
}

TEST_F(EmulatedCudaPeers, CopiesNeedNoLeave) {
  ASSERT_CUDA(cuMemcpyPeer(here_, context_, there_, other_, 16));
  EXPECT_EQ(download<unsigned>(here_, 4), (std::vector<unsigned>{10, 20, 30, 40}));
  ASSERT_CUDA(cuMemsetD32(here_, 0, 4));
  ASSERT_CUDA(cuMemcpyPeerAsync(here_, context_, there_, other_, 8, stream_));
  ASSERT_CUDA(cuStreamSynchronize(stream_));
  EXPECT_EQ(download<unsigned>(here_, 4), (std::vector<unsigned>{10, 20, 0, 0}));
  EXPECT_CUDA(CUDA_ERROR_INVALID_VALUE, cuMemcpyPeer(here_, other_, there_, other_, 16))
      << "memory of another device than is named";
  EXPECT_CUDA(CUDA_ERROR_INVALID_CONTEXT, cuMemcpyPeer(here_, nullptr, there_, other_, 16));
  EXPECT_CUDA(CUDA_ERROR_INVALID_VALUE, cuMemcpyPeer(here_, context_, there_, other_, 17));
}

TEST_F(EmulatedCudaPeers, MappedMemoryIsOfThoseWhomItWasGivenTo) {
  CUmemAllocationProp properties = {};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location = {CU_MEM_LOCATION_TYPE_DEVICE, {1}};
  CUmemGenericAllocationHandle handle = 0;
  constexpr std::size_t kSize = 2 << 20;
  CUdeviceptr mapped = 0;
  ASSERT_CUDA(cuMemCreate(&handle, kSize, &properties, 0));
  ASSERT_CUDA(cuMemAddressReserve(&mapped, kSize, 0, 0, 0));
  ASSERT_CUDA(cuMemMap(mapped, kSize, 0, handle, 0));
  CUmemAccessDesc access[] = {{{CU_MEM_LOCATION_TYPE_DEVICE, {0}}, CU_MEM_ACCESS_FLAGS_PROT_READWRITE},
                              {{CU_MEM_LOCATION_TYPE_DEVICE, {1}}, CU_MEM_ACCESS_FLAGS_PROT_READWRITE}};
  ASSERT_CUDA(cuMemSetAccess(mapped, kSize, access, 2));
  ASSERT_CUDA(run(function(module_, "unused"), {}, mapped, mapped));
  access[0].flags = CU_MEM_ACCESS_FLAGS_PROT_NONE;
  ASSERT_CUDA(cuMemSetAccess(mapped, kSize, access, 1));
  EXPECT_EQ(download<unsigned>(mapped, 1), std::vector<unsigned>{7}) << "the other device has it still";
  EXPECT_CUDA(CUDA_ERROR_ILLEGAL_ADDRESS, run(function(module_, "unused"), {}, mapped, mapped));
  ASSERT_CUDA(cuDevicePrimaryCtxReset(0));
  ASSERT_CUDA(cuMemUnmap(mapped, kSize));
  ASSERT_CUDA(cuMemAddressFree(mapped, kSize));
  ASSERT_CUDA(cuMemRelease(handle));
}

}  // namespace
}  // namespace crucible::emulators::nvidia::testing
