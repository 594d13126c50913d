#include "core/runtime/compare.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

namespace crucible::runtime {
namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

template <class T>
TensorDifference difference(DType dtype, const std::vector<T>& actual, const std::vector<T>& expected) {
  const Result<TensorDifference> compared =
      compare(dtype, std::as_bytes(std::span(actual)), std::as_bytes(std::span(expected)));
  EXPECT_TRUE(compared) << compared.error().message;
  return compared ? *compared : TensorDifference{};
}

TEST(Compare, MeasuresAgainstTheLargestElement) {
  EXPECT_DOUBLE_EQ(difference<float>(DType::kF32, {1, 2, 4.5f}, {1, 2.25f, 4}).max_rel_diff, 0.5 / 4);
  EXPECT_DOUBLE_EQ(difference<double>(DType::kF64, {0, -8}, {0.5, -8}).max_rel_diff, 0.5 / 8);
  EXPECT_TRUE(difference<float>(DType::kF32, {1, 2}, {1, 2}).bit_equal);
  EXPECT_FALSE(difference<float>(DType::kF32, {0.0f}, {-0.0f}).bit_equal);
  EXPECT_EQ(difference<float>(DType::kF32, {0.0f}, {-0.0f}).max_rel_diff, 0);
}

TEST(Compare, NothingIsEqualToNothing) { EXPECT_TRUE(difference<float>(DType::kF32, {}, {}).bit_equal); }

TEST(Compare, KnowsNaNAndInfinity) {
  const float nan = std::numeric_limits<float>::quiet_NaN(), inf = std::numeric_limits<float>::infinity();
  EXPECT_EQ(difference<float>(DType::kF32, {nan, 1}, {-nan, 1}).max_rel_diff, 0);
  EXPECT_TRUE(difference<float>(DType::kF32, {nan, 1}, {-nan, 1}).bit_equal) << "its sign and payload say nothing";
  EXPECT_FALSE(difference<float>(DType::kF32, {nan, 1}, {-nan, 2}).bit_equal);
  EXPECT_EQ(difference<float>(DType::kF32, {nan, 1}, {2, 1}).max_rel_diff, kInfinity);
  EXPECT_EQ(difference<float>(DType::kF32, {2, 1}, {nan, 1}).max_rel_diff, kInfinity);
  EXPECT_EQ(difference<float>(DType::kF32, {inf, 1}, {inf, 2}).max_rel_diff, 0.5);
  EXPECT_EQ(difference<float>(DType::kF32, {inf, 1}, {-inf, 1}).max_rel_diff, kInfinity);
}

TEST(Compare, AgainstZerosEveryDifferenceIsLarge) {
  EXPECT_GT(difference<float>(DType::kF32, {1e-30f}, {0}).max_rel_diff, 1);
}

TEST(Compare, ReadsHalfAndBfloat16) {
  using Bits = std::uint16_t;
  EXPECT_EQ(difference<Bits>(DType::kF16, {0x3c00}, {0x4000}).max_rel_diff, 0.5);  // 1 and 2
  EXPECT_EQ(difference<Bits>(DType::kF16, {0x8001}, {0x0001}).max_rel_diff,
            2 * std::ldexp(1, -24) / std::ldexp(1, -24));
  EXPECT_EQ(difference<Bits>(DType::kF16, {0x7c00}, {0x7c01}).max_rel_diff, kInfinity);  // infinity and NaN
  EXPECT_EQ(difference<Bits>(DType::kBF16, {0x3f80}, {0x4080}).max_rel_diff, 0.75);      // 1 and 4
}

TEST(Compare, IntegersAreExact) {
  EXPECT_EQ(difference<std::int32_t>(DType::kI32, {1, -3}, {1, -4}).max_rel_diff, 0.25);
  const std::int64_t large = std::int64_t{1} << 62;
  EXPECT_GT(difference<std::int64_t>(DType::kI64, {large + 1}, {large}).max_rel_diff, 0);  // equal as doubles
  EXPECT_EQ(difference<std::uint8_t>(DType::kBool, {1, 0}, {0, 0}).max_rel_diff,
            1 / static_cast<double>(std::numeric_limits<float>::min()));
  EXPECT_EQ(difference<std::uint8_t>(DType::kBool, {1, 1}, {0, 1}).max_rel_diff, 1);
}

TEST(Compare, RefusesOtherSizes) {
  const std::vector<std::byte> bytes(12);
  const Result<TensorDifference> compared = compare(DType::kF32, std::span(bytes).first(8), bytes);
  ASSERT_FALSE(compared);
  EXPECT_EQ(compared.error().code, ErrorCode::kBadInput);
  EXPECT_FALSE(compare(DType::kF64, bytes, bytes));
}

TEST(RelativeDifference, OfNumbers) {
  EXPECT_DOUBLE_EQ(relative_difference(2.2, 2.0), (2.2 - 2.0) / 2.0);
  EXPECT_EQ(relative_difference(kNaN, kNaN), 0);
  EXPECT_EQ(relative_difference(1, kNaN), kInfinity);
  EXPECT_EQ(relative_difference(-kInfinity, kInfinity), kInfinity);
}

TEST(Tolerance, IsExactForIntegersAndWiderForNarrowTypes) {
  for (const DType dtype : {DType::kBool, DType::kU8, DType::kI8, DType::kI16, DType::kI32, DType::kI64}) {
    EXPECT_EQ(output_tolerance(dtype), 0) << name(dtype);
  }
  EXPECT_LT(output_tolerance(DType::kF64), output_tolerance(DType::kF32));
  EXPECT_LT(output_tolerance(DType::kF32), output_tolerance(DType::kF16));
  EXPECT_LT(output_tolerance(DType::kF16), output_tolerance(DType::kBF16));
}

}  // namespace
}  // namespace crucible::runtime
