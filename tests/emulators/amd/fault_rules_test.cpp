// Every action of the fault grammar at work on the emulated driver; each test looks at the log too: a fault that did
// not fire proves nothing.
#include <gmock/gmock.h>

#include <chrono>
#include <functional>

#include "tests/emulators/amd/test_kernels.hpp"
#include "tests/emulators/amd/testing.hpp"

namespace crucible::emulator {
namespace {

using ::testing::HasSubstr;

class EmulatedHipFaults : public HipTest {
 protected:
  hipError_t scale(float* memory, float factor = 2.0f) {
    if (scale_ == nullptr) scale_ = kernel(kElementwise, "scale");
    return launch(scale_, {.block_x = 4}, memory, memory, factor, std::int64_t{4});
  }
  double milliseconds_of(const std::function<void()>& work) {
    const auto begin = std::chrono::steady_clock::now();
    work();
    return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count();
  }
  hipFunction_t scale_ = nullptr;
};

TEST_F(EmulatedHipFaults, OutOfMemoryAtTheNthAllocation) {
  set_faults("oom@alloc(hipMalloc)#2");
  void* memory = nullptr;
  EXPECT_HIP(hip().hipMalloc(&memory, 16));
  EXPECT_HIP_ERROR(hip().hipMalloc(&memory, 16), hipErrorOutOfMemory);
  EXPECT_HIP(hip().hipMalloc(&memory, 16));
  EXPECT_EQ(log(), "oom@alloc(hipMalloc) match 2\n");
}

TEST_F(EmulatedHipFaults, FailuresOfCallsWithTheirCodes) {
  set_faults("fail@init; fail@compile; fail@load; fail:code=hipErrorECCNotCorrectable@sync(hipDeviceSynchronize)");
  EXPECT_HIP_ERROR(hip().hipInit(0), hipErrorNoDevice);
  compile(kElementwise);
  EXPECT_EQ(result_, HIPRTC_ERROR_COMPILATION);
  EXPECT_THAT(words_, HasSubstr("an injected fault: fail@compile"));
  hipModule_t module = nullptr;
  EXPECT_HIP_ERROR(hip().hipModuleLoadData(&module, ""), hipErrorInvalidImage);
  EXPECT_HIP_ERROR(hip().hipDeviceSynchronize(), hipErrorECCNotCorrectable);
  EXPECT_EQ(log(),
            "fail@init(hipInit) match 1\nfail@compile(test.hip) match 1\nfail@load(hipModuleLoadData) match 1\n"
            "fail@sync(hipDeviceSynchronize) match 1\n");
}

TEST_F(EmulatedHipFaults, ADeviceIsLostAtALaunch) {
  set_faults("lost@launch(scale)#2");
  float* const memory = upload(std::vector<float>{1, 2, 3, 4});
  EXPECT_HIP(scale(memory));
  EXPECT_HIP(hip().hipDeviceSynchronize());
  EXPECT_HIP(scale(memory));  // asynchronous: nothing is known yet
  EXPECT_HIP_ERROR(hip().hipDeviceSynchronize(), hipErrorNoDevice);
  EXPECT_HIP_ERROR(scale(memory), hipErrorNoDevice);
  void* more = nullptr;
  EXPECT_HIP_ERROR(hip().hipMalloc(&more, 1), hipErrorNoDevice);
  EXPECT_EQ(log(), "lost@launch(scale) match 2\n");
}

TEST_F(EmulatedHipFaults, OnlyTheDeviceThatWasLostIsLost) {
  set_faults("lost:code=hipErrorUnknown@launch#1");
  set("CRUCIBLE_EMU_DEVICES", "2");
  float* const memory = upload(std::vector<float>{1, 2, 3, 4});
  EXPECT_HIP(scale(memory));
  EXPECT_HIP_ERROR(hip().hipDeviceSynchronize(), hipErrorUnknown);
  EXPECT_HIP(hip().hipSetDevice(1));
  float* const other = upload(std::vector<float>{1, 2, 3, 4});
  scale_ = nullptr;
  EXPECT_HIP(scale(other));
  EXPECT_THAT(download(other, 4), ::testing::ElementsAre(3, 5, 7, 9));
}

TEST_F(EmulatedHipFaults, TrapsAndFailuresOfLaunches) {
  for (const auto& [rule, error] : {std::pair{"trap@launch", "hipErrorLaunchFailure"},
                                    {"fail@launch", "hipErrorLaunchFailure"},
                                    {"oom@launch", "hipErrorOutOfMemory"},
                                    {"fail:code=hipErrorIllegalAddress@launch", "hipErrorIllegalAddress"}}) {
    set_faults(rule);
    scale_ = nullptr;
    float* const memory = upload(std::vector<float>{1, 2, 3, 4});
    EXPECT_HIP(scale(memory));
    EXPECT_STREQ(hip().hipGetErrorName(hip().hipDeviceSynchronize()), error) << rule;
    EXPECT_THAT(log(), HasSubstr("@launch(scale) match 1\n")) << rule;
  }
}

TEST_F(EmulatedHipFaults, AHangTakesItsTimeAndGoesOn) {
  set_faults("hang:60ms@launch(scale)#1");
  float* const memory = upload(std::vector<float>{1, 2, 3, 4});
  EXPECT_HIP(scale(memory));
  EXPECT_HIP_ERROR(hip().hipStreamQuery(nullptr), hipErrorNotReady);
  EXPECT_GE(milliseconds_of([] { EXPECT_HIP(hip().hipDeviceSynchronize()); }), 30);
  EXPECT_THAT(download(memory, 4), ::testing::ElementsAre(3, 5, 7, 9));
  EXPECT_EQ(log(), "hang@launch(scale) match 1\n");
}

TEST_F(EmulatedHipFaults, AHangWithoutEndEndsWithAReset) {
  set_faults("hang@launch(scale)#1");
  float* const memory = upload(std::vector<float>{1, 2, 3, 4});
  EXPECT_HIP(scale(memory));
  usleep(20'000);
  EXPECT_HIP_ERROR(hip().hipStreamQuery(nullptr), hipErrorNotReady);
  EXPECT_HIP(hip().hipDeviceReset());
  EXPECT_HIP(hip().hipStreamQuery(nullptr));
}

TEST_F(EmulatedHipFaults, AWrongBitInAResult) {
  set_faults("flip:arg=0,byte=5,bit=7@launch(scale)#2");
  float* const memory = upload(std::vector<float>{1, 2, 3, 4});
  EXPECT_HIP(scale(memory, 1));
  EXPECT_THAT(download(memory, 4), ::testing::ElementsAre(2, 3, 4, 5));
  EXPECT_HIP(scale(memory, 1));
  const std::vector<float> result = download(memory, 4);
  EXPECT_EQ(result[0], 3.0f);
  EXPECT_NE(result[1], 4.0f);
  EXPECT_EQ(result[2], 5.0f);
  EXPECT_EQ(log(), "flip@launch(scale) match 2\n");
}

TEST_F(EmulatedHipFaults, AFlipThatHitsNothingSaysSo) {
  set_faults("flip:arg=2,byte=0@launch(scale); flip:byte=100@copy(d2h)");
  float* const memory = upload(std::vector<float>{1, 2, 3, 4});
  EXPECT_HIP(scale(memory, 1));
  download(memory, 4);
  EXPECT_THAT(log(), HasSubstr("flip: scale has no byte 0 behind argument 2\n"));
  EXPECT_THAT(log(), HasSubstr("flip: byte 100 is not in 16 bytes\n"));
}

TEST_F(EmulatedHipFaults, ASlowLinkAndAWrongBitOnIt) {
  set_faults("slow:0.001GBps@copy(h2d); flip:byte=1,bit=0@copy(d2h)#1; slow:30ms@copy(fill)");
  unsigned char* memory = nullptr;
  const std::vector<unsigned char> bytes(50'000, 3);
  EXPECT_GE(milliseconds_of([&] { memory = upload(bytes); }), 50);
  EXPECT_THAT(download(memory, 3), ::testing::ElementsAre(3, 2, 3));
  EXPECT_THAT(download(memory, 3), ::testing::ElementsAre(3, 3, 3));
  EXPECT_GE(milliseconds_of([&] { EXPECT_HIP(hip().hipMemset(memory, 0, 10)); }), 30);
  EXPECT_EQ(log(), "slow@copy(h2d) match 1\nflip@copy(d2h) match 1\nslow@copy(fill) match 1\n");
}

TEST_F(EmulatedHipFaults, OtherPlaces) {
  set_faults("fail@free#1; fail@record; fail@submit; fail@query(hipDeviceGetAttribute)");
  void* memory = nullptr;
  EXPECT_HIP(hip().hipMalloc(&memory, 1));
  EXPECT_HIP_ERROR(hip().hipFree(memory), hipErrorInvalidValue);
  EXPECT_HIP(hip().hipFree(memory));
  hipEvent_t event = nullptr;
  EXPECT_HIP(hip().hipEventCreate(&event));
  EXPECT_HIP_ERROR(hip().hipEventRecord(event, nullptr), hipErrorUnknown);
  int value = 0;
  EXPECT_HIP_ERROR(hip().hipDeviceGetAttribute(&value, hipDeviceAttributeWarpSize, 0), hipErrorUnknown);
  hipGraph_t graph = nullptr;
  hipGraphNode_t node = nullptr;
  hipGraphExec_t exec = nullptr;
  EXPECT_HIP(hip().hipGraphCreate(&graph, 0));
  EXPECT_HIP(hip().hipGraphAddEmptyNode(&node, graph, nullptr, 0));
  EXPECT_HIP(hip().hipGraphInstantiate(&exec, graph, nullptr, nullptr, 0));
  EXPECT_HIP_ERROR(hip().hipGraphLaunch(exec, nullptr), hipErrorUnknown);
  EXPECT_EQ(
      log(),
      "fail@free(hipFree) match 1\nfail@record(hipEventRecord) match 1\nfail@query(hipDeviceGetAttribute) match 1\n"
      "fail@submit(hipGraphLaunch) match 1\n");
}

using EmulatedHipFaultsDeathTest = EmulatedHipFaults;

TEST_F(EmulatedHipFaultsDeathTest, AnUnknownCodeEndsTheProcess) {
  EXPECT_DEATH(
      {
        set_faults("fail:code=hipErrorNowhere@init");
        hip().hipInit(0);
      },
      "code=hipErrorNowhere is no error of HIP that the emulator knows");
}

}  // namespace
}  // namespace crucible::emulator
