// Attentions by cuDNN through the loader, on the emulated driver and library: the cases that all such plugins have
// (plugins/sdk/testing), what the library does not take, and what is said of one that is absent, too old or fails.
#include <cstdio>
#include <cstdlib>
#include <filesystem>

#include "backends/nvidia/testing.hpp"
#include "plugins/sdk/testing/device_attentions.hpp"

namespace crucible::backend {
namespace {

using ::testing::HasSubstr;

GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(DevicePlugin);  // those are nvidia_test's

INSTANTIATE_TEST_SUITE_P(Nvidia, DeviceAttentions, ::testing::Values(with_cudnn()),
                         ::testing::PrintToStringParamName());

class NvidiaAttentions : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!std::filesystem::exists(emulated_cudnn()))
      GTEST_SKIP() << "no emulated cuDNN was built (crucible_emulated_cudnn)";
  }
  static std::string told(const crucible_library_desc& desc, std::size_t shift = 0, const Options& options = {}) {
    const auto device = try_open(with_cudnn(options));
    return device ? run_attention(*device, desc, shift) : device.error().message;
  }
  static void expect_told(const char* rules, const std::string& part) {
    GTEST_FLAG_SET(death_test_style, "threadsafe");
    EXPECT_EXIT(
        {
          const std::string told = run_attention_under_faults(with_cudnn(), rules);
          std::fprintf(stderr, "told: %s\n", told.c_str());
          std::_Exit(part.empty() ? !told.empty() : told.find(part) == std::string::npos);
        },
        ::testing::ExitedWithCode(0), "told: ")
        << rules;
  }
};

TEST_F(NvidiaAttentions, WhatCudnnDoesNotHaveIsUnsupportedWithTheReason) {
  EXPECT_THAT(told(attention_of({}, 8)), HasSubstr("attention: cuDNN has none of f32, only of f16 and bf16"));
  EXPECT_THAT(told(attention_of({.width = 12, .values = 12})), HasSubstr("has no plan for attention bf16 2x3x5x12"));
  EXPECT_THAT(told(attention_of({.width = 136, .values = 136})), HasSubstr("has no plan for attention bf16"));
  EXPECT_THAT(told(attention_of({}, 7, 3)), HasSubstr("has no plan for attention bf16"))
      << "rows at multiples of 16 bytes alone";
  EXPECT_THAT(told(attention_of({}), 1), HasSubstr("has no plan for attention bf16"))
      << "a buffer that lies worse than it was claimed with";
  EXPECT_THAT(told(attention_of({}), 0, {{"dnn", "none"}}), HasSubstr("there is no library of attentions: "));
  for (const std::uint32_t kind : {CRUCIBLE_LIB_ATTENTION_FORWARD, CRUCIBLE_LIB_ATTENTION_BACKWARD}) {
    const char* const name = kind == CRUCIBLE_LIB_ATTENTION_FORWARD ? "attention_forward" : "attention_backward";
    EXPECT_THAT(told(attention_of({.kind = kind}, 8)), HasSubstr("cuDNN has none of f32"));
    EXPECT_THAT(told(attention_of({.width = 12, .values = 12, .kind = kind})),
                HasSubstr("has no plan for " + std::string(name) + " bf16 2x3x5x12"));
    EXPECT_THAT(told(attention_of({.kind = kind}), 0, {{"dnn", "none"}}),
                HasSubstr("there is no library of attentions"));
  }
}

TEST_F(NvidiaAttentions, ScratchIsGivenWhereItIsWanted) {
  const auto device = take(try_open(with_cudnn()));
  const crucible_library_desc desc = attention_of({.batch = 1, .heads = 1, .rows = 300, .keys = 20, .is_causal = true});
  std::uint64_t scratch = 0;
  EXPECT_TRUE(to_result(device->backend().library_table().claim(device->handle(), &desc, &scratch), "claim"));
  EXPECT_EQ(scratch, 4096u);  // the emulated library's own rule
  EXPECT_EQ(run_attention(device, desc), "");
  EXPECT_THAT(run_attention(device, desc, 0, false), HasSubstr("has no plan for attention bf16 causal"));
  const crucible_library_desc gradient = attention_of({.kind = CRUCIBLE_LIB_ATTENTION_BACKWARD});
  EXPECT_TRUE(to_result(device->backend().library_table().claim(device->handle(), &gradient, &scratch), "claim"));
  EXPECT_EQ(scratch, 4096u);
  EXPECT_THAT(run_attention(device, gradient, 0, false), HasSubstr("has no plan for attention_backward bf16"));
}

TEST_F(NvidiaAttentions, FaultsAreTold) {
  expect_told("fail@query(cudnnGetVersion)", "is cuDNN 8.4.0, 8.5 or newer is needed");
  expect_told("fail@init(cudnnCreate)", "does not start on nvidia:0: cudnnCreate: CUDNN_STATUS_NOT_INITIALIZED");
  expect_told("fail@query(attention_bf16_2x3x5x16_7)", "has no plan for attention bf16");
  expect_told("oom@query(attention*)", "CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED");
  expect_told("fail@compile(attention*)", "has no plan for attention bf16");
  expect_told("fail@launch(attention*)", "cudnnBackendExecute of attention bf16");
  expect_told("fail@record(cuStreamEndCapture)", "an attention by cuDNN (option dnn=none does without)");
  expect_told("flip:byte=1,bit=6@launch(attention*)", "wrong result");
}

}  // namespace
}  // namespace crucible::backend
