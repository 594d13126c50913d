// The emulated compiler: options, headers, words of errors, and the check that texts really compile for AMD.
#include <gmock/gmock.h>

#include "tests/emulators/amd/test_kernels.hpp"
#include "tests/emulators/amd/testing.hpp"

namespace crucible::emulator {
namespace {

using ::testing::HasSubstr;

class EmulatedHiprtc : public HipTest {};

TEST_F(EmulatedHiprtc, TellsItsVersionAndErrors) {
  int major = 0, minor = 0;
  EXPECT_EQ(hip().hiprtcVersion(&major, &minor), HIPRTC_SUCCESS);
  EXPECT_EQ(major, 6);
  EXPECT_STREQ(hip().hiprtcGetErrorString(HIPRTC_ERROR_COMPILATION), "HIPRTC_ERROR_COMPILATION");
}

TEST_F(EmulatedHiprtc, MistakesInATextComeWithTheirLine) {
  compile("extern \"C\" __global__ void k(float* a) {\n  a[0] = nowhere;\n}\n");
  EXPECT_EQ(result_, HIPRTC_ERROR_COMPILATION);
  EXPECT_THAT(words_, HasSubstr("test.hip:2:"));
  EXPECT_THAT(words_, HasSubstr("nowhere"));
  compile("#error this is wrong\n");
  EXPECT_EQ(result_, HIPRTC_ERROR_COMPILATION);
  EXPECT_THAT(words_, HasSubstr("this is wrong"));
}

TEST_F(EmulatedHiprtc, OptionsAreReadAndWrongOnesRefused) {
  const char* const text = R"(extern "C" __global__ void k(int* a) {
    a[0] = VALUE;
    a[1] = __AMDGCN_WAVEFRONT_SIZE;
#ifdef __gfx1100__
    a[2] = 1100;
#endif
  })";
  set("CRUCIBLE_EMU_ARCH", "gfx1100");
  int* const out = upload(std::vector<int>(3));
  ASSERT_HIP_OK(launch(kernel(text, "k", {"-DVALUE=42", "-O3", "--offload-arch=gfx1100:xnack-"}), {}, out));
  EXPECT_THAT(download(out, 3), ::testing::ElementsAre(42, 32, 1100));
  compile(text, {"-DVALUE=1", "--offload-arch=sm_90"});
  EXPECT_EQ(result_, HIPRTC_ERROR_INVALID_OPTION);
  EXPECT_THAT(words_, HasSubstr("no architecture 'sm_90'"));
  compile(text, {"--gpu-please"});
  EXPECT_EQ(result_, HIPRTC_ERROR_INVALID_OPTION);
  EXPECT_THAT(words_, HasSubstr("unknown option '--gpu-please'"));
}

TEST_F(EmulatedHiprtc, CompilesForTheCurrentDeviceOrForTheOneThatIsNamed) {
  set("CRUCIBLE_EMU_DEVICES", "2");
  set("CRUCIBLE_EMU_ARCH", "gfx90a,gfx1100");
  const char* const text = R"(extern "C" __global__ void k(int* a) {
#ifdef __gfx1100__
    a[0] = 1100;
#else
    a[0] = 90;
#endif
    a[1] = __AMDGCN_WAVEFRONT_SIZE;
  })";
  EXPECT_HIP(hip().hipSetDevice(1));
  int* const out = upload(std::vector<int>(2));
  ASSERT_HIP_OK(launch(kernel(text, "k"), {}, out));
  EXPECT_THAT(download(out, 2), ::testing::ElementsAre(1100, 32));
  hipModule_t module = nullptr;
  EXPECT_HIP_ERROR(hip().hipModuleLoadData(&module, compile(text, {"--offload-arch=gfx90a"}).c_str()),
                   hipErrorNoBinaryForGpu);
  EXPECT_HIP(hip().hipSetDevice(0));
  int* const first = upload(std::vector<int>(2));
  ASSERT_HIP_OK(launch(kernel(text, "k"), {}, first));
  EXPECT_THAT(download(first, 2), ::testing::ElementsAre(90, 64));
  EXPECT_HIP_ERROR(hip().hipModuleLoadData(&module, compile(text, {"--gpu-architecture=gfx1100"}).c_str()),
                   hipErrorNoBinaryForGpu);
}

TEST_F(EmulatedHiprtc, HeadersAreGivenByName) {
  const char* const text = "#include \"parts/seven.h\"\nextern \"C\" __global__ void k(int* a) { a[0] = seven(); }";
  const char* const headers[] = {"__device__ int seven() { return 7; }\n"};
  const char* const names[] = {"parts/seven.h"};
  hiprtcProgram program = nullptr;
  EXPECT_EQ(hip().hiprtcCreateProgram(&program, text, nullptr, 1, headers, names), HIPRTC_SUCCESS);
  EXPECT_EQ(hip().hiprtcCompileProgram(program, 0, nullptr), HIPRTC_SUCCESS);
  EXPECT_EQ(hip().hiprtcDestroyProgram(&program), HIPRTC_SUCCESS);
  EXPECT_EQ(program, nullptr);
}

TEST_F(EmulatedHiprtc, ContractionIsAsTheOptionsSay) {
  // 1 - 2^-24 squared, less its rounded value: 0 when each operation is rounded, 2^-48 when they are one.
  const char* const text = R"(extern "C" __global__ void k(float* a, float x, float y) { a[0] = x * x - y; })";
  const float x = 0x1.fffffep-1f, y = x * x;
  float* const out = allocate<float>(1);
  ASSERT_HIP_OK(launch(kernel(text, "k", {"-ffp-contract=off"}), {}, out, x, y));
  EXPECT_EQ(download(out, 1)[0], 0.0f);
  ASSERT_HIP_OK(launch(kernel(text, "k", {}), {}, out, x, y));
  EXPECT_NE(download(out, 1)[0], 0.0f);
}

TEST_F(EmulatedHiprtc, ProgramsThatAreNoneAreRefused) {
  hiprtcProgram program = nullptr;
  EXPECT_EQ(hip().hiprtcCreateProgram(&program, nullptr, "", 0, nullptr, nullptr), HIPRTC_ERROR_INVALID_INPUT);
  EXPECT_EQ(hip().hiprtcCompileProgram(nullptr, 0, nullptr), HIPRTC_ERROR_INVALID_PROGRAM);
  EXPECT_EQ(hip().hiprtcCreateProgram(&program, "", "", 0, nullptr, nullptr), HIPRTC_SUCCESS);
  std::size_t size = 0;
  EXPECT_EQ(hip().hiprtcGetCodeSize(program, &size), HIPRTC_ERROR_INVALID_PROGRAM);  // not compiled yet
  hiprtcProgram same = program;
  EXPECT_EQ(hip().hiprtcDestroyProgram(&program), HIPRTC_SUCCESS);
  EXPECT_EQ(hip().hiprtcDestroyProgram(&same), HIPRTC_ERROR_INVALID_PROGRAM);
}

TEST_F(EmulatedHiprtc, AllTextsReallyCompileForAmd) {
  set_faults("");
  set("CRUCIBLE_EMU_CHECK_ARCH", "gfx90a,gfx942,gfx1100");
  for (const char* text : {kElementwise, kReductions, kGemm, kAtomics, kHalf, kBad}) {
    compile(text);
    EXPECT_EQ(result_, HIPRTC_SUCCESS) << words_;
  }
  std::string lines;
  for (int i = 0; i < 6; ++i) lines += "compiled for gfx90a\ncompiled for gfx942\ncompiled for gfx1100\n";
  EXPECT_EQ(log(), lines);
}

TEST_F(EmulatedHiprtc, WhatAmdsCompilerRefusesIsRefused) {
  set("CRUCIBLE_EMU_CHECK_ARCH", "gfx90a");
  // More shared memory than the architecture has: nothing to the processor.
  compile(R"(extern "C" __global__ void k(int* a) { __shared__ int big[65536 / 4 + 1]; big[a[1]] = a[0];
    __syncthreads(); a[2] = big[a[3]]; })");
  EXPECT_EQ(result_, HIPRTC_ERROR_COMPILATION);
  EXPECT_THAT(words_, HasSubstr("gfx90a: "));
  EXPECT_THAT(words_, HasSubstr("local memory"));
  set("CRUCIBLE_EMU_CHECK_ARCH", "gfx000");
  compile(kElementwise);
  EXPECT_EQ(result_, HIPRTC_ERROR_COMPILATION);
  EXPECT_THAT(words_, HasSubstr("gfx000"));
}

}  // namespace
}  // namespace crucible::emulator
