// Views folded into BLAS's terms: which operand comes first, what is one product, what becomes of batches, and what is
// declined.
#include "plugins/sdk/gemm.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>

#include "plugins/sdk/error.hpp"

namespace crucible::sdk {
namespace {

using ::testing::HasSubstr;

crucible_view view(std::vector<std::int64_t> sizes, std::vector<std::int64_t> strides, std::int64_t offset = 0,
                   std::uint32_t dtype = 8) {
  crucible_view result = {};
  result.rank = static_cast<std::uint32_t>(sizes.size());
  result.dtype = dtype;
  result.offset = offset;
  std::copy(sizes.begin(), sizes.end(), result.sizes);
  std::copy(strides.begin(), strides.end(), result.strides);
  return result;
}

crucible_library_desc describe(const crucible_view& a, const crucible_view& b, const crucible_view& c) {
  crucible_library_desc desc = {};
  desc.struct_size = sizeof(desc);
  desc.kind = CRUCIBLE_LIB_MATMUL;
  desc.views[0] = a, desc.views[1] = b, desc.views[2] = c;
  desc.alpha_f64_bits = std::bit_cast<std::uint64_t>(1.0);
  return desc;
}

Gemm read(const crucible_view& a, const crucible_view& b, const crucible_view& c) {
  const crucible_library_desc desc = describe(a, b, c);
  return read_gemm(&desc);
}

TEST(Gemm, RowsOfTheResultSwapTheOperands) {
  const Gemm rows = read(view({3, 4}, {4, 1}), view({4, 5}, {5, 1}), view({3, 5}, {5, 1}));
  EXPECT_EQ(rows.shape(), "f32 n n 5x3x4 pitches 5 4 5 batch 1");
  EXPECT_EQ(rows.x_view(), 1);
  const Gemm columns = read(view({3, 4}, {4, 1}), view({4, 5}, {5, 1}), view({3, 5}, {1, 3}));
  EXPECT_EQ(columns.shape(), "f32 t t 3x5x4 pitches 4 5 3 batch 1");
  EXPECT_EQ(columns.x_view(), 0);
}

TEST(Gemm, HalvesMayKeepTheF32ThatTheyAreSummedIn) {
  const Gemm kept = read(view({3, 4}, {4, 1}, 2, 7), view({4, 5}, {5, 1}, 0, 7), view({3, 5}, {5, 1}, 6));
  EXPECT_EQ(kept.shape(), "bf16 to f32 n n 5x3x4 pitches 5 4 5 batch 1");
  EXPECT_EQ(gemm_extent_bytes(kept, 0), (2u + 12) * 2);
  EXPECT_EQ(gemm_extent_bytes(kept, 2), (6u + 15) * 4);
  EXPECT_EQ(gemm_alignment(kept, 2, 0), 8u);
  EXPECT_THROW(read(view({3, 4}, {4, 1}, 0, 7), view({4, 5}, {5, 1}, 0, 7), view({3, 5}, {5, 1}, 0, 6)), Failure);
  EXPECT_THROW(read(view({3, 4}, {4, 1}, 0, 9), view({4, 5}, {5, 1}, 0, 9), view({3, 5}, {5, 1})), Failure);
}

TEST(Gemm, BatchesThatFitTogetherAreOne) {
  const Gemm one =
      read(view({2, 3, 4, 5}, {60, 20, 5, 1}), view({2, 3, 5, 6}, {90, 30, 6, 1}), view({2, 3, 4, 6}, {72, 24, 6, 1}));
  EXPECT_EQ(one.shape(), "f32 n n 6x4x5 pitches 6 5 6 batch 6 30 20 24");
  EXPECT_EQ(one.places.size(), 1u);
  // One weight under all: one taller product.
  const Gemm stacked = read(view({3, 4, 5}, {20, 5, 1}), view({3, 5, 6}, {0, 6, 1}), view({3, 4, 6}, {24, 6, 1}));
  EXPECT_EQ(stacked.shape(), "f32 n n 6x12x5 pitches 6 5 6 batch 1");
}

TEST(Gemm, TheLargerOfTwoBatchesGoesIntoTheCallAndTheOtherIsRepeated) {
  // Heads: [2, 3] views of a [2, token, 3, width] buffer do not fit together.
  const Gemm heads = read(view({2, 3, 8, 4}, {96, 4, 12, 1}, 7), view({2, 3, 4, 8}, {96, 4, 1, 12}),
                          view({2, 3, 8, 8}, {192, 64, 8, 1}));
  EXPECT_EQ(heads.batch, 3);
  ASSERT_EQ(heads.places.size(), 2u);
  EXPECT_EQ(heads.places[1].y, 7 + 96);
  EXPECT_EQ(heads.places[1].x, 96);
  EXPECT_EQ(heads.places[1].d, 192);
}

TEST(Gemm, ExtentsReachTheLastElement) {
  const Gemm gemm = read(view({5, 4}, {11, 1}, 3), view({4, 6}, {1, 9}, 7), view({5, 6}, {13, 1}, 2));
  EXPECT_EQ(gemm_extent_bytes(gemm, 0), 4u * (3 + 4 * 11 + 4));
  EXPECT_EQ(gemm_extent_bytes(gemm, 1), 4u * (7 + 5 * 9 + 4));
  EXPECT_EQ(gemm_extent_bytes(gemm, 2), 4u * (2 + 4 * 13 + 6));
  const Gemm batch =
      read(view({2, 3, 8, 4}, {96, 4, 12, 1}), view({2, 3, 4, 8}, {96, 4, 1, 12}), view({2, 3, 8, 8}, {192, 64, 8, 1}));
  EXPECT_EQ(gemm_extent_bytes(batch, 0), 4u * (96 + 2 * 4 + 7 * 12 + 4));
  EXPECT_EQ(gemm_extent_bytes(batch, 1), 4u * (96 + 2 * 4 + 7 * 12 + 4));
  EXPECT_EQ(gemm_extent_bytes(batch, 2), 4u * 2 * 192);
}

TEST(Gemm, AlignmentIsThatOfTheWorstPlace) {
  const Gemm gemm = read(view({2, 4, 8}, {36, 8, 1}, 4), view({2, 8, 4}, {32, 4, 1}), view({2, 4, 4}, {16, 4, 1}));
  EXPECT_EQ(gemm_alignment(gemm, 0, 0), 16u);   // offset 16, stride 144 bytes
  EXPECT_EQ(gemm_alignment(gemm, 1, 0), 128u);  // stride 128 bytes
  EXPECT_EQ(gemm_alignment(gemm, 1, 0x1004), 4u);
  EXPECT_EQ(gemm_alignment(read(view({4, 8}, {8, 1}), view({8, 4}, {4, 1}), view({4, 4}, {4, 1})), 2, 0), 256u);
}

TEST(Gemm, EpiloguesAreReadWhereTheyAreTaken) {
  crucible_library_desc desc = describe(view({4, 5}, {5, 1}), view({5, 6}, {6, 1}), view({4, 6}, {6, 1}));
  desc.epilogue = CRUCIBLE_EPILOGUE_BIAS_RELU;
  desc.extra = view({6}, {1}, 3);
  const Gemm gemm = read_gemm(&desc, Epilogues::kTaken);
  EXPECT_EQ(gemm.shape(), "f32 n n 6x4x5 pitches 6 5 6 batch 1 bias relu");
  EXPECT_EQ(gemm.buffers(), 4u);
  EXPECT_EQ(gemm_extent_bytes(gemm, 3), 4u * 9);
  EXPECT_EQ(gemm_alignment(gemm, 3, 0), 4u);
  EXPECT_EQ(gemm_alignment(gemm, 3, 2), 2u);
  const auto reason = [&](const auto& change) -> std::string {
    crucible_library_desc changed = desc;
    change(changed);
    try {
      (void)read_gemm(&changed, Epilogues::kTaken);
    } catch (const Failure& failure) {
      EXPECT_EQ(failure.code(), CRUCIBLE_E_UNSUPPORTED);
      return failure.what();
    }
    return "taken";
  };
  EXPECT_THAT(reason([](auto& d) { d.epilogue = 4; }), HasSubstr("epilogue 4 is not known"));
  EXPECT_THAT(reason([](auto& d) { d.views[2] = view({4, 6}, {1, 4}); }), HasSubstr("by columns"));
  EXPECT_THAT(reason([](auto& d) { d.extra.dtype = 7; }), HasSubstr("another type"));
  EXPECT_THAT(reason([](auto& d) { d.extra.sizes[0] = 4; }), HasSubstr("one number per column"));
  EXPECT_THAT(reason([](auto& d) { d.extra.rank = 2; }), HasSubstr("one number per column"));
  EXPECT_THAT(reason([](auto& d) { d.extra.strides[0] = 2; }), HasSubstr("side by side"));
  EXPECT_THAT(reason([](auto& d) { d.extra.offset = -1; }), HasSubstr("an offset that no buffer has"));
}

TEST(Gemm, WhatBlasDoesNotHaveIsDeclinedWithTheReason) {
  const crucible_view a = view({4, 5}, {5, 1}), b = view({5, 6}, {6, 1}), c = view({4, 6}, {6, 1});
  const auto reason = [](const crucible_library_desc& desc,
                         crucible_code code = CRUCIBLE_E_UNSUPPORTED) -> std::string {
    try {
      (void)read_gemm(&desc);
    } catch (const Failure& failure) {
      EXPECT_EQ(failure.code(), code);
      return failure.what();
    }
    return "taken";
  };
  EXPECT_EQ(reason(describe(a, b, c)), "taken");
  EXPECT_THAT(reason(describe(view({4, 5}, {10, 2}), b, c)), HasSubstr("unit stride"));
  EXPECT_THAT(reason(describe(view({4, 5}, {3, 1}), b, c)), HasSubstr("unit stride"));
  EXPECT_THAT(reason(describe(a, view({7, 6}, {6, 1}), c)), HasSubstr("sizes do not match"));
  EXPECT_THAT(reason(describe(a, b, view({4, 6}, {0, 1}))), HasSubstr("overlaps itself"));
  EXPECT_THAT(reason(describe(a, view({5, 6}, {6, 1}, 0, 9), c)), HasSubstr("types differ"));
  EXPECT_THAT(reason(describe(view({4, 5}, {5, 1}, 0, 3), b, c)), HasSubstr("only f16, bf16, f32 and f64"));
  EXPECT_THAT(reason(describe(view({4, 5}, {5, -1}), b, c)), HasSubstr("negative"));
  EXPECT_THAT(reason(describe(view({4, 5}, {std::int64_t{1} << 40, 1}), b, c)), HasSubstr("31 bits"));
  EXPECT_THAT(reason(describe(view({4, 0}, {5, 1}), view({0, 6}, {6, 1}), c)), HasSubstr("empty"));
  crucible_library_desc desc = describe(a, b, c);
  desc.epilogue = CRUCIBLE_EPILOGUE_BIAS;
  EXPECT_THAT(reason(desc), HasSubstr("epilogues"));
  desc.struct_size = offsetof(crucible_library_desc, epilogue);  // of ABI 0.1: what lies behind is not the host's
  EXPECT_EQ(reason(desc), "taken");
  desc.struct_size = 8;
  EXPECT_THAT(reason(desc, CRUCIBLE_E_INVALID_ARGUMENT), HasSubstr("too short"));
  desc = describe(a, b, c);
  desc.kind = CRUCIBLE_LIB_CONV2D;
  EXPECT_THAT(reason(desc), HasSubstr("only matrix products"));
  desc = describe(view({3000, 2, 4, 5}, {60, 20, 5, 1}), view({3000, 2, 5, 6}, {60, 31, 6, 1}),
                  view({3000, 2, 4, 6}, {48, 24, 6, 1}));
  EXPECT_EQ(reason(desc), "taken");  // the larger one goes into the call
  desc = describe(view({1500, 1500, 4, 5}, {60, 20, 5, 1}), view({1500, 1500, 5, 6}, {7, 31, 6, 1}),
                  view({1500, 1500, 4, 6}, {48000, 24, 6, 1}));
  EXPECT_THAT(reason(desc), HasSubstr("more than 1024 calls"));
}

}  // namespace
}  // namespace crucible::sdk
