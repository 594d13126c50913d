// The emulated driver as an application meets it: entry points, memory, streams, graphs, and what it refuses.
#include <csetjmp>
#include <csignal>
#include <cstring>

#include "tests/emulators/nvidia/testing/cuda_session.hpp"

namespace crucible::emulators::nvidia::testing {
namespace {

using ::testing::Test;

constexpr const char* kScale = R"(
.version 8.0
.target sm_80
.address_size 64
.visible .entry scale(.param .u64 out, .param .u64 in, .param .f32 factor, .param .u32 count)
{
  .reg .pred %p; .reg .b32 %r<6>; .reg .f32 %f<4>; .reg .b64 %rd<6>;
  mov.u32 %r1, %tid.x; mov.u32 %r2, %ctaid.x; mov.u32 %r3, %ntid.x;
  mad.lo.s32 %r4, %r2, %r3, %r1;
  ld.param.u32 %r5, [count];
  setp.ge.u32 %p, %r4, %r5;
  @%p bra $done;
  ld.param.u64 %rd1, [in]; ld.param.u64 %rd2, [out]; ld.param.f32 %f1, [factor];
  mul.wide.u32 %rd3, %r4, 4;
  add.s64 %rd4, %rd1, %rd3; add.s64 %rd5, %rd2, %rd3;
  ld.global.f32 %f2, [%rd4]; mul.f32 %f3, %f2, %f1; st.global.f32 [%rd5], %f3;
$done:
  ret;
}
.visible .entry trap() { trap; }
.visible .entry diverge() .maxntid 128, 1, 1
{
  .reg .pred %p; .reg .b32 %r<3>;
  mov.u32 %r1, %tid.x; setp.lt.u32 %p, %r1, 7;
  @%p bra $there;
  bar.sync 0;
  ret;
$there:
  bar.sync 1;
  ret;
}
)";

class EmulatedCuda : public CudaSession {
 protected:
  void SetUp() override {
    CudaSession::SetUp();
    if (!HasFatalFailure()) module_ = load(kScale);
  }
  CUmodule module_ = nullptr;
};

TEST_F(EmulatedCuda, SaysWhatItIs) {
  char name[256] = {};
  ASSERT_CUDA(cuDeviceGetName(name, sizeof name, 0));
  EXPECT_STREQ(name, "NVIDIA sm_90 (emulated, not a GPU)");
  int major = 0, version = 0;
  ASSERT_CUDA(cuDeviceGetAttribute(&major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, 0));
  EXPECT_EQ(major, 9);
  ASSERT_CUDA(cuDriverGetVersion(&version));
  EXPECT_EQ(version, CUDA_VERSION);
  CUdevice device = 0;
  EXPECT_CUDA(CUDA_ERROR_INVALID_DEVICE, cuDeviceGet(&device, 1));
}

TEST_F(EmulatedCuda, EntryPointsHaveVersions) {
  void* function = nullptr;
  CUdriverProcAddressQueryResult found = {};
  ASSERT_CUDA(cuGetProcAddress("cuMemAlloc", &function, 13000, 0, &found));
  EXPECT_EQ(function, reinterpret_cast<void*>(&cuMemAlloc_v2));
  ASSERT_CUDA(cuGetProcAddress("cuGraphAddKernelNode", &function, 13000, 0, &found));
  EXPECT_EQ(function, reinterpret_cast<void*>(&cuGraphAddKernelNode_v2));
  ASSERT_CUDA(cuGetProcAddress("cuGraphAddKernelNode", &function, 11000, 0, &found));
  EXPECT_NE(function, nullptr);
  EXPECT_NE(function, reinterpret_cast<void*>(&cuGraphAddKernelNode_v2));
  ASSERT_CUDA(cuGetProcAddress("cuMemAllocAsync", &function, 10000, 0, &found));
  EXPECT_EQ(found, CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT);
  EXPECT_EQ(function, nullptr);
  ASSERT_CUDA(cuGetProcAddress("cuNoSuchThing", &function, 13000, 0, &found));
  EXPECT_EQ(found, CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND);
  EXPECT_CUDA(CUDA_ERROR_NOT_FOUND, cuGetProcAddress("cuNoSuchThing", &function, 13000, 0, nullptr));
  const void* table = &function;
  CUuuid uuid = {};
  EXPECT_CUDA(CUDA_ERROR_NOT_FOUND, cuGetExportTable(&table, &uuid));
  EXPECT_EQ(table, nullptr);
}

TEST_F(EmulatedCuda, ContextsAreAStack) {
  CUcontext now = nullptr;
  ASSERT_CUDA(cuCtxPushCurrent(context_));
  ASSERT_CUDA(cuCtxPopCurrent(&now));
  EXPECT_EQ(now, context_);
  CUctx_st* const strange = reinterpret_cast<CUcontext>(&now);
  EXPECT_CUDA(CUDA_ERROR_INVALID_CONTEXT, cuCtxPushCurrent(strange));
  EXPECT_CUDA(CUDA_ERROR_INVALID_CONTEXT, cuCtxSetCurrent(strange));
  ASSERT_CUDA(cuCtxSetCurrent(nullptr));
  CUdeviceptr address = 0;
  EXPECT_CUDA(CUDA_ERROR_INVALID_CONTEXT, cuMemAlloc(&address, 4));
  ASSERT_CUDA(cuCtxSetCurrent(context_));
}

TEST_F(EmulatedCuda, MemoryKnowsItsEnds) {
  const CUdeviceptr address = allocate(1000);
  char bytes[1001] = {};
  EXPECT_CUDA(CUDA_SUCCESS, cuMemcpyHtoD(address, bytes, 1000));
  EXPECT_CUDA(CUDA_ERROR_INVALID_VALUE, cuMemcpyHtoD(address, bytes, 1001));
  EXPECT_CUDA(CUDA_ERROR_INVALID_VALUE, cuMemcpyDtoH(bytes, address + 1, 1000));
  EXPECT_CUDA(CUDA_ERROR_INVALID_VALUE, cuMemsetD8(address + 500, 0, 501));
  EXPECT_CUDA(CUDA_ERROR_INVALID_VALUE, cuMemcpyHtoD(reinterpret_cast<CUdeviceptr>(bytes), bytes, 10))
      << "the host's memory is no device's";
  EXPECT_CUDA(CUDA_ERROR_INVALID_VALUE, cuMemFree(address + 4));
  EXPECT_CUDA(CUDA_SUCCESS, cuMemFree(address));
  EXPECT_CUDA(CUDA_ERROR_INVALID_VALUE, cuMemFree(address));
  CUdeviceptr huge = 0;
  EXPECT_CUDA(CUDA_ERROR_OUT_OF_MEMORY, cuMemAlloc(&huge, 1ull << 50));
  std::size_t free = 0, total = 0;
  ASSERT_CUDA(cuMemGetInfo(&free, &total));
  EXPECT_EQ(free, total);
}

TEST_F(EmulatedCuda, FreshMemoryIsNotZero) {
  EXPECT_EQ(download<unsigned>(allocate(8), 2), std::vector<unsigned>(2, 0xcdcdcdcdu));
}

sigjmp_buf host_fault;

TEST_F(EmulatedCuda, TheHostCannotFollowDeviceAddresses) {
  const CUdeviceptr address = allocate(64);
  struct sigaction action = {}, before = {};
  action.sa_handler = [](int) { siglongjmp(host_fault, 1); };
  sigaction(SIGSEGV, &action, &before);
  volatile bool faulted = false;
  if (sigsetjmp(host_fault, 1) == 0) {
    [[maybe_unused]] volatile int value = *reinterpret_cast<volatile int*>(address);
  } else {
    faulted = true;
  }
  sigaction(SIGSEGV, &before, nullptr);
  EXPECT_TRUE(faulted);
}

TEST_F(EmulatedCuda, FillsAndCopies) {
  const CUdeviceptr a = allocate(64), b = allocate(64);
  ASSERT_CUDA(cuMemsetD32Async(a, 0x01020304u, 16, stream_));
  ASSERT_CUDA(cuMemsetD8Async(a + 4, 0xee, 4, stream_));
  ASSERT_CUDA(cuMemsetD16Async(a + 8, 0x5566, 2, stream_));
  ASSERT_CUDA(cuMemcpyDtoDAsync(b, a, 64, stream_));
  ASSERT_CUDA(cuStreamSynchronize(stream_));
  std::vector<unsigned> wanted(16, 0x01020304u);
  wanted[1] = 0xeeeeeeeeu;
  wanted[2] = 0x55665566u;
  EXPECT_EQ(download<unsigned>(b, 16), wanted);
  EXPECT_CUDA(CUDA_ERROR_INVALID_VALUE, cuMemsetD32(a + 2, 0, 1)) << "not aligned";
}

TEST_F(EmulatedCuda, PinnedMemoryIsTheDevicesToo) {
  void* host = nullptr;
  ASSERT_CUDA(cuMemHostAlloc(&host, 64, 0));
  auto* const values = static_cast<float*>(host);
  for (int i = 0; i < 16; ++i) values[i] = static_cast<float>(i);
  CUdeviceptr device = 0;
  ASSERT_CUDA(cuMemHostGetDevicePointer(&device, host, 0));
  EXPECT_CUDA(CUDA_SUCCESS, run(function(module_, "scale"), {.block_x = 16}, device, device, 2.0f, 16u));
  EXPECT_EQ(values[15], 30.0f);
  ASSERT_CUDA(cuMemFreeHost(host));
  EXPECT_CUDA(CUDA_ERROR_INVALID_VALUE, cuMemFreeHost(host));
  std::vector<float> own(16, 3.0f);
  ASSERT_CUDA(cuMemHostRegister(own.data(), 64, 0));
  EXPECT_CUDA(CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED, cuMemHostRegister(own.data(), 64, 0));
  ASSERT_CUDA(cuMemHostUnregister(own.data()));
}

TEST_F(EmulatedCuda, EventsOrderStreamsAndTakeTime) {
  CUstream other = nullptr;
  CUevent begin = nullptr, end = nullptr, never = nullptr;
  ASSERT_CUDA(cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
  ASSERT_CUDA(cuEventCreate(&begin, 0));
  ASSERT_CUDA(cuEventCreate(&end, 0));
  ASSERT_CUDA(cuEventCreate(&never, CU_EVENT_DISABLE_TIMING));
  std::vector<int> order;
  std::pair<std::vector<int>*, int> first = {&order, 1}, second = {&order, 2};
  const CUhostFn push = [](void* data) {
    const auto* const what = static_cast<std::pair<std::vector<int>*, int>*>(data);
    if (what->second == 1) {
      const timespec wait = {0, 20'000'000};
      nanosleep(&wait, nullptr);
    }
    what->first->push_back(what->second);
  };
  ASSERT_CUDA(cuEventRecord(begin, stream_));
  ASSERT_CUDA(cuLaunchHostFunc(stream_, push, &first));
  ASSERT_CUDA(cuEventRecord(end, stream_));
  EXPECT_CUDA(CUDA_ERROR_NOT_READY, cuEventQuery(end));
  ASSERT_CUDA(cuStreamWaitEvent(other, end, 0));
  ASSERT_CUDA(cuLaunchHostFunc(other, push, &second));
  ASSERT_CUDA(cuStreamSynchronize(other));
  EXPECT_EQ(order, (std::vector<int>{1, 2}));
  float milliseconds = 0;
  ASSERT_CUDA(cuEventElapsedTime(&milliseconds, begin, end));
  EXPECT_GE(milliseconds, 19.0f);
  EXPECT_CUDA(CUDA_ERROR_INVALID_HANDLE, cuEventElapsedTime(&milliseconds, begin, never));
  ASSERT_CUDA(cuStreamDestroy(other));
  EXPECT_CUDA(CUDA_ERROR_INVALID_HANDLE, cuStreamSynchronize(other));
  for (const CUevent event : {begin, end, never}) ASSERT_CUDA(cuEventDestroy(event));
}

TEST_F(EmulatedCuda, GraphWithAPatchedNode) {
  const unsigned count = 1000;
  const CUdeviceptr in = allocate(4 * count), middle = allocate(4 * count), out = allocate(4 * count);
  CUgraph graph = nullptr;
  ASSERT_CUDA(cuGraphCreate(&graph, 0));
  CUDA_MEMSET_NODE_PARAMS fill = {};
  fill.dst = in;
  fill.elementSize = 4;
  fill.value = 0x3f800000;
  fill.width = count;
  fill.height = 1;
  CUgraphNode fill_node = nullptr, kernel_node = nullptr, copy_node = nullptr, empty = nullptr;
  ASSERT_CUDA(cuGraphAddMemsetNode(&fill_node, graph, nullptr, 0, &fill, context_));
  float factor = 3;
  unsigned n = count;
  void* arguments[] = {const_cast<CUdeviceptr*>(&middle), const_cast<CUdeviceptr*>(&in), &factor, &n};
  CUDA_KERNEL_NODE_PARAMS kernel = {};
  kernel.func = function(module_, "scale");
  kernel.gridDimX = 8;
  kernel.gridDimY = kernel.gridDimZ = kernel.blockDimY = kernel.blockDimZ = 1;
  kernel.blockDimX = 128;
  kernel.kernelParams = arguments;
  ASSERT_CUDA(cuGraphAddKernelNode(&kernel_node, graph, &fill_node, 1, &kernel));
  ASSERT_CUDA(cuGraphAddEmptyNode(&empty, graph, &kernel_node, 1));
  CUDA_MEMCPY3D copy = {};
  copy.srcMemoryType = copy.dstMemoryType = CU_MEMORYTYPE_DEVICE;
  copy.srcDevice = middle;
  copy.dstDevice = out;
  copy.WidthInBytes = 4 * count;
  copy.Height = copy.Depth = 1;
  copy.dstPitch = std::size_t{1} << 31;
  EXPECT_CUDA(CUDA_ERROR_INVALID_VALUE, cuGraphAddMemcpyNode(&copy_node, graph, &empty, 1, &copy, context_));
  copy.dstPitch = 0;
  ASSERT_CUDA(cuGraphAddMemcpyNode(&copy_node, graph, &empty, 1, &copy, context_));
  CUgraphExec executable = nullptr;
  ASSERT_CUDA(cuGraphInstantiate(&executable, graph, 0));
  const auto result = [&] {
    EXPECT_CUDA(CUDA_SUCCESS, cuGraphLaunch(executable, stream_));
    EXPECT_CUDA(CUDA_SUCCESS, cuStreamSynchronize(stream_));
    return download<float>(out, count);
  };
  EXPECT_EQ(result(), std::vector<float>(count, 3));
  factor = 5;
  EXPECT_EQ(result(), std::vector<float>(count, 3)) << "arguments are taken when the node is made";
  ASSERT_CUDA(cuGraphExecKernelNodeSetParams(executable, kernel_node, &kernel));
  EXPECT_EQ(result(), std::vector<float>(count, 5));
  fill.value = 0x40000000;
  ASSERT_CUDA(cuGraphExecMemsetNodeSetParams(executable, fill_node, &fill, context_));
  EXPECT_EQ(result(), std::vector<float>(count, 10));
  EXPECT_CUDA(CUDA_ERROR_INVALID_VALUE, cuGraphExecKernelNodeSetParams(executable, fill_node, &kernel))
      << "not a kernel's";
  kernel.blockDimX = 2048;
  EXPECT_CUDA(CUDA_ERROR_INVALID_VALUE, cuGraphExecKernelNodeSetParams(executable, kernel_node, &kernel));
  CUgraphExecUpdateResultInfo info = {};
  EXPECT_CUDA(CUDA_SUCCESS, cuGraphExecUpdate(executable, graph, &info));
  EXPECT_EQ(result(), std::vector<float>(count, 3)) << "the graph as it was made";
  EXPECT_CUDA(CUDA_SUCCESS, cuGraphExecDestroy(executable));
  EXPECT_CUDA(CUDA_SUCCESS, cuGraphDestroy(graph));
  EXPECT_CUDA(CUDA_ERROR_INVALID_VALUE, cuGraphLaunch(executable, stream_));
}

TEST_F(EmulatedCuda, AGraphInACircleIsRefused) {
  CUgraph graph = nullptr;
  CUgraphNode a = nullptr, b = nullptr;
  ASSERT_CUDA(cuGraphCreate(&graph, 0));
  ASSERT_CUDA(cuGraphAddEmptyNode(&a, graph, nullptr, 0));
  ASSERT_CUDA(cuGraphAddEmptyNode(&b, graph, &a, 1));
  ASSERT_CUDA(cuGraphAddDependencies(graph, &b, &a, nullptr, 1));
  CUgraphExec executable = nullptr;
  EXPECT_CUDA(CUDA_ERROR_INVALID_VALUE, cuGraphInstantiate(&executable, graph, 0));
  ASSERT_CUDA(cuGraphDestroy(graph));
}

TEST_F(EmulatedCuda, LaunchesThatCannotBe) {
  const CUfunction scale = function(module_, "scale"), diverge = function(module_, "diverge");
  const CUdeviceptr a = allocate(4);
  EXPECT_CUDA(CUDA_ERROR_INVALID_VALUE, run(scale, {.block_x = 1025}, a, a, 1.0f, 1u));
  EXPECT_CUDA(CUDA_ERROR_INVALID_VALUE, run(scale, {.block_x = 64, .block_y = 32}, a, a, 1.0f, 1u));
  EXPECT_CUDA(CUDA_ERROR_INVALID_VALUE, run(scale, {.grid_x = 0}, a, a, 1.0f, 1u));
  EXPECT_CUDA(CUDA_ERROR_INVALID_VALUE, run(scale, {.grid_y = 65536}, a, a, 1.0f, 1u));
  EXPECT_CUDA(CUDA_ERROR_INVALID_VALUE, run(scale, {.shared_bytes = 49153}, a, a, 1.0f, 1u));
  EXPECT_CUDA(CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES, run(diverge, {.block_x = 129}));
  EXPECT_CUDA(CUDA_ERROR_INVALID_VALUE, cuLaunchKernel(scale, 1, 1, 1, 1, 1, 1, 0, stream_, nullptr, nullptr))
      << "no arguments";
  ASSERT_CUDA(cuFuncSetAttribute(scale, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 100000));
  EXPECT_CUDA(CUDA_SUCCESS, run(scale, {.shared_bytes = 100000}, a, a, 1.0f, 1u));
  EXPECT_CUDA(CUDA_ERROR_INVALID_VALUE,
              cuFuncSetAttribute(scale, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 300000));
}

TEST_F(EmulatedCuda, AWildPointerStays) {
  const CUdeviceptr a = allocate(4096);
  EXPECT_CUDA(CUDA_ERROR_ILLEGAL_ADDRESS,
              run(function(module_, "scale"), {.block_x = 32}, a, a + (1ull << 40), 1.0f, 32u));
  CUdeviceptr next = 0;
  EXPECT_CUDA(CUDA_ERROR_ILLEGAL_ADDRESS, cuMemAlloc(&next, 4));
  EXPECT_CUDA(CUDA_ERROR_ILLEGAL_ADDRESS, cuCtxSynchronize());
  ASSERT_CUDA(cuDevicePrimaryCtxReset(0));
  EXPECT_CUDA(CUDA_SUCCESS, cuMemAlloc(&next, 4));
}

TEST_F(EmulatedCuda, AHostPointerIsWildToo) {
  std::vector<float> host(32);
  const CUdeviceptr a = allocate(4096);
  EXPECT_CUDA(CUDA_ERROR_ILLEGAL_ADDRESS, run(function(module_, "scale"), {.block_x = 32}, a, host.data(), 1.0f, 32u));
}

TEST_F(EmulatedCuda, ReadsPastTheEndAreWild) {
  const CUdeviceptr a = allocate(4096);
  EXPECT_CUDA(CUDA_ERROR_ILLEGAL_ADDRESS,
              run(function(module_, "scale"), {.grid_x = 33, .block_x = 32}, a, a, 1.0f, 1056u));
}

TEST_F(EmulatedCuda, TrapsAndDivergentBarriers) {
  EXPECT_CUDA(CUDA_ERROR_LAUNCH_FAILED, run(function(module_, "trap"), {.block_x = 32}));
  ASSERT_CUDA(cuDevicePrimaryCtxReset(0));
  EXPECT_CUDA(CUDA_ERROR_LAUNCH_TIMEOUT, run(function(module_, "diverge"), {.block_x = 64}));
}

TEST_F(EmulatedCuda, ModulesThatCannotBe) {
  CUmodule module = nullptr;
  std::string log;
  EXPECT_CUDA(CUDA_ERROR_NO_BINARY_FOR_GPU, load(std::string("\x7f"
                                                             "ELF\2\1\1",
                                                             7),
                                                 &module, &log));
  EXPECT_CUDA(CUDA_ERROR_INVALID_PTX, load("this is no PTX", &module, &log));
  EXPECT_NE(log.find("PTX line 1"), std::string::npos) << log;
  const std::string newer = std::string(kScale).replace(std::string(kScale).find("sm_80"), 5, "sm_100");
  EXPECT_CUDA(CUDA_ERROR_NO_BINARY_FOR_GPU, load(newer, &module, &log));
  EXPECT_NE(log.find("sm_100"), std::string::npos) << log;
  CUfunction kernel = nullptr;
  EXPECT_CUDA(CUDA_ERROR_NOT_FOUND, cuModuleGetFunction(&kernel, module_, "scales"));
  int bytes = -1;
  ASSERT_CUDA(cuFuncGetAttribute(&bytes, CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES, function(module_, "scale")));
  EXPECT_EQ(bytes, 0);
  ASSERT_CUDA(cuModuleUnload(module_));
  EXPECT_CUDA(CUDA_ERROR_INVALID_HANDLE, cuModuleGetFunction(&kernel, module_, "scale"));
}

TEST_F(EmulatedCuda, VirtualMemoryIsMappedWhereItIsWanted) {
  CUmemAllocationProp properties = {};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  std::size_t step = 0;
  ASSERT_CUDA(cuMemGetAllocationGranularity(&step, &properties, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
  CUdeviceptr range = 0;
  ASSERT_CUDA(cuMemAddressReserve(&range, 2 * step, 0, 0, 0));
  CUmemGenericAllocationHandle memory = 0;
  ASSERT_CUDA(cuMemCreate(&memory, step, &properties, 0));
  std::size_t free = 0, total = 0;
  ASSERT_CUDA(cuMemGetInfo(&free, &total));
  EXPECT_EQ(total - free, step);
  EXPECT_CUDA(CUDA_ERROR_INVALID_VALUE, cuMemcpyHtoD(range, &free, 8)) << "nothing is mapped";
  ASSERT_CUDA(cuMemMap(range + step, step, 0, memory, 0));
  CUmemAccessDesc access = {};
  access.location = properties.location;
  access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  ASSERT_CUDA(cuMemSetAccess(range + step, step, &access, 1));
  ASSERT_CUDA(cuMemsetD32(range + step, 0x3f800000, 64));
  EXPECT_CUDA(CUDA_SUCCESS, run(function(module_, "scale"), {.block_x = 64}, range + step, range + step, 4.0f, 64u));
  EXPECT_EQ(download<float>(range + step, 64), std::vector<float>(64, 4));
  ASSERT_CUDA(cuMemUnmap(range + step, step));
  ASSERT_CUDA(cuMemRelease(memory));
  EXPECT_CUDA(CUDA_ERROR_ILLEGAL_ADDRESS,
              run(function(module_, "scale"), {.block_x = 64}, range + step, range + step, 4.0f, 64u));
  ASSERT_CUDA(cuMemAddressFree(range, 2 * step));
}

}  // namespace
}  // namespace crucible::emulators::nvidia::testing
