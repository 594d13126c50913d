// What a plugin may do wrong, each with the code that the driver would answer.
#include <gmock/gmock.h>
#include <signal.h>

#include "tests/emulators/amd/test_kernels.hpp"
#include "tests/emulators/amd/testing.hpp"

namespace crucible::emulator {
namespace {

class EmulatedHipMisuse : public HipTest {
 protected:
  /// After a launch that stops the device: everything answers its error, until it is reset.
  void expect_stopped(const char* error) {
    EXPECT_STREQ(hip().hipGetErrorName(hip().hipDeviceSynchronize()), error);
    void* memory = nullptr;
    EXPECT_STREQ(hip().hipGetErrorName(hip().hipMalloc(&memory, 1)), error);
    EXPECT_STREQ(hip().hipGetErrorName(hip().hipStreamQuery(nullptr)), error);
    EXPECT_HIP(hip().hipDeviceReset());
    float* const values = upload(std::vector<float>{1, 2});
    ASSERT_HIP_OK(launch(kernel(kElementwise, "scale"), {.block_x = 2}, values, values, 2.0f, std::int64_t{2}));
    EXPECT_THAT(download(values, 2), ::testing::ElementsAre(3, 5));
  }
};

TEST_F(EmulatedHipMisuse, WildAccessesOfKernels) {
  float* memory = allocate<float>(1024);
  ASSERT_HIP_OK(launch(kernel(kBad, "wild"), {.block_x = 64}, memory, 1024L));
  expect_stopped("hipErrorIllegalAddress");
  memory = allocate<float>(1024);
  ASSERT_HIP_OK(launch(kernel(kBad, "wild_behind_a_barrier"), {.grid_x = 5, .block_x = 64}, memory, -1L));
  expect_stopped("hipErrorIllegalAddress");
  ASSERT_HIP_OK(launch(kernel(kBad, "wild"), {}, static_cast<float*>(nullptr), 0L));
  expect_stopped("hipErrorIllegalAddress");
  std::vector<float> of_the_host(1024);
  ASSERT_HIP_OK(launch(kernel(kBad, "wild"), {}, of_the_host.data(), 0L));
  expect_stopped("hipErrorIllegalAddress");
  memory = allocate<float>(1024);
  EXPECT_HIP(hip().hipFree(memory));
  ASSERT_HIP_OK(launch(kernel(kBad, "wild"), {}, memory, 0L));
  expect_stopped("hipErrorIllegalAddress");
}

TEST_F(EmulatedHipMisuse, SharedMemoryThatWasNotAskedFor) {
  int* const out = allocate<int>(64);
  const hipFunction_t overrun = kernel(kBad, "shared_overrun");
  ASSERT_HIP_OK(launch(overrun, {.block_x = 64, .shared = 256}, out, 63));
  EXPECT_HIP(hip().hipDeviceSynchronize());
  ASSERT_HIP_OK(launch(overrun, {.block_x = 64, .shared = 256}, out, 64));
  expect_stopped("hipErrorIllegalAddress");
}

TEST_F(EmulatedHipMisuse, DivergentBarriersAndTraps) {
  int* out = allocate<int>(64);
  ASSERT_HIP_OK(launch(kernel(kBad, "half_ended"), {.block_x = 64}, out));
  EXPECT_EQ(download(out, 32)[31], 3);
  ASSERT_HIP_OK(launch(kernel(kBad, "divergent"), {.block_x = 64}, out));
  expect_stopped("hipErrorLaunchTimeOut");
  out = allocate<int>(64);
  ASSERT_HIP_OK(launch(kernel(kBad, "trap"), {.block_x = 64}, out));
  expect_stopped("hipErrorLaunchFailure");
}

TEST_F(EmulatedHipMisuse, LaunchesThatTheDeviceCannotDo) {
  float* const memory = allocate<float>(64);
  const hipFunction_t wild = kernel(kBad, "wild");
  EXPECT_HIP_ERROR(launch(wild, {.block_x = 1025}, memory, 0L), hipErrorInvalidConfiguration);
  EXPECT_HIP_ERROR(launch(wild, {.block_x = 512, .block_y = 3}, memory, 0L), hipErrorInvalidConfiguration);
  EXPECT_HIP_ERROR(launch(wild, {.grid_x = 0}, memory, 0L), hipErrorInvalidConfiguration);
  EXPECT_HIP_ERROR(launch(wild, {.block_x = 0}, memory, 0L), hipErrorInvalidConfiguration);
  EXPECT_HIP_ERROR(launch(wild, {.grid_x = 1u << 31, .block_x = 64}, memory, 0L), hipErrorInvalidConfiguration);
  EXPECT_HIP_ERROR(launch(wild, {.shared = 65537}, memory, 0L), hipErrorInvalidValue);
  const hipFunction_t sums = kernel(kReductions, "block_sums");  // 1 KiB of its own, bounds of 256 threads
  EXPECT_HIP_ERROR(launch(sums, {.block_x = 256, .shared = 65536 - 1023}, memory, memory, 1), hipErrorInvalidValue);
  EXPECT_HIP_ERROR(launch(sums, {.block_x = 257, .shared = 1024}, memory, memory, 1), hipErrorLaunchFailure);
  EXPECT_HIP_ERROR(hip().hipModuleLaunchKernel(nullptr, 1, 1, 1, 1, 1, 1, 0, nullptr, nullptr, nullptr),
                   hipErrorInvalidDeviceFunction);
  EXPECT_HIP_ERROR(hip().hipModuleLaunchKernel(wild, 1, 1, 1, 1, 1, 1, 0, nullptr, nullptr, nullptr),
                   hipErrorInvalidValue);
  EXPECT_HIP(hip().hipDeviceSynchronize());  // none of them harmed it
}

TEST_F(EmulatedHipMisuse, CopiesFillsAndFrees) {
  char host[200] = {};
  char* const memory = allocate<char>(100);
  EXPECT_HIP_ERROR(hip().hipMemcpy(memory + 1, host, 100, hipMemcpyHostToDevice), hipErrorInvalidValue);
  EXPECT_HIP_ERROR(hip().hipMemcpy(host, memory, 101, hipMemcpyDeviceToHost), hipErrorInvalidValue);
  EXPECT_HIP_ERROR(hip().hipMemcpy(host, memory, 1, hipMemcpyHostToDevice), hipErrorInvalidMemcpyDirection);
  EXPECT_HIP_ERROR(hip().hipMemcpy(host, memory, 1, static_cast<hipMemcpyKind>(9)), hipErrorInvalidMemcpyDirection);
  EXPECT_HIP_ERROR(hip().hipMemcpy(nullptr, memory, 1, hipMemcpyDefault), hipErrorInvalidValue);
  EXPECT_HIP(hip().hipMemcpy(host, memory, 0, hipMemcpyDefault));
  EXPECT_HIP_ERROR(hip().hipMemset(memory, 0, 101), hipErrorInvalidValue);
  EXPECT_HIP_ERROR(hip().hipMemset(host, 0, 1), hipErrorInvalidValue);
  EXPECT_HIP_ERROR(hip().hipFree(memory + 1), hipErrorInvalidValue);
  EXPECT_HIP_ERROR(hip().hipFree(host), hipErrorInvalidValue);
  EXPECT_HIP(hip().hipFree(memory));
  EXPECT_HIP_ERROR(hip().hipFree(memory), hipErrorInvalidValue);
  EXPECT_HIP_ERROR(hip().hipMemcpy(host, memory, 1, hipMemcpyDeviceToHost), hipErrorInvalidValue);
  EXPECT_HIP_ERROR(hip().hipHostFree(host), hipErrorInvalidValue);
}

TEST_F(EmulatedHipMisuse, HandlesThatAreNone) {
  hipStream_t stream = nullptr;
  hipEvent_t event = nullptr;
  EXPECT_HIP(hip().hipStreamCreate(&stream));
  EXPECT_HIP(hip().hipEventCreate(&event));
  EXPECT_HIP(hip().hipStreamDestroy(stream));
  EXPECT_HIP_ERROR(hip().hipStreamDestroy(stream), hipErrorInvalidHandle);
  EXPECT_HIP_ERROR(hip().hipEventRecord(event, stream), hipErrorInvalidHandle);
  EXPECT_HIP_ERROR(hip().hipStreamSynchronize(stream), hipErrorInvalidHandle);
  EXPECT_HIP(hip().hipEventDestroy(event));
  EXPECT_HIP_ERROR(hip().hipEventRecord(event, nullptr), hipErrorInvalidHandle);
  EXPECT_HIP_ERROR(hip().hipEventDestroy(event), hipErrorInvalidHandle);
  hipGraph_t graph = nullptr;
  EXPECT_HIP(hip().hipGraphCreate(&graph, 0));
  EXPECT_HIP(hip().hipGraphDestroy(graph));
  EXPECT_HIP_ERROR(hip().hipGraphDestroy(graph), hipErrorInvalidValue);
  EXPECT_HIP_ERROR(hip().hipGraphLaunch(nullptr, nullptr), hipErrorInvalidValue);
  EXPECT_HIP_ERROR(hip().hipModuleUnload(nullptr), hipErrorInvalidHandle);
}

TEST_F(EmulatedHipMisuse, ImagesThatAreNone) {
  hipModule_t module = nullptr;
  hipFunction_t function = nullptr;
  EXPECT_HIP_ERROR(hip().hipModuleLoadData(&module, "\177ELF and so on"), hipErrorNoBinaryForGpu);
  EXPECT_HIP_ERROR(hip().hipModuleLoadData(&module, nullptr), hipErrorInvalidValue);
  std::string code = compile(kElementwise);
  const std::string whole = code;
  code[code.size() / 2] ^= 1;
  EXPECT_HIP_ERROR(hip().hipModuleLoadData(&module, code.c_str()), hipErrorInvalidImage);
  code = whole;
  code.replace(code.find("kernel "), 3, "xxx");
  EXPECT_HIP_ERROR(hip().hipModuleLoadData(&module, code.c_str()), hipErrorInvalidImage);
  EXPECT_HIP(hip().hipModuleLoadData(&module, whole.c_str()));
  EXPECT_HIP_ERROR(hip().hipModuleGetFunction(&function, module, "nowhere"), hipErrorNotFound);
  EXPECT_HIP(hip().hipModuleUnload(module));
  EXPECT_HIP_ERROR(hip().hipModuleGetFunction(&function, module, "scale"), hipErrorInvalidHandle);
}

using EmulatedHipMisuseDeathTest = EmulatedHipMisuse;

TEST_F(EmulatedHipMisuseDeathTest, AHostThatFollowsADevicePointerFaults) {
  float* const memory = allocate<float>(4);
  EXPECT_EXIT(*static_cast<volatile float*>(memory) = 1, ::testing::KilledBySignal(SIGSEGV), "");
}

}  // namespace
}  // namespace crucible::emulator
