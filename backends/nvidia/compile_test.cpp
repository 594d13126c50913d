// NVRTC really compiles what is printed for it: the prelude and the kernels of many random programs, for three
// generations of devices, with neither a header nor a device here. Needs NVRTC alone: CRUCIBLE_NVRTC (a file or a
// folder), else torch's, else by name.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <regex>

#include "backends/nvidia/nvrtc.hpp"
#include "backends/nvidia/options.hpp"
#include "core/graph/random_program.hpp"
#include "core/kernel/schedule.hpp"
#include "plugins/sdk/error.hpp"
#include "plugins/sdk/host.hpp"
#include "plugins/sdk/matrix_product.hpp"
#include "plugins/sdk/thread_kernel.hpp"

namespace crucible_nvidia {

std::string version_text(int version) { return std::to_string(version); }  // cuda.cpp's, which needs a driver

namespace {

using namespace crucible;
using ::testing::HasSubstr;

std::string nvrtc_option;

/// A host that knows one option.
crucible_host_api host_with_option() {
  crucible_host_api host = {};
  host.struct_size = sizeof(host);
  host.abi_minor = CRUCIBLE_ABI_MINOR;
  host.get_option = [](void*, crucible_str key, crucible_str* value) -> std::uint32_t {
    if (std::string_view(key.data, key.size) != "nvrtc" || nvrtc_option.empty()) return 0;
    *value = {nvrtc_option.data(), nvrtc_option.size()};
    return 1;
  };
  return host;
}

class NvidiaCompile : public testing::Test {
 protected:
  void SetUp() override {
    const char* named = std::getenv("CRUCIBLE_NVRTC");
    use(named != nullptr ? named : CRUCIBLE_TEST_NVRTC);
    driver_.version = 99000;
    try {
      compiler_ = &nvrtc(driver_);
    } catch (const sdk::Failure& failure) {
      GTEST_SKIP() << failure.what();
    }
  }
  void use(const std::string& option) {
    nvrtc_option = option;
    const crucible_host_api host = host_with_option();
    sdk::set_host(&host);
  }
  std::string words_of(int driver_version, const std::string& option) {
    use(option);
    Cuda driver;
    driver.version = driver_version;
    driver.file = std::to_string(driver_version);
    try {
      nvrtc(driver);
    } catch (const sdk::Failure& failure) {
      return failure.what();
    }
    return "";
  }
  Cuda driver_;
  const Nvrtc* compiler_ = nullptr;
};

sdk::ThreadKernels kernels_of_random_programs() {
  sdk::ThreadKernels kernels;
  for (const auto numerics : {kernel::Numerics::kFast, kernel::Numerics::kStrict}) {
    for (std::uint64_t seed = 400; seed < 406; ++seed) {
      const graph::RandomProgram random = graph::random_program({.seed = seed});
      const kernel::Options options = {
          .claims = nullptr, .numerics = numerics, .device = {.workers = 16384, .register_bytes = 1020, .lanes = 32}};
      const auto scheduled = kernel::schedule(random.program, options);
      if (!scheduled) continue;
      for (const kernel::Kernel& kernel : scheduled->kernels) {
        kernels.try_emplace(kernel.name, sdk::print_thread_kernel(sdk::read_kernel(kernel.ir.data(), kernel.ir.size()),
                                                                  sdk::dialect_cuda(), kernel.name, 32));
      }
    }
  }
  return kernels;
}

TEST_F(NvidiaCompile, MachineCodeForThreeGenerations) {
  const sdk::ThreadKernels kernels = kernels_of_random_programs();
  ASSERT_GT(kernels.size(), 30u);
  const auto batches = sdk::batch_kernels(kernels, sdk::dialect_cuda());
  std::size_t next = 0;
  for (const int capability : {80, 90, 100}) {
    if (!compiler_->knows(capability)) continue;
    // A third of the batches each, so that all are compiled and the test stays short.
    for (std::size_t i = next++; i < batches.size(); i += 3) {
      auto flags = numeric_flags();
      flags.push_back(compiler_->architecture_flag(capability, Code::kCubin));
      const auto compiled = compiler_->compile(batches[i].text, flags, Code::kCubin, batches[i].names.front());
      EXPECT_EQ(compiled.bytes.substr(0, 4),
                "\x7f"
                "ELF")
          << capability;
      EXPECT_EQ(compiled.log, "");
    }
  }
  EXPECT_GE(next, 2u) << "two generations at least";
}

TEST_F(NvidiaCompile, EveryMatrixKernelIsMachineCode) {
  for (const int capability : {80, 90, 100}) {
    ASSERT_EQ(sdk::matrix_unit_of_nvidia(capability), sdk::MatrixUnit::kMma);
    if (!compiler_->knows(capability)) continue;
    auto flags = numeric_flags();
    flags.push_back(compiler_->architecture_flag(capability, Code::kCubin));
    for (unsigned bits = 0; bits < 32; ++bits) {
      if (capability != 90 && bits % 6 != 0) continue;  // some of each, so that the test stays short
      const sdk::MatrixVariant variant{(bits & 1) != 0,  (bits & 2) != 0, (bits & 4) != 0, (bits & 8) != 0,
                                       (bits & 16) != 0, bits % 3 != 0,   bits % 3 == 2};
      const sdk::KernelBatch batch = sdk::write_matrix_kernel(variant, sdk::MatrixUnit::kMma, sdk::dialect_cuda());
      const auto compiled = compiler_->compile(batch.text, flags, Code::kCubin, batch.names.front());
      EXPECT_EQ(compiled.bytes.substr(0, 4),
                "\x7f"
                "ELF")
          << batch.names.front();
      EXPECT_EQ(compiled.log, "") << batch.names.front();
      EXPECT_NE(compiled.bytes.find(batch.names.front()), std::string::npos);
    }
  }
  EXPECT_EQ(sdk::matrix_unit_of_nvidia(75), sdk::MatrixUnit::kNone);
}

TEST_F(NvidiaCompile, PtxRoundsEveryOperationByItself) {
  const auto batches = sdk::batch_kernels(kernels_of_random_programs(), sdk::dialect_cuda());
  auto flags = numeric_flags();
  flags.push_back(compiler_->architecture_flag(90, Code::kPtx));
  EXPECT_EQ(flags.back(), "--gpu-architecture=compute_90");
  const std::string ptx = compiler_->compile(batches.front().text, flags, Code::kPtx, "k").bytes;
  EXPECT_EQ(ptx.back(), '\0');
  EXPECT_THAT(ptx, HasSubstr(".target sm_90"));
  for (const std::string& name : batches.front().names) EXPECT_THAT(ptx, HasSubstr(".entry " + name));
  // Nothing is flushed, approximated or left to be fused: an add or mul without .rn may become half an fma.
  EXPECT_FALSE(std::regex_search(ptx, std::regex(R"(\.ftz|\.approx)")));
  EXPECT_FALSE(std::regex_search(ptx, std::regex(R"(\b(add|sub|mul)\.f(32|64))")));
}

// What the text asks for is what the compiler makes: sixteen bytes are one access, lanes join without memory.
TEST_F(NvidiaCompile, LanesReadSixteenBytesAtOnceAndJoinByShuffles) {
  const auto has = [](const std::string& text, const char* what) { return text.find(what) != std::string::npos; };
  sdk::ThreadKernels chosen;
  for (const auto& [name, kernel] : kernels_of_random_programs()) {
    if (has(kernel.text, "crucible_read(4, ") && has(kernel.text, "crucible_lane_") && !has(kernel.text, "__shared__"))
      chosen.emplace(name, kernel);
    if (chosen.size() == 2) break;
  }
  ASSERT_EQ(chosen.size(), 2u);
  auto flags = numeric_flags();
  flags.push_back(compiler_->architecture_flag(90, Code::kPtx));
  const sdk::KernelBatch batch = sdk::batch_kernels(chosen, sdk::dialect_cuda()).front();
  const std::string ptx = compiler_->compile(batch.text, flags, Code::kPtx, "k").bytes;
  EXPECT_TRUE(std::regex_search(ptx, std::regex(R"(ld\.global(\.nc)?\.v4\.[fbu]32)"))) << batch.text;
  EXPECT_TRUE(has(ptx, "shfl.sync.")) << batch.text;
  EXPECT_FALSE(has(ptx, ".shared")) << "an array that should be registers";
  EXPECT_FALSE(has(ptx, ".local")) << "registers that the compiler could not make of an array";
}

TEST_F(NvidiaCompile, ADeviceOfTheFutureGetsPtxForTheNewestKnown) {
  EXPECT_FALSE(compiler_->knows(999));
  EXPECT_EQ(compiler_->architecture_flag(999, Code::kPtx),
            "--gpu-architecture=compute_" + std::to_string(compiler_->architectures.back()));
  EXPECT_THROW(compiler_->architecture_flag(20, Code::kPtx), sdk::Failure);
}

TEST_F(NvidiaCompile, TheCompilersWordsAndTheKernelsNamesAreInTheError) {
  auto flags = numeric_flags();
  flags.push_back(compiler_->architecture_flag(90, Code::kPtx));
  try {
    compiler_->compile("this is no CUDA;\n", flags, Code::kPtx, "k1, k2");
    FAIL() << "it was compiled";
  } catch (const sdk::Failure& failure) {
    EXPECT_THAT(failure.what(), HasSubstr("refuses the kernels k1, k2: crucible.cu(1): error"));
    EXPECT_EQ(failure.code(), CRUCIBLE_E_INTERNAL);
  }
}

TEST_F(NvidiaCompile, ANewerCompilerThanTheDriverIsRefused) {
  EXPECT_THAT(words_of(compiler_->major * 1000 - 1000, compiler_->file),
              HasSubstr("makes code that the driver does not take"));
}

TEST(NvidiaCompiler, WhatIsMissingIsNamed) {
  nvrtc_option = "/nowhere/libnvrtc.so.13";
  const crucible_host_api host = host_with_option();
  sdk::set_host(&host);
  Cuda driver;
  driver.version = 13000;
  for (const auto& [option, words] : {std::pair("/nowhere/libnvrtc.so.13", "nvidia-cuda-nvrtc"),
                                      {"/", "the folder / of the option nvrtc has no"},
                                      {"libm.so.6", "lacks nvrtcVersion"}}) {
    nvrtc_option = option;
    try {
      nvrtc(driver);
      FAIL() << option;
    } catch (const sdk::Failure& failure) {
      EXPECT_THAT(failure.what(), HasSubstr(words));
    }
  }
}

}  // namespace
}  // namespace crucible_nvidia
