// Products by cuBLASLt through the loader: the cases that all such plugins have (plugins/sdk/testing), and NVIDIA's
// own. Driver and library are those of CRUCIBLE_CUDA_LIBRARY and CRUCIBLE_CUBLASLT, else the emulated ones of this
// build.
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>

#include "backends/nvidia/testing.hpp"
#include "plugins/sdk/testing/device_products.hpp"

namespace crucible::backend {
namespace {

using ::testing::HasSubstr;

GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(DevicePlugin);  // those are nvidia_test's
INSTANTIATE_TEST_SUITE_P(Nvidia, DeviceProducts, ::testing::Values(nvidia_under_test()),
                         ::testing::PrintToStringParamName());
INSTANTIATE_TEST_SUITE_P(Nvidia, DeviceEpilogues, ::testing::Values(nvidia_under_test()),
                         ::testing::PrintToStringParamName());
INSTANTIATE_TEST_SUITE_P(Nvidia, DeviceMatrixProducts, ::testing::Values(without_library(nvidia_under_test())),
                         ::testing::PrintToStringParamName());

std::string library_of(const Options& options) {
  const auto device = try_open(emulated_nvidia(options));
  return device ? property(*device, "library") : device.error().message;
}

class NvidiaProducts : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!std::filesystem::exists(emulated_cublas()))
      GTEST_SKIP() << "no emulated cuBLASLt was built (crucible_emulated_cublaslt)";
  }
  /// In a process of its own: what is told under these rules. "" in `part` is nothing at all.
  static void expect_told(const char* rules, const std::string& part, const Options& more = {}, std::int64_t k = 64) {
    GTEST_FLAG_SET(death_test_style, "threadsafe");
    EXPECT_EXIT(
        {
          const std::string told = run_product_under_faults(emulated_nvidia(more), rules, k);
          std::fprintf(stderr, "told: %s\n", told.c_str());
          std::_Exit(part.empty() ? !told.empty() : told.find(part) == std::string::npos);
        },
        ::testing::ExitedWithCode(0), "told: ")
        << rules;
  }
};

TEST_F(NvidiaProducts, TheLibraryIsNamedAndAnAbsentOneIsSaid) {
  EXPECT_THAT(library_of({}), HasSubstr("cuBLASLt 13"));
  EXPECT_THAT(library_of({{"blas", "none"}}), HasSubstr("none (the option blas is none; products are generated"));
  const std::string absent = library_of({{"cublaslt", "/nowhere/libcublasLt.so.13"}});
  EXPECT_THAT(absent, HasSubstr("none (cuBLASLt /nowhere/libcublasLt.so.13 cannot be loaded"));
  EXPECT_THAT(absent, HasSubstr("nvidia-cublas"));
  EXPECT_THAT(library_of({{"cublaslt", "libz.so.1"}}), HasSubstr("lacks cublasLtGetVersion"));
  EXPECT_THAT(
      library_of({{"cublaslt", "/"}}),
      HasSubstr(
          "the folder / of the option cublaslt has none of libcublasLt.so.13, libcublasLt.so.12, libcublasLt.so.11: "));
  EXPECT_THAT(library_of({{"blas", "cublaslt"}, {"cublaslt", "/nowhere/libcublasLt.so.13"}}),
              HasSubstr("the option blas demands cuBLASLt: "));
  EXPECT_THAT(library_of({{"blas", "cublas"}}), HasSubstr("cublas"));
}

TEST_F(NvidiaProducts, AnEmulatedDeviceTakesOnlyALibraryThatIsNamed) {
  PluginUnderTest plugin = emulated_nvidia();
  plugin.options.erase("cublaslt");
  EXPECT_THAT(property(take(try_open(plugin)), "library"), HasSubstr("an emulated device takes only"));
}

TEST_F(NvidiaProducts, ALibraryThatDoesNotStartDeclines) {
  expect_told("fail@init(cublasLtCreate)", "does not start on nvidia:0: cublasLtCreate: CUBLAS_STATUS_NOT_INITIALIZED");
}

TEST_F(NvidiaProducts, AShapeWithoutAnAlgorithmDeclines) {
  expect_told("fail@query(gemm_f32_64x64x64)", "has no algorithm for f32 n n 64x64x64");
  expect_told("fail@query(gemm_f32_64x64x65)", "");
  expect_told(
      "oom@query(gemm*)",
      "cublasLtMatmulAlgoGetHeuristic of f32 n n 64x64x64 pitches 64 64 64 batch 1: CUBLAS_STATUS_ALLOC_FAILED");
}

TEST_F(NvidiaProducts, ACallThatFailsEndsTheCaptureAndIsTold) {
  expect_told("fail@launch(gemm*)",
              "cublasLtMatmul of f32 n n 64x64x64 pitches 64 64 64 batch 1: CUBLAS_STATUS_EXECUTION_FAILED (13)");
  expect_told("fail@record(cuStreamBeginCapture)", "plan.build: op 0: cuStreamBeginCapture");
  expect_told("fail@record(cuStreamEndCapture)",
              "(option blas=none does without): CUDA_ERROR_STREAM_CAPTURE_INVALIDATED");
}

TEST_F(NvidiaProducts, AWrongBitOfTheLibraryShows) { expect_told("flip:byte=3,bit=5@launch(gemm*)", "wrong result"); }

TEST_F(NvidiaProducts, Tf32IsOffUntilItIsAllowed) {
  expect_told("fail@query(gemm_tf32_*)", "");
  expect_told("fail@query(gemm_tf32_*)", "has no algorithm", {{"tf32", "true"}});
}

TEST_F(NvidiaProducts, ScratchIsLimitedByTheOption) {
  expect_told("slow:0ms@query(gemm*)", "", {{"blas_workspace_mib", "0"}}, 512);
  expect_told("slow:0ms@query(gemm*)", "", {{"blas_workspace_mib", "1"}}, 512);
}

/// Of a product that two algorithms are proposed for, the first of which takes scratch and, under the rules, long.
std::uint64_t claimed_scratch(const Options& options) {
  const auto device = take(try_open(emulated_nvidia(options)));
  const crucible_library_desc desc =
      product_of(view_of({64, 512}, {512, 1}), view_of({512, 64}, {64, 1}), view_of({64, 64}, {64, 1}));
  std::uint64_t scratch = 0;
  EXPECT_TRUE(to_result(device->backend().library_table().claim(device->handle(), &desc, &scratch), "claim"));
  return scratch;
}

TEST_F(NvidiaProducts, AlgorithmsAreMeasuredWhereThatIsWanted) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        setenv("CRUCIBLE_EMU_FAULTS", "slow:40ms@launch(gemm_split*)", 1);
        Options wanted;
        wanted["measure_products"] = "true";
        const std::uint64_t first = claimed_scratch({});
        const std::uint64_t fastest = claimed_scratch(wanted);
        std::_Exit(HasFailure() || first == 0 || fastest != 0 ? 1 : 0);
      },
      ::testing::ExitedWithCode(0), "");
  const Options measured = {{"measure_products", "true"}};
  expect_told("slow:40ms@launch(gemm_split*)", "", measured, 512);
  expect_told("fail@launch(gemm_split*)", "", measured, 512);  // an algorithm that fails goes
  expect_told("fail@launch(gemm_split*)", "CUBLAS_STATUS_EXECUTION_FAILED", {}, 512);
}

/// Two shapes, each claimed, built and profiled three times.
void run_two_shapes() {
  const auto device = take(try_open(emulated_nvidia()));
  for (int round = 0; round < 3; ++round) {
    for (const std::int64_t n : {8, 16}) {
      const auto square = view_of({n, n}, {n, 1});
      const crucible_library_desc desc = product_of(square, square, square);
      std::uint64_t scratch = 0;
      EXPECT_TRUE(to_result(device->backend().library_table().claim(device->handle(), &desc, &scratch), "claim"));
      const Buffer buffer = take(Buffer::allocate(device, 4096, 256));
      const std::vector<std::uint64_t> places = {buffer.address(), buffer.address() + 1024, buffer.address() + 2048};
      crucible_op op = {};
      op.struct_size = sizeof(op);
      op.kind = CRUCIBLE_OP_LIBRARY;
      op.library = &desc;
      op.buffers = places.data();
      op.buffer_count = 3;
      Plan plan = take(Plan::build(device, std::span(&op, 1), 0));
      (void)take(plan.profile());
    }
  }
}

TEST_F(NvidiaProducts, HeuristicsAreAskedOncePerShape) {
  // The child of a death test comes here anew: the first to come names the log.
  const std::string own = std::filesystem::temp_directory_path() / ("crucible-heuristics-" + std::to_string(getpid()));
  setenv("CRUCIBLE_EMU_LOG", own.c_str(), 0);
  const std::filesystem::path log = std::getenv("CRUCIBLE_EMU_LOG");
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        setenv("CRUCIBLE_EMU_FAULTS", "slow:0ms@query(gemm*)", 1);
        run_two_shapes();
        std::_Exit(HasFailure() ? 1 : 0);
      },
      ::testing::ExitedWithCode(0), "");
  std::ifstream file(log);
  std::map<std::string, int> lines;
  for (std::string line; std::getline(file, line);) ++lines[line.substr(0, line.find(" match"))];
  std::filesystem::remove(log);
  EXPECT_EQ(lines["slow@query(gemm_f32_8x8x8)"], 1);
  EXPECT_EQ(lines["slow@query(gemm_f32_16x16x16)"], 1);
}

}  // namespace
}  // namespace crucible::backend
