// Differences of elements of every type, by hand-written bits.
#include "core/trace/element_difference.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <complex>
#include <cstdint>
#include <limits>
#include <vector>

namespace crucible::trace {
namespace {

template <class Number>
std::string text_of(const std::vector<Number>& a, const std::vector<Number>& b, DType dtype) {
  return difference_text(std::as_bytes(std::span(a)), std::as_bytes(std::span(b)), dtype);
}

TEST(ElementDifference, NamesTheFirstAndCountsAll) {
  EXPECT_EQ(text_of<float>({1, 0.1f, 3, 5}, {1, 0.2f, 3, 4.5f}, DType::kF32),
            "element 1 of 4 is 0.1 against 0.2; 2 differ, by at most 0.5");
  EXPECT_EQ(text_of<double>({0.1}, {0.30000000000000004}, DType::kF64),
            "element 0 of 1 is 0.1 against 0.30000000000000004; 1 differs, by at most 0.20000000000000004");
  EXPECT_EQ(text_of<std::int64_t>({7, -3}, {7, 2}, DType::kI64),
            "element 1 of 2 is -3 against 2; 1 differs, by at most 5.0");
  EXPECT_EQ(text_of<std::uint8_t>({1}, {0}, DType::kBool),
            "element 0 of 1 is true against false; 1 differs, by at most 1.0");
}

TEST(ElementDifference, HalfPrecision) {
  EXPECT_EQ(text_of<std::uint16_t>({0x3c00}, {0xc000}, DType::kF16),
            "element 0 of 1 is 1.0 against -2.0; 1 differs, by at most 3.0");
  EXPECT_EQ(text_of<std::uint16_t>({0x0001}, {0x0000}, DType::kF16).substr(0, 33), "element 0 of 1 is 5.9604645e-08 a");
  EXPECT_EQ(text_of<std::uint16_t>({0x7c00}, {0x7bff}, DType::kF16),
            "element 0 of 1 is inf against 65504.0; 1 differs, by at most inf");
  EXPECT_EQ(text_of<std::uint16_t>({0x3f80}, {0x4000}, DType::kBF16),
            "element 0 of 1 is 1.0 against 2.0; 1 differs, by at most 1.0");
}

TEST(ElementDifference, ComplexByDistance) {
  const std::vector<std::complex<float>> a = {{3, 4}}, b = {{0, 0}};
  EXPECT_EQ(text_of(a, b, DType::kC64), "element 0 of 1 is (3.0, 4.0i) against (0.0, 0.0i); 1 differs, by at most 5.0");
}

TEST(ElementDifference, BitsCountAndNanIsFar) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const std::vector<float> a = {0.0f, nan, 1}, b = {-0.0f, nan, 1};
  const ElementDifference found =
      compare_elements(std::as_bytes(std::span(a)), std::as_bytes(std::span(b)), DType::kF32);
  EXPECT_EQ(found.differing, 1u);
  EXPECT_EQ(found.max_abs_difference, 0.0);
  const std::vector<float> c = {0.0f, 2, 9};
  EXPECT_TRUE(std::isnan(
      compare_elements(std::as_bytes(std::span(a)), std::as_bytes(std::span(c)), DType::kF32).max_abs_difference));
}

TEST(ElementDifference, SizesAndUnknownTypes) {
  EXPECT_EQ(text_of<float>({1, 2}, {1}, DType::kF32), "8 bytes against 4");
  EXPECT_EQ(text_of<std::uint8_t>({9, 8}, {9, 7}, DType::kOther),
            "element 1 of 2 is 8 against 7; 1 differs, by at most 1.0");
  EXPECT_EQ(text_of<std::uint8_t>({0, 0, 0, 0, 1}, {0, 0, 0, 0, 2}, DType::kF32),
            "the last bytes, which are no whole element");
}

}  // namespace
}  // namespace crucible::trace
