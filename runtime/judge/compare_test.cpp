#include "runtime/judge/compare.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <span>
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

using Bits = std::uint16_t;

TEST(Compare, ReadsHalfAndBfloat16) {
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

/// Numbers of bf16, and what they were rounded from times `factor`, rounded to nearest. A number of bf16 times 1.001
/// would round to itself.
struct Scaled {
  std::vector<Bits> right, wrong;
};

Scaled scaled_bf16(std::size_t count, float factor, std::size_t copies = 1) {
  Scaled made;
  for (std::size_t i = 0; i < count * copies; ++i) {
    const auto right = static_cast<Bits>(0x3e00 + i / copies);
    const auto below = static_cast<std::uint32_t>(i * 40503 % 0xfffe) - 0x7fff;  // what rounding took away
    const float number = std::bit_cast<float>((static_cast<std::uint32_t>(right) << 16) + below) * factor;
    const auto bits = std::bit_cast<std::uint32_t>(number);
    made.right.push_back(right);
    made.wrong.push_back(static_cast<Bits>((bits + 0x7fff + (bits >> 16 & 1)) >> 16));
  }
  return made;
}

double lean(DType dtype, const std::vector<Bits>& actual, const std::vector<Bits>& expected) {
  return lean_of(dtype, std::as_bytes(std::span(actual)), std::as_bytes(std::span(expected)));
}

TEST(Lean, IsTheFactorThatRoundingsHide) {
  for (const float factor : {1.001F, 0.999F, 1.0F}) {
    const Scaled scaled = scaled_bf16(1000, factor);
    EXPECT_NEAR(lean(DType::kBF16, scaled.wrong, scaled.right), static_cast<double>(factor) - 1, 2e-4) << factor;
    Scaled negative = scaled;
    for (Bits& bits : negative.wrong) bits ^= 0x8000;
    for (Bits& bits : negative.right) bits ^= 0x8000;
    EXPECT_NEAR(lean(DType::kBF16, negative.wrong, negative.right), static_cast<double>(factor) - 1, 2e-4) << factor;
  }
}

TEST(Lean, IsOfNumbersThatAreToldApart) {
  const Scaled few = scaled_bf16(100, 1.01F, 50);
  EXPECT_EQ(lean(DType::kBF16, few.wrong, few.right), 0) << "5,000 elements, of them 100 different ones";
  Scaled mixed = scaled_bf16(200, 1);
  mixed.right.insert(mixed.right.end(), 100000, 0x3f80);
  mixed.wrong.insert(mixed.wrong.end(), 100000, 0x3f81);  // one number that rounds up, wherever it stands
  EXPECT_LT(std::abs(lean(DType::kBF16, mixed.wrong, mixed.right)), 3e-4);
}

TEST(Lean, IsNoMatterOfOtherDtypesSizesAndNumbersWithoutAllTheirBits) {
  const Scaled scaled = scaled_bf16(1000, 1.01F);
  EXPECT_EQ(lean(DType::kI16, scaled.wrong, scaled.right), 0);
  EXPECT_EQ(lean(DType::kBF16, scaled.wrong, scaled_bf16(999, 1).right), 0);
  std::vector<Bits> small, large;  // subnormals of f16, one unit apart, and what is infinite or no number
  for (Bits bits = 1; bits < 1000; ++bits) small.push_back(bits), large.push_back(static_cast<Bits>(bits + 1));
  for (Bits bits = 0x7c00; bits < 0x7e00; ++bits) small.push_back(bits), large.push_back(bits);
  EXPECT_EQ(lean(DType::kF16, large, small), 0);
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

__extension__ using Wide = __int128;

/// By the words of Gap, element after element.
Gap plain_gap(DType dtype, const std::vector<std::byte>& actual, const std::vector<std::byte>& expected,
              const std::vector<bool>& is_left_out) {
  const std::size_t size = size_bytes(dtype);
  const auto number = [&](const std::vector<std::byte>& bytes, std::size_t i) {
    return element_as_double(dtype, std::span(bytes).subspan(i * size, size));
  };
  double largest = std::numeric_limits<float>::min(), squares = 0;
  std::vector<double> far;
  for (std::size_t i = 0; i < expected.size() / size; ++i) {
    const double a = number(actual, i), e = number(expected, i);
    if (std::isfinite(e)) largest = std::max(largest, std::fabs(e));
    if (i < is_left_out.size() && is_left_out[i]) continue;
    const bool is_same = a == e || (std::isnan(a) && std::isnan(e));
    if (dtype == DType::kI64) {
      std::int64_t x = 0, y = 0;
      std::memcpy(&x, &actual[i * size], size);
      std::memcpy(&y, &expected[i * size], size);
      far.push_back(static_cast<double>(x > y ? Wide{x} - y : Wide{y} - x));
      continue;
    }
    far.push_back(is_same ? 0 : std::isfinite(a) && std::isfinite(e) ? std::fabs(a - e) : kInfinity);
  }
  if (far.empty()) return {};
  for (const double one : far) squares += (one / largest) * (one / largest);
  std::sort(far.begin(), far.end());
  return {far.back() / largest, std::sqrt(squares / static_cast<double>(far.size())), far[far.size() / 2] / largest};
}

TEST(Gap, IsWhatItsWordsSayForEachDtype) {
  for (const DType dtype : {DType::kBool, DType::kU8, DType::kI8, DType::kI16, DType::kI32, DType::kI64, DType::kF16,
                            DType::kBF16, DType::kF32, DType::kF64}) {
    for (unsigned seed = 0; seed < 60; ++seed) {
      std::mt19937 random(seed);
      const std::size_t count = 1 + random() % 300;
      std::vector<std::byte> actual(count * size_bytes(dtype)), expected(actual.size());
      for (std::byte& byte : expected)
        byte = static_cast<std::byte>(dtype == DType::kI64 ? random() % 4
                                                           : random() % 256);  // of floats NaN and infinities too
      actual = expected;
      for (unsigned changes = random() % 40; changes > 0; --changes)
        actual[random() % actual.size()] = static_cast<std::byte>(random() % 4);
      std::vector<bool> is_left_out(random() % 3 == 0 ? 0 : random() % (count + 5));
      for (std::size_t i = 0; i < is_left_out.size(); ++i) is_left_out[i] = random() % 4 == 0 || seed == 7;
      const Gap is = gap_between(dtype, actual, expected, is_left_out),
                wanted = plain_gap(dtype, actual, expected, is_left_out);
      EXPECT_EQ(is.largest, wanted.largest) << name(dtype) << " " << seed;
      EXPECT_DOUBLE_EQ(is.rms, wanted.rms) << name(dtype) << " " << seed;
      EXPECT_EQ(is.median, wanted.median) << name(dtype) << " " << seed;
    }
  }
}

TEST(Gap, TheMiddleOfManyIsThatOfSomeEvenlySpread) {
  std::vector<float> expected(1'000'000, 1.0f), actual;
  for (std::size_t i = 0; i < expected.size(); ++i)
    actual.push_back(1 + static_cast<float>(i / 1000) / 1000);  // further and further
  const Gap gap = gap_between(DType::kF32, std::as_bytes(std::span(actual)), std::as_bytes(std::span(expected)));
  EXPECT_NEAR(gap.median, 0.5, 0.01);
  EXPECT_NEAR(gap.largest, 0.999, 1e-6) << "of all";
  EXPECT_NEAR(gap.rms, std::sqrt(1.0 / 3), 0.002) << "of all";
}

}  // namespace
}  // namespace crucible::runtime
