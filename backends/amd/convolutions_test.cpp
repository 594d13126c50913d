// Convolutions by MIOpen through the loader, on the emulated runtime and library: the cases that all such plugins have
// (plugins/sdk/testing), what it does not take, and what is said of a library that is absent, too old or fails.
#include <cstdio>
#include <cstdlib>
#include <filesystem>

#include "plugins/sdk/testing/device_convolutions.hpp"

namespace crucible::backend {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(DevicePlugin);  // those are amd_test's

constexpr std::uint32_t kF16 = 6, kF32 = 8;
const std::filesystem::path kFolder = CRUCIBLE_TEST_HIP_FOLDER;

PluginUnderTest with_miopen(const Options& more = {}) {
  PluginUnderTest plugin = {
      "amd", "hip", {{"library", kFolder / "libamdhip64.so.6"}, {"hiprtc", kFolder / "libhiprtc.so.6"}}};
  plugin.options["miopen"] = kFolder / "libMIOpen.so.1";
  plugin.options["dnn"] = "miopen";
  for (const auto& [name, value] : more) plugin.options[name] = value;
  return plugin;
}

INSTANTIATE_TEST_SUITE_P(Amd, DeviceConvolutions, ::testing::Values(with_miopen()),
                         ::testing::PrintToStringParamName());

std::string told_of(const PluginUnderTest& plugin) {
  const auto device = try_open(plugin);
  if (!device) return device.error().message;
  for (const auto& [key, value] : take((*device)->properties())) {
    if (key == "convolutions") return value;
  }
  return "";
}

class AmdConvolutions : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!std::filesystem::exists(kFolder / "libMIOpen.so.1"))
      GTEST_SKIP() << "no emulated MIOpen was built (crucible_emulated_miopen)";
  }
  /// In a process of its own: what is told under these rules of a convolution of f32, forward unless it is said. "" in
  /// `part` is nothing.
  static void expect_told(const char* rules, const std::string& part, std::uint32_t kind = CRUCIBLE_LIB_CONV2D,
                          std::uint32_t dtype = kF32) {
    GTEST_FLAG_SET(death_test_style, "threadsafe");
    EXPECT_EXIT(
        {
          const std::string told = run_convolution_under_faults(with_miopen(), rules, kind, dtype);
          std::fprintf(stderr, "told: %s\n", told.c_str());
          std::_Exit(part.empty() ? !told.empty() : told.find(part) == std::string::npos);
        },
        ::testing::ExitedWithCode(0), "told: ")
        << rules;
  }
};

TEST_F(AmdConvolutions, TheLibraryIsNamedAndAnAbsentOneIsSaid) {
  const auto told = [](const Options& options) { return told_of(with_miopen(options)); };
  EXPECT_THAT(told({}), HasSubstr("MIOpen 3.4.0 ("));
  EXPECT_THAT(told({{"miopen", kFolder.string()}}), HasSubstr("MIOpen 3.4.0 ("));
  EXPECT_THAT(told({{"dnn", "none"}}), HasSubstr("none (the option dnn is none; convolutions are generated"));
  EXPECT_THAT(
      told({{"dnn", "auto"}, {"miopen", "/nowhere/libMIOpen.so.1"}}),
      AllOf(HasSubstr("none (MIOpen /nowhere/libMIOpen.so.1 cannot be loaded"), HasSubstr("package miopen-hip")));
  EXPECT_THAT(told({{"dnn", "auto"}, {"miopen", "libz.so.1"}}), HasSubstr("lacks miopenGetVersion"));
  EXPECT_THAT(told({{"dnn", "auto"}, {"miopen", "/"}}),
              HasSubstr("the folder / of the option miopen has none of libMIOpen.so.1: "));
  EXPECT_THAT(told({{"dnn", "auto"}, {"miopen", ""}}), HasSubstr("an emulated device takes only a MIOpen"));
  EXPECT_THAT(told({{"miopen", "/nowhere/libMIOpen.so.1"}}), HasSubstr("the option dnn demands MIOpen: "));
}

TEST_F(AmdConvolutions, UnlessItIsAskedForThereIsNone) {
  PluginUnderTest plugin = with_miopen();
  plugin.options.erase("dnn");
  EXPECT_THAT(told_of(plugin), HasSubstr("none (the option dnn is none"));
}

TEST_F(AmdConvolutions, ALibraryThatIsTooOldIsRefused) {
  EXPECT_THAT(told_of(with_miopen({{"dnn", "auto"}, {"miopen", kFolder / "old/libMIOpen.so.1"}})),
              HasSubstr("lacks miopenSetConvolutionAttribute: it is no MIOpen of ROCm 5 or newer"));
  expect_told(
      "fail@query(attribute_1)",
      "cannot be told to be deterministic, a newer one can: miopenSetConvolutionAttribute: miopenStatusBadParm");
  expect_told("fail@query(attribute_3)", "");  // older than what the attribute forbids
}

TEST_F(AmdConvolutions, OnlyDenseTensorsOfOneLayoutAreTaken) {
  const auto device = take(try_open(with_miopen()));
  crucible_library_desc desc = convolution_of({}, CRUCIBLE_LIB_CONV2D);
  desc.views[0].strides[0] += 1;
  EXPECT_THAT(run_convolution(device, desc), HasSubstr("MIOpen takes dense tensors alone"));
  desc = convolution_of({}, CRUCIBLE_LIB_CONV2D);
  desc.views[2] = convolution_of({}, CRUCIBLE_LIB_CONV2D, kF32, true).views[2];
  EXPECT_THAT(run_convolution(device, desc), HasSubstr("MIOpen takes dense tensors alone"));
  // Windows of one element lie in both.
  desc = convolution_of({.kernel = {1, 1}}, CRUCIBLE_LIB_CONV2D, kF32, true);
  desc.views[1] = convolution_of({.kernel = {1, 1}}, CRUCIBLE_LIB_CONV2D).views[1];
  EXPECT_EQ(run_convolution(device, desc), "");
}

TEST_F(AmdConvolutions, DilatedGroupsAreNotTaken) {
  const auto device = take(try_open(with_miopen()));
  EXPECT_THAT(run_convolution(device, convolution_of({.groups = 2, .dilation = {1, 2}}, CRUCIBLE_LIB_CONV2D)),
              HasSubstr("no dilation of groups"));
}

TEST_F(AmdConvolutions, TheMostScratchIsTheUsersWord) {
  const crucible_library_desc desc = convolution_of({.channels = 32}, CRUCIBLE_LIB_CONV2D);
  for (const auto& [most, expected] : {std::pair("1", 4096u), std::pair("0", 0u)}) {
    const auto device = take(try_open(with_miopen({{"dnn_workspace_mib", most}})));
    std::uint64_t scratch = 1;
    EXPECT_TRUE(to_result(device->backend().library_table().claim(device->handle(), &desc, &scratch), "claim"));
    EXPECT_EQ(scratch, expected);
  }
}

TEST_F(AmdConvolutions, NothingAddsInAnyOrderOrRoundsItsOperands) {
  expect_told("fail@launch(conv_atomic*)", "");
  expect_told("fail@launch(conv_tf32*)", "");
  expect_told("fail@launch(conv_alt16*)", "", CRUCIBLE_LIB_CONV2D_BACKWARD_WEIGHT, kF16);
}

TEST_F(AmdConvolutions, FaultsAreTold) {
  expect_told("fail@init(miopenCreateWithStream)",
              "does not start on amd:0: miopenCreateWithStream: miopenStatusNotInitialized");
  expect_told("fail@query(conv_f32_forward*)", "has no solution for conv2d f32");
  expect_told("oom@query(conv*)", "the count of solutions of conv2d f32");
  expect_told("fail@compile(conv*)", "has no solution for conv2d f32");
  expect_told("fail@compile(conv*)#1", "");  // the next solution does it
  expect_told("fail@launch(conv*)", "miopenStatusInternalError (5; option dnn=none does without MIOpen)");
  expect_told("oom@launch(conv*)", "miopenStatusAllocFailed");
  expect_told("flip:byte=3,bit=5@launch(conv*)", "wrong result");
}

}  // namespace
}  // namespace crucible::backend
