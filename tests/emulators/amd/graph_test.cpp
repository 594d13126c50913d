// Graphs built node by node, patched, updated, and run in every order that their dependencies allow.
#include <gmock/gmock.h>


#include "tests/emulators/amd/test_kernels.hpp"
#include "tests/emulators/amd/testing.hpp"

namespace crucible::emulator {
namespace {

using ::testing::ElementsAre;

class EmulatedHipGraph : public HipTest, public ::testing::WithParamInterface<const char*> {
 protected:
  void SetUp() override { set("CRUCIBLE_EMU_ORDER", GetParam()); }

  /// fill a, fill b, b = 2 a + 1 behind both, c = b behind that.
  void build() {
    a_ = allocate<float>(4), b_ = allocate<float>(4), c_ = allocate<float>(4);
    scale_ = kernel(kElementwise, "scale");
    EXPECT_HIP(hip().hipGraphCreate(&graph_, 0));
    hipMemsetParams fill = fill_of(a_, 0x40400000);  // 3.0
    EXPECT_HIP(hip().hipGraphAddMemsetNode(&fill_a_, graph_, nullptr, 0, &fill));
    fill = fill_of(b_, 0);
    EXPECT_HIP(hip().hipGraphAddMemsetNode(&fill_b_, graph_, nullptr, 0, &fill));
    const hipGraphNode_t fills[] = {fill_a_, fill_b_};
    with_kernel(2.0f, [&](const hipKernelNodeParams& params) {
      EXPECT_HIP(hip().hipGraphAddKernelNode(&kernel_, graph_, fills, 2, &params));
    });
    EXPECT_HIP(hip().hipGraphAddMemcpyNode1D(&copy_, graph_, &kernel_, 1, c_, b_, 16, hipMemcpyDeviceToDevice));
  }
  static hipMemsetParams fill_of(float* to, unsigned value) {
    return {.dst = to, .elementSize = 4, .height = 1, .pitch = 0, .value = value, .width = 4};
  }
  template <class Body>
  void with_kernel(float factor, Body body) {
    std::int64_t count = 4;
    void* arguments[] = {&b_, &a_, &factor, &count};
    body({.blockDim = {4, 1, 1}, .extra = nullptr, .func = scale_, .gridDim = {1, 1, 1}, .kernelParams = arguments,
          .sharedMemBytes = 0});
  }
  void run(hipGraphExec_t exec) {
    EXPECT_HIP(hip().hipMemset(c_, 0, 16));
    EXPECT_HIP(hip().hipGraphUpload(exec, nullptr));
    EXPECT_HIP(hip().hipGraphLaunch(exec, nullptr));
  }
  float *a_ = nullptr, *b_ = nullptr, *c_ = nullptr;
  hipFunction_t scale_ = nullptr;
  hipGraph_t graph_ = nullptr;
  hipGraphNode_t fill_a_ = nullptr, fill_b_ = nullptr, kernel_ = nullptr, copy_ = nullptr;
};
INSTANTIATE_TEST_SUITE_P(Orders, EmulatedHipGraph, ::testing::Values("forward", "reverse", "shuffled"),
                         [](const auto& info) { return std::string(info.param); });

TEST_P(EmulatedHipGraph, RunsAndIsPatched) {
  build();
  hipGraphExec_t exec = nullptr;
  EXPECT_HIP(hip().hipGraphInstantiate(&exec, graph_, nullptr, nullptr, 0));
  for (int round = 0; round < 5; ++round) {
    run(exec);
    EXPECT_THAT(download(c_, 4), ElementsAre(7, 7, 7, 7));
  }
  with_kernel(10.0f, [&](const hipKernelNodeParams& params) {
    EXPECT_HIP(hip().hipGraphExecKernelNodeSetParams(exec, kernel_, &params));
  });
  run(exec);
  EXPECT_THAT(download(c_, 4), ElementsAre(31, 31, 31, 31));
  const hipMemsetParams fill = fill_of(a_, 0x3f800000);  // 1.0
  EXPECT_HIP(hip().hipGraphExecMemsetNodeSetParams(exec, fill_a_, &fill));
  EXPECT_HIP(hip().hipGraphExecMemcpyNodeSetParams1D(exec, copy_, c_ + 1, b_, 12, hipMemcpyDeviceToDevice));
  run(exec);
  EXPECT_THAT(download(c_, 4), ElementsAre(0, 11, 11, 11));
  // The graph itself is as it was.
  hipGraphExec_t again = nullptr;
  EXPECT_HIP(hip().hipGraphInstantiate(&again, graph_, nullptr, nullptr, 0));
  EXPECT_HIP(hip().hipGraphDestroy(graph_));
  run(again);
  EXPECT_THAT(download(c_, 4), ElementsAre(7, 7, 7, 7));
  EXPECT_HIP(hip().hipGraphExecDestroy(exec));
  EXPECT_HIP_ERROR(hip().hipGraphLaunch(exec, nullptr), hipErrorInvalidValue);
}

TEST_P(EmulatedHipGraph, IsUpdatedFromAnotherOfTheSameShape) {
  build();
  hipGraphExec_t exec = nullptr;
  hipGraphExecUpdateResult result = hipGraphExecUpdateError;
  EXPECT_HIP(hip().hipGraphInstantiate(&exec, graph_, nullptr, nullptr, 0));
  with_kernel(4.0f, [&](const hipKernelNodeParams& params) {
    EXPECT_HIP(hip().hipGraphKernelNodeSetParams(kernel_, &params));
  });
  EXPECT_HIP(hip().hipGraphExecUpdate(exec, graph_, nullptr, &result));
  EXPECT_EQ(result, hipGraphExecUpdateSuccess);
  run(exec);
  EXPECT_THAT(download(c_, 4), ElementsAre(13, 13, 13, 13));
  hipGraphNode_t more = nullptr;
  EXPECT_HIP(hip().hipGraphAddEmptyNode(&more, graph_, &copy_, 1));
  EXPECT_HIP_ERROR(hip().hipGraphExecUpdate(exec, graph_, nullptr, &result), hipErrorGraphExecUpdateFailure);
  EXPECT_EQ(result, hipGraphExecUpdateErrorTopologyChanged);
}

TEST_P(EmulatedHipGraph, WrongNodesAreRefused) {
  build();
  std::size_t count = 0;
  EXPECT_HIP(hip().hipGraphGetNodes(graph_, nullptr, &count));
  EXPECT_EQ(count, 4u);
  hipGraph_t other = nullptr;
  hipGraphNode_t node = nullptr;
  EXPECT_HIP(hip().hipGraphCreate(&other, 0));
  EXPECT_HIP_ERROR(hip().hipGraphAddEmptyNode(&node, other, &kernel_, 1), hipErrorInvalidValue);
  EXPECT_HIP_ERROR(hip().hipGraphAddMemcpyNode1D(&node, graph_, nullptr, 0, c_, b_, 17, hipMemcpyDefault),
                   hipErrorInvalidValue);
  hipMemsetParams fill = fill_of(a_, 0);
  fill.elementSize = 3;
  EXPECT_HIP_ERROR(hip().hipGraphAddMemsetNode(&node, graph_, nullptr, 0, &fill), hipErrorInvalidValue);
  with_kernel(1.0f, [&](hipKernelNodeParams params) {
    params.blockDim.x = 2000;
    EXPECT_HIP_ERROR(hip().hipGraphAddKernelNode(&node, graph_, nullptr, 0, &params), hipErrorInvalidConfiguration);
  });
  hipGraphExec_t exec = nullptr;
  EXPECT_HIP(hip().hipGraphInstantiate(&exec, graph_, nullptr, nullptr, 0));
  with_kernel(1.0f, [&](const hipKernelNodeParams& params) {
    EXPECT_HIP_ERROR(hip().hipGraphExecKernelNodeSetParams(exec, copy_, &params), hipErrorInvalidValue);
  });
  EXPECT_HIP(hip().hipGraphAddDependencies(graph_, &copy_, &fill_a_, 1));  // a cycle
  char words[100] = "";
  EXPECT_HIP_ERROR(hip().hipGraphInstantiate(&exec, graph_, nullptr, words, sizeof words), hipErrorInvalidValue);
  EXPECT_STREQ(words, "the dependencies of the graph have a cycle");
}

/// Without the dependency some order shows that it is missing.
TEST_P(EmulatedHipGraph, AMissingDependencyShowsInAnotherOrder) {
  build();
  hipGraph_t wrong = nullptr;
  hipGraphNode_t kernel = nullptr, copy = nullptr;
  EXPECT_HIP(hip().hipGraphCreate(&wrong, 0));
  with_kernel(2.0f, [&](const hipKernelNodeParams& params) {
    EXPECT_HIP(hip().hipGraphAddKernelNode(&kernel, wrong, nullptr, 0, &params));
  });
  EXPECT_HIP(hip().hipGraphAddMemcpyNode1D(&copy, wrong, nullptr, 0, c_, b_, 16, hipMemcpyDeviceToDevice));
  hipGraphExec_t exec = nullptr;
  EXPECT_HIP(hip().hipGraphInstantiate(&exec, wrong, nullptr, nullptr, 0));
  int right = 0;
  for (int round = 0; round < 20; ++round) {
    EXPECT_HIP(hip().hipMemsetD32Async(a_, 0x40400000, 4, nullptr));
    EXPECT_HIP(hip().hipMemset(b_, 0, 16));
    run(exec);
    right += download(c_, 4)[0] == 7.0f;
  }
  if (GetParam() == std::string("forward")) {
    EXPECT_EQ(right, 20);
  } else {
    EXPECT_LT(right, 20);
  }
}

}  // namespace
}  // namespace crucible::emulator
