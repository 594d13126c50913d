// The emulated libraries' product: halves round to nearest even, transposes and pitches, and the scratch changes
// nothing.
#include "tests/emulators/core/product.hpp"

#include <gtest/gtest.h>

#include <vector>

namespace crucible::emulator {
namespace {

template <class T>
MatrixOperand operand(std::vector<T>& values, std::int64_t pitch, bool transposed = false) {
  return {reinterpret_cast<char*>(values.data()), transposed, pitch, 0};
}

std::uint16_t times_one(ElementType type, std::uint16_t value, std::uint16_t one) {
  std::vector<std::uint16_t> a = {value}, b = {one}, d = {0};
  multiply({.type = type, .m = 1, .n = 1, .k = 1, .a = operand(a, 1), .b = operand(b, 1), .c = {}, .d = operand(d, 1)});
  return d[0];
}

TEST(EmulatedProduct, EveryHalfComesBackAsItWas) {
  for (std::uint32_t bits = 0; bits < 0x10000; ++bits) {
    const auto half = static_cast<std::uint16_t>(bits);
    const bool is_f16 = (half & 0x7fff) <= 0x7c00, is_bf16 = (half & 0x7fff) <= 0x7f80;  // no NaN
    const std::uint16_t expected = half == 0x8000 ? 0 : half;                            // sums begin at +0
    EXPECT_TRUE(!is_f16 || times_one(ElementType::kF16, half, 0x3c00) == expected) << half;
    EXPECT_TRUE(!is_bf16 || times_one(ElementType::kBF16, half, 0x3f80) == expected) << half;
  }
}

TEST(EmulatedProduct, HalvesRoundToEven) {
  // 2049 lies between 2048 and 2050, 2051 between 2050 and 2052; 65504 + 16 is infinity.
  std::vector<std::uint16_t> a = {0x6800, 0x3c00}, d = {0};
  std::vector<std::uint16_t> ones = {0x3c00, 0x3c00}, three = {0x3c00, 0x4200};
  Product p = {.type = ElementType::kF16,
               .m = 1,
               .n = 1,
               .k = 2,
               .a = operand(a, 1),
               .b = operand(ones, 2),
               .c = {},
               .d = operand(d, 1)};
  multiply(p);
  EXPECT_EQ(d[0], 0x6800);
  p.b = operand(three, 2);
  multiply(p);
  EXPECT_EQ(d[0], 0x6802);
  a = {0x7bff, 0x4c00};
  p.b = operand(ones, 2);
  multiply(p);
  EXPECT_EQ(d[0], 0x7c00);
}

TEST(EmulatedProduct, TransposesPitchesAndScratch) {
  // a = [1 2 3; 4 5 6], b = [7 8; 9 10; 11 12], both columns first and rows first, with holes.
  std::vector<float> columns_a = {1, 4, 0, 2, 5, 0, 3, 6, 0}, rows_a = {1, 2, 3, 0, 4, 5, 6, 0};
  std::vector<float> columns_b = {7, 9, 11, 8, 10, 12}, rows_b = {7, 8, 9, 10, 11, 12};
  std::vector<double> scratch(4);
  for (const bool transposed : {false, true}) {
    for (const bool with_scratch : {false, true}) {
      std::vector<float> d(6, -1), c = {1, 1, 0, 1, 1, 0};
      multiply({.m = 2,
                .n = 2,
                .k = 3,
                .alpha = 2,
                .beta = 10,
                .a = transposed ? operand(rows_a, 4, true) : operand(columns_a, 3),
                .b = transposed ? operand(rows_b, 2, true) : operand(columns_b, 3),
                .c = operand(c, 3),
                .d = operand(d, 3),
                .scratch = with_scratch ? reinterpret_cast<char*>(scratch.data()) : nullptr});
      EXPECT_EQ(d, (std::vector<float>{126, 288, -1, 138, 318, -1})) << transposed << with_scratch;
    }
  }
}

}  // namespace
}  // namespace crucible::emulator
