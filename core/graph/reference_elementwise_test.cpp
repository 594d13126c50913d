// Single numbers of the rarer element-wise ops against values worked out elsewhere.
#include "core/graph/reference_elementwise.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace crucible::graph {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr std::int64_t kLowest = std::numeric_limits<std::int64_t>::min();

double real(OpKind kind, double a, double b = 0) { return reference_real(kind, a, b); }
std::int64_t whole(OpKind kind, std::int64_t a, std::int64_t b, DType dtype = DType::kI64) {
  return reference_integer(kind, dtype, a, b);
}

TEST(ReferenceElementwise, RoundingKeepsTheSignOfZero) {
  EXPECT_EQ(real(OpKind::kRound, 2.5), 2);
  EXPECT_EQ(real(OpKind::kRound, 3.5), 4);
  EXPECT_EQ(real(OpKind::kCeil, -1.5), -1);
  EXPECT_EQ(real(OpKind::kTruncate, -1.5), -1);
  EXPECT_TRUE(std::signbit(real(OpKind::kRound, -0.25)));
}

TEST(ReferenceElementwise, FunctionsWithoutALibrary) {
  EXPECT_NEAR(real(OpKind::kErfInverse, 0.5), 0.47693627620446987338, 1e-15);
  EXPECT_NEAR(real(OpKind::kErfInverse, -0.999), -2.3267537655135246, 1e-12);
  EXPECT_EQ(real(OpKind::kErfInverse, 1), kInfinity);
  EXPECT_TRUE(std::isnan(real(OpKind::kErfInverse, 1.5)));
  EXPECT_NEAR(real(OpKind::kDigamma, 1), -0.57721566490153286061, 1e-14);
  EXPECT_NEAR(real(OpKind::kDigamma, -0.5), 0.03648997397857652056, 1e-13);
  EXPECT_EQ(real(OpKind::kDigamma, 0.0), -kInfinity);
  EXPECT_EQ(real(OpKind::kDigamma, -0.0), kInfinity);
  EXPECT_TRUE(std::isnan(real(OpKind::kDigamma, -3)));
  EXPECT_NEAR(real(OpKind::kLogGamma, 0.5), 0.57236494292470008707, 1e-15);
}

TEST(ReferenceElementwise, DivisionOfIntegers) {
  EXPECT_EQ(whole(OpKind::kDivideInteger, -7, 2), -3);
  EXPECT_EQ(whole(OpKind::kRemainder, -7, 2), -1);
  EXPECT_EQ(whole(OpKind::kDivideInteger, 5, 0), 0);
  EXPECT_EQ(whole(OpKind::kRemainder, 5, 0), 0);
  EXPECT_EQ(whole(OpKind::kDivideInteger, kLowest, -1), kLowest);
  EXPECT_EQ(whole(OpKind::kRemainder, kLowest, -1), 0);
  EXPECT_EQ(real(OpKind::kRemainder, -7, 2), -1);
}

TEST(ReferenceElementwise, PowersAndBitsOfIntegers) {
  EXPECT_EQ(whole(OpKind::kPower, -3, 3), -27);
  EXPECT_EQ(whole(OpKind::kPower, 2, -1), 0);
  EXPECT_EQ(whole(OpKind::kPower, -1, -3), -1);
  EXPECT_EQ(whole(OpKind::kPower, 0, 0), 1);
  EXPECT_EQ(whole(OpKind::kBitNot, 5, 0), -6);
  EXPECT_EQ(whole(OpKind::kBitAnd, 12, 10), 8);
  EXPECT_EQ(whole(OpKind::kBitOr, 12, 10), 14);
  EXPECT_EQ(whole(OpKind::kBitXor, 12, 10), 6);
  EXPECT_EQ(whole(OpKind::kShiftLeft, 3, 2), 12);
  EXPECT_EQ(whole(OpKind::kShiftLeft, 3, 8, DType::kU8), 0);
  EXPECT_EQ(whole(OpKind::kShiftLeft, 3, -1), 0);
  EXPECT_EQ(whole(OpKind::kShiftRight, -5, 1), -3);
  EXPECT_EQ(whole(OpKind::kShiftRight, -5, 40, DType::kI32), -1);
}

}  // namespace
}  // namespace crucible::graph
