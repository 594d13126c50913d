// Which kernel a product for matrix units gets, its launches, and what is declined. The kernels themselves run in the
// plugins' own tests, on emulated devices (testing/device_products.cpp), and are compiled for real ones there.
#include "plugins/sdk/matrix_product.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <set>

namespace crucible::sdk {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr std::uint64_t kPlaces[3] = {0x10000, 0x20000, 0x30000};

/// A row-major product of bf16: 200 rows, 96 columns, 64 steps.
Gemm gemm() {
  Gemm made;
  made.dtype = 7;
  made.m = 96, made.n = 200, made.k = 64;
  made.x = {.pitch = 96};
  made.y = {.pitch = 64};
  made.d = {.pitch = 96};
  made.is_swapped = true;
  made.alpha = 0.5;
  made.places = {{}};
  return made;
}

TEST(MatrixProduct, ArgumentsAreThoseOfTheTransposedProduct) {
  const auto launches = matrix_launches(gemm(), kPlaces, 132);
  ASSERT_EQ(launches.size(), 1u);
  const MatrixLaunch& launch = launches[0];
  // Left is BLAS's second operand, which is the description's first buffer here.
  EXPECT_THAT(launch.arguments, ElementsAre(0x10000, 0x20000, 0x30000, 200, 96, 64, 1, 64, 96, 96, 0, 0, 0,
                                            std::bit_cast<std::uint64_t>(0.5), 0));
  EXPECT_THAT(launch.blocks, ElementsAre(2, 4, 1));
  EXPECT_EQ(launch.threads, 128u);
  EXPECT_EQ(launch.variant, (MatrixVariant{.is_bf16 = true,
                                           .left_is_along = true,
                                           .right_is_along = false,
                                           .is_aligned = true,
                                           .has_large_tiles = false}));
  EXPECT_EQ(*static_cast<const std::uint64_t*>(launch.places()[3]), 200u);
}

TEST(MatrixProduct, EpiloguesAreOfTheTextAndTheirBiasIsAnArgument) {
  const std::uint64_t places[4] = {kPlaces[0], kPlaces[1], kPlaces[2], 0x40000};
  Gemm made = gemm();
  made.epilogue = CRUCIBLE_EPILOGUE_BIAS;
  made.bias = 5;
  const MatrixLaunch bias = matrix_launches(made, places, 132).front();
  EXPECT_EQ(bias.arguments.back(), 0x4000au);
  EXPECT_TRUE(bias.variant.has_bias && !bias.variant.has_relu);
  made.epilogue = CRUCIBLE_EPILOGUE_BIAS_RELU;
  EXPECT_TRUE(matrix_launches(made, places, 132).front().variant.has_relu);
  EXPECT_EQ(matrix_refusal(made, MatrixUnit::kMma), "");
  made.epilogue = CRUCIBLE_EPILOGUE_BIAS_GELU;
  EXPECT_THAT(matrix_refusal(made, MatrixUnit::kMma), ::testing::HasSubstr("bias and bias with ReLU"));
}

TEST(MatrixProduct, ManyTilesAreLargeOnes) {
  const MatrixLaunch launch = matrix_launches(gemm(), kPlaces, 1).front();
  EXPECT_TRUE(launch.variant.has_large_tiles);
  EXPECT_THAT(launch.blocks, ElementsAre(1, 2, 1));
  EXPECT_EQ(launch.threads, 256u);
}

TEST(MatrixProduct, EverythingThatIsInTheWayOfAnAccessIsSeen) {
  const auto is_aligned = [](const Gemm& gemm, std::uint64_t shift = 0) {
    const std::uint64_t places[3] = {kPlaces[0] + shift, kPlaces[1], kPlaces[2]};
    return matrix_launches(gemm, places, 132).front().variant.is_aligned;
  };
  EXPECT_TRUE(is_aligned(gemm()));
  EXPECT_TRUE(is_aligned(gemm(), 16));
  EXPECT_FALSE(is_aligned(gemm(), 8));
  Gemm made = gemm();
  made.x.pitch = 100;
  EXPECT_FALSE(is_aligned(made));
  made = gemm(), made.places[0].y = 4;
  EXPECT_FALSE(is_aligned(made));
  made = gemm(), made.batch = 2, made.y.batch_stride = 12804;
  EXPECT_FALSE(is_aligned(made));
  made.y.batch_stride = 12800;
  EXPECT_TRUE(is_aligned(made));
  made = gemm(), made.y.batch_stride = 12804;  // of one product there is no next
  EXPECT_TRUE(is_aligned(made));
  made = gemm(), made.d.pitch = 97;  // results are stored one by one
  EXPECT_TRUE(is_aligned(made));
}

TEST(MatrixProduct, EachPlaceIsALaunch) {
  Gemm made = gemm();
  made.places = {{.x = 8, .y = 16, .d = 24}, {.x = 0, .y = 0, .d = 1}};
  const auto launches = matrix_launches(made, kPlaces, 132);
  ASSERT_EQ(launches.size(), 2u);
  EXPECT_EQ(launches[0].arguments[0], 0x10000u + 32);
  EXPECT_EQ(launches[0].arguments[1], 0x20000u + 16);
  EXPECT_EQ(launches[0].arguments[2], 0x30000u + 48);
  EXPECT_EQ(launches[1].arguments[2], 0x30000u + 2);
}

TEST(MatrixProduct, GridsStayWithinADriversLimits) {
  Gemm made = gemm();
  made.n = 70000 * 64, made.batch = 70000;
  const MatrixLaunch launch = matrix_launches(made, kPlaces, 1u << 31).front();
  EXPECT_LE(launch.blocks[1], 65535u);
  EXPECT_LE(launch.blocks[2], 65535u);
}

TEST(MatrixProduct, ArchitecturesAndTheirUnits) {
  EXPECT_EQ(matrix_unit_of_nvidia(75), MatrixUnit::kNone);
  EXPECT_EQ(matrix_unit_of_nvidia(80), MatrixUnit::kMma);
  for (const auto& [name, unit] : {std::pair("gfx90a:sramecc+:xnack-", MatrixUnit::kMfma),
                                   {"gfx942", MatrixUnit::kMfma},
                                   {"gfx908", MatrixUnit::kMfmaOfF16},
                                   {"gfx1100", MatrixUnit::kWmma},
                                   {"gfx1151", MatrixUnit::kWmma},
                                   {"gfx1030", MatrixUnit::kNone},
                                   {"gfx906", MatrixUnit::kNone},
                                   {"gfx1201", MatrixUnit::kNone},
                                   {"gfx11-generic", MatrixUnit::kNone},
                                   {"", MatrixUnit::kNone}}) {
    EXPECT_EQ(matrix_unit_of_amd(name), unit) << name;
  }
  EXPECT_EQ(wave_of(MatrixUnit::kWmma), 32u);
  EXPECT_EQ(wave_of(MatrixUnit::kMfma), 64u);
}

TEST(MatrixProduct, WhatIsDeclined) {
  EXPECT_EQ(matrix_refusal(gemm(), MatrixUnit::kMma), "");
  EXPECT_THAT(matrix_refusal(gemm(), MatrixUnit::kNone), HasSubstr("no matrix units"));
  EXPECT_THAT(matrix_refusal(gemm(), MatrixUnit::kMfmaOfF16), HasSubstr("do not take bf16"));
  Gemm made = gemm();
  made.dtype = 8;
  EXPECT_THAT(matrix_refusal(made, MatrixUnit::kMma), HasSubstr("f16 and bf16 alone"));
  made = gemm(), made.k = 15;
  EXPECT_THAT(matrix_refusal(made, MatrixUnit::kMma), HasSubstr("fewer than 16"));
}

TEST(MatrixProduct, EveryVariantHasANameAndATextOfItsOwn) {
  for (const MatrixUnit unit : {MatrixUnit::kMma, MatrixUnit::kMfma, MatrixUnit::kWmma}) {
    std::set<std::string> names, texts;
    for (unsigned bits = 0; bits < 32; ++bits) {
      const MatrixVariant variant{(bits & 1) != 0,  (bits & 2) != 0, (bits & 4) != 0, (bits & 8) != 0,
                                  (bits & 16) != 0, bits % 3 != 0,   bits % 3 == 2};
      const KernelBatch batch =
          write_matrix_kernel(variant, unit, unit == MatrixUnit::kMma ? dialect_cuda() : dialect_hip());
      ASSERT_EQ(batch.names.size(), 1u);
      names.insert(batch.names.front());
      texts.insert(batch.text);
      EXPECT_THAT(batch.text, HasSubstr(batch.names.front() + "("));
    }
    EXPECT_EQ(names.size(), 32u);
    EXPECT_EQ(texts.size(), 32u);
  }
}

}  // namespace
}  // namespace crucible::sdk
