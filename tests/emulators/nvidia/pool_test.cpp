// Pools of memory, memory that is mapped side by side, and the features that a device may lack.
#include <cstdlib>

#include "tests/emulators/nvidia/testing/cuda_session.hpp"

namespace crucible::emulators::nvidia::testing {
namespace {

class EmulatedPools : public CudaSession {
 protected:
  CUmemoryPool make(cuuint64_t threshold) {
    CUmemPoolProps properties = {};
    properties.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
    properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    CUmemoryPool pool = nullptr;
    EXPECT_CUDA(CUDA_SUCCESS, cuMemPoolCreate(&pool, &properties));
    EXPECT_CUDA(CUDA_SUCCESS, cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &threshold));
    return pool;
  }
  static cuuint64_t number(CUmemoryPool pool, CUmemPool_attribute attribute) {
    cuuint64_t value = 0;
    EXPECT_CUDA(CUDA_SUCCESS, cuMemPoolGetAttribute(pool, attribute, &value));
    return value;
  }
  static std::size_t used() {
    std::size_t free = 0, total = 0;
    EXPECT_CUDA(CUDA_SUCCESS, cuMemGetInfo(&free, &total));
    return total - free;
  }
};

TEST_F(EmulatedPools, WhatIsFreedIsKeptUpToTheThreshold) {
  CUmemoryPool const pool = make(1000);
  CUdeviceptr a = 0, b = 0, again = 0;
  ASSERT_CUDA(cuMemAllocFromPoolAsync(&a, 800, pool, stream_));
  ASSERT_CUDA(cuMemAllocFromPoolAsync(&b, 600, pool, stream_));
  EXPECT_EQ(number(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT), 1400u);
  ASSERT_CUDA(cuMemsetD8Async(a, 1, 800, stream_));
  ASSERT_CUDA(cuMemFreeAsync(a, stream_));
  ASSERT_CUDA(cuStreamSynchronize(stream_));
  EXPECT_EQ(number(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT), 1400u);
  EXPECT_EQ(used(), 1400u);
  ASSERT_CUDA(cuMemAllocFromPoolAsync(&again, 800, pool, stream_));
  EXPECT_EQ(again, a);
  ASSERT_CUDA(cuStreamSynchronize(
      stream_));  // the memory is there in the stream's order, the copy below is in the default one's
  EXPECT_EQ(download<unsigned>(again, 2), std::vector<unsigned>(2, 0xcdcdcdcdu)) << "as fresh as any";
  ASSERT_CUDA(cuMemFreeAsync(again, stream_));
  ASSERT_CUDA(cuMemFreeAsync(b, stream_));
  ASSERT_CUDA(cuStreamSynchronize(stream_));
  EXPECT_EQ(number(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT), 600u);  // the larger one went
  ASSERT_CUDA(cuMemPoolTrimTo(pool, 0));
  EXPECT_EQ(used(), 0u);
  EXPECT_CUDA(CUDA_ERROR_INVALID_VALUE, cuMemFreeAsync(b, stream_)) << "freed";
  ASSERT_CUDA(cuMemPoolDestroy(pool));
  EXPECT_CUDA(CUDA_ERROR_INVALID_VALUE, cuMemPoolTrimTo(pool, 0));
}

TEST_F(EmulatedPools, WhatIsOutWhenAPoolIsDestroyedGoesBackForGood) {
  CUmemoryPool const pool = make(1 << 20);
  CUdeviceptr a = 0;
  ASSERT_CUDA(cuMemAllocFromPoolAsync(&a, 800, pool, stream_));
  ASSERT_CUDA(cuMemPoolDestroy(pool));
  ASSERT_CUDA(cuMemFreeAsync(a, stream_));
  ASSERT_CUDA(cuStreamSynchronize(stream_));
  EXPECT_EQ(used(), 0u);
}

TEST_F(EmulatedPools, MemoryThatIsMappedSideBySideIsOneRange) {
  CUmemAllocationProp properties = {};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  std::size_t step = 0;
  ASSERT_CUDA(cuMemGetAllocationGranularity(&step, &properties, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
  CUdeviceptr range = 0;
  ASSERT_CUDA(cuMemAddressReserve(&range, 4 * step, 0, 0, 0));
  CUmemAccessDesc access = {};
  access.location = properties.location;
  access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  CUmemGenericAllocationHandle memory[3] = {};
  for (const std::size_t i : {std::size_t{0}, std::size_t{1}, std::size_t{3}}) {
    CUmemGenericAllocationHandle& handle = memory[i == 3 ? 2 : i];
    ASSERT_CUDA(cuMemCreate(&handle, step, &properties, 0));
    ASSERT_CUDA(cuMemMap(range + i * step, step, 0, handle, 0));
    ASSERT_CUDA(cuMemSetAccess(range + i * step, step, &access, 1));
  }
  EXPECT_EQ(download<unsigned>(range, 1), std::vector<unsigned>(1, 0xcdcdcdcdu));
  EXPECT_CUDA(CUDA_SUCCESS, cuMemsetD8(range, 1, 2 * step));
  EXPECT_CUDA(CUDA_ERROR_INVALID_VALUE, cuMemsetD8(range, 1, 2 * step + 1)) << "into the hole";
  EXPECT_CUDA(CUDA_ERROR_INVALID_VALUE, cuMemsetD8(range + 3 * step, 1, step + 1)) << "past the end";
  for (const std::size_t i : {std::size_t{0}, std::size_t{1}, std::size_t{3}})
    ASSERT_CUDA(cuMemUnmap(range + i * step, step));
  for (const CUmemGenericAllocationHandle handle : memory) ASSERT_CUDA(cuMemRelease(handle));
  ASSERT_CUDA(cuMemAddressFree(range, 4 * step));
}

TEST_F(EmulatedPools, OnlyHostFunctionsAreCapturedAndAChildGraphIsACopy) {
  std::vector<int> calls;
  const auto note = [](void* data) {
    static_cast<std::vector<int>*>(data)->push_back(static_cast<int>(static_cast<std::vector<int>*>(data)->size()));
  };
  CUgraph child = nullptr, graph = nullptr;
  ASSERT_CUDA(cuStreamBeginCapture(stream_, CU_STREAM_CAPTURE_MODE_RELAXED));
  EXPECT_CUDA(CUDA_ERROR_ILLEGAL_STATE, cuStreamBeginCapture(stream_, CU_STREAM_CAPTURE_MODE_RELAXED));
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
  ASSERT_CUDA(cuStreamIsCapturing(stream_, &status));
  EXPECT_EQ(status, CU_STREAM_CAPTURE_STATUS_ACTIVE);
  ASSERT_CUDA(cuLaunchHostFunc(stream_, note, &calls));
  ASSERT_CUDA(cuLaunchHostFunc(stream_, note, &calls));
  EXPECT_CUDA(CUDA_ERROR_INVALID_HANDLE, cuStreamSynchronize(stream_));
  ASSERT_CUDA(cuStreamEndCapture(stream_, &child));
  EXPECT_CUDA(CUDA_ERROR_ILLEGAL_STATE, cuStreamEndCapture(stream_, &child));
  ASSERT_CUDA(cuStreamSynchronize(stream_));
  EXPECT_TRUE(calls.empty()) << "captured, not run";
  CUgraphNode node = nullptr;
  ASSERT_CUDA(cuGraphCreate(&graph, 0));
  ASSERT_CUDA(cuGraphAddChildGraphNode(&node, graph, nullptr, 0, child));
  EXPECT_CUDA(CUDA_ERROR_INVALID_VALUE, cuGraphAddChildGraphNode(&node, graph, nullptr, 0, graph)) << "of itself";
  ASSERT_CUDA(cuGraphDestroy(child));
  CUgraphExec executable = nullptr;
  ASSERT_CUDA(cuGraphInstantiateWithFlags(&executable, graph, 0));
  for (int round = 0; round < 2; ++round) ASSERT_CUDA(cuGraphLaunch(executable, stream_));
  ASSERT_CUDA(cuStreamSynchronize(stream_));
  EXPECT_EQ(calls, (std::vector<int>{0, 1, 2, 3}));
  EXPECT_CUDA(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, cuStreamBeginCapture(nullptr, CU_STREAM_CAPTURE_MODE_RELAXED));
  ASSERT_CUDA(cuGraphExecDestroy(executable));
  ASSERT_CUDA(cuGraphDestroy(graph));
}

}  // namespace
}  // namespace crucible::emulators::nvidia::testing
