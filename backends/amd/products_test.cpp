// Products by rocBLAS through the loader: the cases that all such plugins have (plugins/sdk/testing), and AMD's own.
// Runtime and library are those of CRUCIBLE_HIP_LIBRARY and CRUCIBLE_ROCBLAS, else the emulated ones of this build.
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <tuple>

#include "plugins/sdk/testing/device_products.hpp"

namespace crucible::backend {
namespace {

using ::testing::HasSubstr;

const std::filesystem::path kFolder = CRUCIBLE_TEST_HIP_FOLDER;

PluginUnderTest amd() {
  PluginUnderTest plugin = {"amd", "hip", {{"blas", "auto"}}};
  for (const auto& [option, variable, name] : {std::tuple("library", "CRUCIBLE_HIP_LIBRARY", "libamdhip64.so.6"),
                                               std::tuple("hiprtc", "CRUCIBLE_HIPRTC", "libhiprtc.so.6"),
                                               std::tuple("rocblas", "CRUCIBLE_ROCBLAS", "librocblas.so.4")}) {
    const char* const named = std::getenv(variable);
    if (named != nullptr && *named != '\0') {
      plugin.options[option] = named;
    } else if (std::filesystem::exists(kFolder / name)) {
      plugin.options[option] = kFolder / name;
    }
  }
  return plugin;
}

GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(DevicePlugin);  // those are amd_test's
INSTANTIATE_TEST_SUITE_P(Amd, DeviceProducts, ::testing::Values(amd()), ::testing::PrintToStringParamName());
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(DeviceEpilogues);  // rocBLAS has none

PluginUnderTest without_library() {
  PluginUnderTest plugin = amd();
  plugin.options["blas"] = "none";
  return plugin;
}
INSTANTIATE_TEST_SUITE_P(Amd, DeviceMatrixProducts, ::testing::Values(without_library()),
                         ::testing::PrintToStringParamName());

/// Whatever the variables say: only the emulated libraries have faults on demand.
PluginUnderTest emulated(const Options& more = {}) {
  PluginUnderTest plugin = amd();
  plugin.options["library"] = kFolder / "libamdhip64.so.6";
  plugin.options["rocblas"] = kFolder / "librocblas.so.4";
  for (const auto& [name, value] : more) plugin.options[name] = value;
  return plugin;
}

std::string property_of(const PluginUnderTest& plugin, const std::string& wanted) {
  const auto device = try_open(plugin);
  if (!device) return device.error().message;
  for (const auto& [key, value] : take((*device)->properties())) {
    if (key == wanted) return value;
  }
  return "";
}
std::string library_of(const PluginUnderTest& plugin) { return property_of(plugin, "library"); }

class AmdProducts : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!std::filesystem::exists(kFolder / "librocblas.so.4"))
      GTEST_SKIP() << "no emulated rocBLAS was built (crucible_emulated_rocblas)";
  }
  /// In a process of its own: what is told under these rules. "" in `part` is nothing at all.
  static void expect_told(const char* rules, const std::string& part, std::int64_t k = 64) {
    GTEST_FLAG_SET(death_test_style, "threadsafe");
    EXPECT_EXIT(
        {
          const std::string told = run_product_under_faults(emulated(), rules, k);
          std::fprintf(stderr, "told: %s\n", told.c_str());
          std::_Exit(part.empty() ? !told.empty() : told.find(part) == std::string::npos);
        },
        ::testing::ExitedWithCode(0), "told: ")
        << rules;
  }
};

TEST_F(AmdProducts, TheLibraryIsNamedAndAnAbsentOneIsSaid) {
  EXPECT_THAT(library_of(emulated()), HasSubstr("rocBLAS 4.0.0 (emulated)"));
  EXPECT_THAT(library_of(emulated({{"blas", "none"}})),
              HasSubstr("none (the option blas is none; products are generated"));
  const std::string absent = library_of(emulated({{"rocblas", "/nowhere/librocblas.so.4"}}));
  EXPECT_THAT(absent, HasSubstr("none (rocBLAS /nowhere/librocblas.so.4 cannot be loaded"));
  EXPECT_THAT(absent, HasSubstr("package rocblas"));
  EXPECT_THAT(library_of(emulated({{"rocblas", "libz.so.1"}})), HasSubstr("lacks rocblas_create_handle"));
  EXPECT_THAT(library_of(emulated({{"blas", "rocblas"}, {"rocblas", "/nowhere/librocblas.so.4"}})),
              HasSubstr("the option blas demands rocBLAS: "));
  PluginUnderTest plugin = emulated();
  plugin.options.erase("rocblas");
  EXPECT_THAT(library_of(plugin), HasSubstr("an emulated device takes only"));
}

/// "matrix_units" of an emulated device of this architecture and width, in a process of its own.
void expect_units(const char* architecture, const char* wave, const std::string& units, const Options& more = {}) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        setenv("CRUCIBLE_EMU_ARCH", architecture, 1);
        setenv("CRUCIBLE_EMU_WAVE", wave, 1);
        const std::string told = property_of(emulated(more), "matrix_units");
        std::fprintf(stderr, "told: %s\n", told.c_str());
        std::_Exit(told != units);
      },
      ::testing::ExitedWithCode(0), "told: ")
      << architecture << " " << wave;
}

TEST_F(AmdProducts, MatrixUnitsAreThoseOfTheArchitectureForItsWaves) {
  expect_units("gfx90a", "64", "mfma (f16, bf16)");
  expect_units("gfx908", "64", "mfma (f16)");
  expect_units("gfx1100", "32", "wmma (f16, bf16)");
  expect_units("gfx1100", "64", "none");
  expect_units("gfx1030", "32", "none");
  expect_units("gfx90a", "64", "none", {{"matrix_units", "false"}});
}

TEST_F(AmdProducts, UnlessItIsAskedForThereIsNone) {
  PluginUnderTest plugin = emulated();
  plugin.options.erase("blas");
  EXPECT_THAT(library_of(plugin), HasSubstr("none (the option blas is none"));
}

TEST_F(AmdProducts, ALibraryThatDoesNotStartDeclines) {
  expect_told("fail@init(rocblas_create_handle)",
              "does not start on amd:0: rocblas_create_handle: rocblas_status_internal_error");
}

TEST_F(AmdProducts, ATypeWithoutKernelsIsFoundOutBeforeItIsTaken) {
  expect_told("fail@launch(gemm_f32_16x16x16)",
              "does not do f32 n n 16x16x16 pitches 16 16 16 batch 1 here: rocblas_status_not_implemented");
}

TEST_F(AmdProducts, AShapeThatIsNotImplementedDeclines) {
  expect_told(
      "fail@query(gemm_f32_64x64x64)",
      "rocblas_gemm_strided_batched_ex of f32 n n 64x64x64 pitches 64 64 64 batch 1: rocblas_status_not_implemented");
}

TEST_F(AmdProducts, AnEpilogueIsNoReasonToLeaveTheLibrary) {
  const auto device = take(try_open(emulated()));
  const auto view = view_of({64, 64}, {64, 1}, 0, 7);  // bf16, which the matrix units would take
  crucible_library_desc desc = product_of(view, view, view);
  const auto claim = [&] {
    std::uint64_t scratch = 0;
    const auto claimed = to_result(device->backend().library_table().claim(device->handle(), &desc, &scratch), "claim");
    return claimed ? "taken" : claimed.error().message;
  };
  EXPECT_EQ(claim(), "taken");
  desc.epilogue = CRUCIBLE_EPILOGUE_BIAS;
  desc.extra = view_of({64}, {1}, 0, 7);
  EXPECT_THAT(claim(), HasSubstr("rocBLAS has no epilogues; it does the product without"));
}

TEST_F(AmdProducts, ACallThatFailsIsTold) {
  expect_told("oom@launch(gemm_f32_64x64x64)", "rocblas_status_memory_error (5)");
  expect_told("hang:1ms@launch(gemm_f32_64x64x64)", "rocblas_status_internal_error (6)");
  expect_told("trap@launch(gemm_f32_64x64x512)", "rocblas_status_internal_error (6)", 512);
}

TEST_F(AmdProducts, AWrongBitOfTheLibraryShows) {
  expect_told("flip:byte=3,bit=5@launch(gemm_f32_64x64x64)", "wrong result");
}

}  // namespace
}  // namespace crucible::backend
