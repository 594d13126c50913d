// Streams are asynchronous, events order them and tell times.
#include <gmock/gmock.h>

#include "tests/emulators/amd/test_kernels.hpp"
#include "tests/emulators/amd/testing.hpp"

namespace crucible::emulator {
namespace {

class EmulatedHipStream : public HipTest {
 protected:
  void SetUp() override {
    set_faults("slow:40ms@launch(places)");
    places_ = kernel(kElementwise, "places");
    out_ = upload(std::vector<int>(4));
    EXPECT_HIP(hip().hipHostMalloc(&pinned_, 16, 0));
  }
  /// A launch that takes 40 ms.
  void launch_slowly(hipStream_t stream) {
    void* arguments[] = {&out_};
    EXPECT_HIP(hip().hipModuleLaunchKernel(places_, 1, 1, 1, 4, 1, 1, 0, stream, arguments, nullptr));
  }
  int result() const { return static_cast<volatile int*>(pinned_)[3]; }
  hipFunction_t places_ = nullptr;
  int* out_ = nullptr;
  void* pinned_ = nullptr;
};

TEST_F(EmulatedHipStream, WorkIsBehindTheCallersBack) {
  hipStream_t stream = nullptr;
  EXPECT_HIP(hip().hipStreamCreateWithFlags(&stream, hipStreamNonBlocking));
  launch_slowly(stream);
  EXPECT_HIP(hip().hipMemcpyAsync(pinned_, out_, 16, hipMemcpyDeviceToHost, stream));
  EXPECT_HIP_ERROR(hip().hipStreamQuery(stream), hipErrorNotReady);
  EXPECT_NE(result(), 30);
  EXPECT_HIP(hip().hipStreamSynchronize(stream));
  EXPECT_HIP(hip().hipStreamQuery(stream));
  EXPECT_EQ(result(), 30);
  EXPECT_HIP(hip().hipStreamDestroy(stream));
}

TEST_F(EmulatedHipStream, AMissingWaitShowsAndAnEventIsOne) {
  hipStream_t first = nullptr, second = nullptr;
  hipEvent_t event = nullptr;
  EXPECT_HIP(hip().hipStreamCreateWithFlags(&first, hipStreamNonBlocking));
  EXPECT_HIP(hip().hipStreamCreateWithFlags(&second, hipStreamNonBlocking));
  EXPECT_HIP(hip().hipEventCreateWithFlags(&event, hipEventDisableTiming));
  launch_slowly(first);
  EXPECT_HIP(hip().hipEventRecord(event, first));
  EXPECT_HIP(hip().hipMemcpyAsync(pinned_, out_, 16, hipMemcpyDeviceToHost, second));
  EXPECT_HIP(hip().hipStreamSynchronize(second));
  EXPECT_EQ(result(), 0);
  EXPECT_HIP_ERROR(hip().hipEventQuery(event), hipErrorNotReady);
  EXPECT_HIP(hip().hipStreamWaitEvent(second, event, 0));
  EXPECT_HIP(hip().hipMemcpyAsync(pinned_, out_, 16, hipMemcpyDeviceToHost, second));
  EXPECT_HIP(hip().hipStreamSynchronize(second));
  EXPECT_EQ(result(), 30);
  EXPECT_HIP(hip().hipEventQuery(event));
}

TEST_F(EmulatedHipStream, TheDefaultStreamWaitsForBlockingOnes) {
  hipStream_t blocking = nullptr;
  EXPECT_HIP(hip().hipStreamCreate(&blocking));
  launch_slowly(blocking);
  EXPECT_HIP(hip().hipMemcpyAsync(pinned_, out_, 16, hipMemcpyDeviceToHost, nullptr));
  EXPECT_HIP(hip().hipStreamSynchronize(nullptr));
  EXPECT_EQ(result(), 30);
}

TEST_F(EmulatedHipStream, EventsTellTimes) {
  hipEvent_t begin = nullptr, end = nullptr, untimed = nullptr;
  float milliseconds = 0;
  EXPECT_HIP(hip().hipEventCreate(&begin));
  EXPECT_HIP(hip().hipEventCreate(&end));
  EXPECT_HIP(hip().hipEventCreateWithFlags(&untimed, hipEventDisableTiming));
  EXPECT_HIP_ERROR(hip().hipEventElapsedTime(&milliseconds, begin, end), hipErrorInvalidHandle);
  EXPECT_HIP(hip().hipEventRecord(begin, nullptr));
  EXPECT_HIP(hip().hipEventRecord(untimed, nullptr));
  launch_slowly(nullptr);
  EXPECT_HIP(hip().hipEventRecord(end, nullptr));
  EXPECT_HIP_ERROR(hip().hipEventElapsedTime(&milliseconds, begin, end), hipErrorNotReady);
  EXPECT_HIP(hip().hipEventSynchronize(end));
  EXPECT_HIP(hip().hipEventElapsedTime(&milliseconds, begin, end));
  EXPECT_GE(milliseconds, 40);
  EXPECT_HIP_ERROR(hip().hipEventElapsedTime(&milliseconds, untimed, end), hipErrorInvalidHandle);
}

TEST_F(EmulatedHipStream, MemoryIsFreedInOrder) {
  void* memory = nullptr;
  EXPECT_HIP(hip().hipMallocAsync(&memory, 16, nullptr));
  launch_slowly(nullptr);
  EXPECT_HIP(hip().hipFreeAsync(memory, nullptr));
  EXPECT_HIP(hip().hipMemsetAsync(out_, 0, 16, nullptr));
  hipPointerAttribute_t attributes;
  EXPECT_HIP(hip().hipPointerGetAttributes(&attributes, memory));
  EXPECT_HIP(hip().hipDeviceSynchronize());
  EXPECT_HIP_ERROR(hip().hipPointerGetAttributes(&attributes, memory), hipErrorInvalidValue);
  EXPECT_HIP_ERROR(hip().hipFreeAsync(memory, nullptr), hipErrorInvalidValue);
}

TEST_F(EmulatedHipStream, AModuleMayGoWhileItsKernelRuns) {
  const std::string code = compile(kElementwise);
  hipModule_t module = nullptr;
  EXPECT_HIP(hip().hipModuleLoadData(&module, code.c_str()));
  EXPECT_HIP(hip().hipModuleGetFunction(&places_, module, "places"));
  launch_slowly(nullptr);
  EXPECT_HIP(hip().hipModuleUnload(module));
  EXPECT_EQ(download(out_, 4)[3], 30);
}

}  // namespace
}  // namespace crucible::emulator
