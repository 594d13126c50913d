// Convolutions by cuDNN through the loader, on the emulated driver and library: the cases that all such plugins have
// (plugins/sdk/testing), and what is said of a library that is absent, too old or fails.
#include <cstdio>
#include <cstdlib>
#include <filesystem>

#include "backends/nvidia/testing.hpp"
#include "plugins/sdk/testing/device_convolutions.hpp"

namespace crucible::backend {
namespace {

using ::testing::HasSubstr;

GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(DevicePlugin);  // those are nvidia_test's

INSTANTIATE_TEST_SUITE_P(Nvidia, DeviceConvolutions, ::testing::Values(with_cudnn()),
                         ::testing::PrintToStringParamName());

class NvidiaConvolutions : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!std::filesystem::exists(emulated_cudnn()))
      GTEST_SKIP() << "no emulated cuDNN was built (crucible_emulated_cudnn)";
  }
  static void expect_told(const char* rules, const std::string& part, const Options& more = {},
                          std::uint32_t dtype = 8) {
    GTEST_FLAG_SET(death_test_style, "threadsafe");
    EXPECT_EXIT(
        {
          const std::string told = run_convolution_under_faults(with_cudnn(more), rules, CRUCIBLE_LIB_CONV2D, dtype);
          std::fprintf(stderr, "told: %s\n", told.c_str());
          std::_Exit(part.empty() ? !told.empty() : told.find(part) == std::string::npos);
        },
        ::testing::ExitedWithCode(0), "told: ")
        << rules;
  }
  static std::string told_of(const Options& options) {
    const auto device = try_open(with_cudnn(options));
    return device ? property(*device, "convolutions") : device.error().message;
  }
};

TEST_F(NvidiaConvolutions, DilatedGroups) {
  const auto device = take(try_open(with_cudnn()));
  for (const std::uint32_t kind :
       {CRUCIBLE_LIB_CONV2D, CRUCIBLE_LIB_CONV2D_BACKWARD_INPUT, CRUCIBLE_LIB_CONV2D_BACKWARD_WEIGHT})
    EXPECT_EQ(
        run_convolution(
            device,
            convolution_of({.outputs = 8, .groups = 4, .kernel = {3, 2}, .stride = {1, 2}, .dilation = {1, 2}}, kind)),
        "");
}

TEST_F(NvidiaConvolutions, TheLibraryIsNamedAndAnAbsentOneIsSaid) {
  EXPECT_THAT(told_of({}), HasSubstr("cuDNN 9."));
  EXPECT_THAT(told_of({{"dnn", "none"}}), HasSubstr("none (the option dnn is none; convolutions are generated"));
  EXPECT_THAT(told_of({{"dnn", "auto"}, {"cudnn", "/nowhere/libcudnn.so.9"}}),
              HasSubstr("none (cuDNN /nowhere/libcudnn.so.9 cannot be loaded"));
  EXPECT_THAT(told_of({{"dnn", "auto"}, {"cudnn", "libz.so.1"}}), HasSubstr("lacks cudnnGetVersion"));
  EXPECT_THAT(told_of({{"dnn", "auto"}, {"cudnn", "/"}}),
              HasSubstr("the folder / of the option cudnn has none of libcudnn.so.9, libcudnn.so.8: "));
  EXPECT_THAT(told_of({{"dnn", "auto"}, {"cudnn", ""}}), HasSubstr("an emulated device takes only"));
  EXPECT_THAT(told_of({{"cudnn", "/nowhere/libcudnn.so.9"}}), HasSubstr("the option dnn demands cuDNN: "));
}

TEST_F(NvidiaConvolutions, ALibraryThatIsTooOldIsRefused) {
  expect_told("fail@query(cudnnGetVersion)", "is cuDNN 8.4.0, 8.5 or newer is needed");
}

TEST_F(NvidiaConvolutions, FaultsAreTold) {
  expect_told("fail@init(cudnnCreate)", "does not start on nvidia:0: cudnnCreate: CUDNN_STATUS_NOT_INITIALIZED");
  expect_told("fail@query(conv_f32_forward*)", "has no plan for conv2d f32");
  expect_told("oom@query(conv*)", "CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED");
  expect_told("fail@compile(conv*)", "has no plan for conv2d f32");
  expect_told("fail@compile(conv*)#1", "");  // the next engine does it
  expect_told("fail@launch(conv*)", "cudnnBackendExecute of conv2d f32");
  expect_told("fail@record(cuStreamEndCapture)", "a convolution by cuDNN (option dnn=none does without)");
  expect_told("flip:byte=3,bit=5@launch(conv*)", "wrong result");
}

TEST_F(NvidiaConvolutions, Tf32IsOffUntilItIsAllowed) {
  expect_told("fail@launch(conv_tf32*)", "");
  expect_told("fail@launch(conv_tf32*)", "cudnnBackendExecute", {{"tf32", "true"}});
}

TEST_F(NvidiaConvolutions, HalvesGoToTensorCoresWhateverTheHeuristicsPrefer) {
  constexpr std::uint32_t kBF16 = 7;
  expect_told("fail@launch(conv_lanes_bf16*)", "", {}, kBF16);
  expect_told("fail@compile(conv_bf16*)", "", {}, kBF16);  // one without them is better than none
  expect_told("fail@compile(conv_bf16*);fail@launch(conv_lanes_bf16*)", "cudnnBackendExecute", {}, kBF16);
}

TEST_F(NvidiaConvolutions, ScratchIsLimitedByAnOptionOfItsOwn) {
  const crucible_library_desc desc = convolution_of({.channels = 64, .outputs = 8}, CRUCIBLE_LIB_CONV2D);
  const auto scratch_of = [&](const Options& options) {
    const auto device = take(try_open(with_cudnn(options)));
    std::uint64_t scratch = 0;
    EXPECT_TRUE(to_result(device->backend().library_table().claim(device->handle(), &desc, &scratch), "claim"));
    return scratch;
  };
  EXPECT_EQ(scratch_of({}), 4096u);  // the emulated library's own rule
  EXPECT_EQ(scratch_of({{"dnn_workspace_mib", "0"}}), 0u);
  EXPECT_EQ(scratch_of({{"blas_workspace_mib", "0"}}), 4096u);
}

}  // namespace
}  // namespace crucible::backend
