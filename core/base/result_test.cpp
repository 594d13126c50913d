#include "core/base/result.hpp"

#include <gtest/gtest.h>

#include <memory>

namespace crucible {
namespace {

Result<int> half(int number) {
  if (number % 2 != 0) return Error{ErrorCode::kBadInput, "odd"};
  return number / 2;
}

Result<int> quarter(int number) {
  CRUCIBLE_TRY(const int once, half(number));
  CRUCIBLE_TRY(const int twice, half(once));
  return twice;
}

Result<void> need_even(int number) {
  CRUCIBLE_TRY_VOID(half(number));
  return {};
}

TEST(Result, CarriesAValueOrAnError) {
  ASSERT_TRUE(quarter(12));
  EXPECT_EQ(*quarter(12), 3);
  ASSERT_FALSE(quarter(6));
  EXPECT_EQ(quarter(6).error().message, "odd");
  EXPECT_EQ(quarter(6).error().code, ErrorCode::kBadInput);
}

TEST(Result, OfNothingTellsSuccess) {
  EXPECT_TRUE(need_even(2));
  EXPECT_FALSE(need_even(3));
}

TEST(Result, MovesWhatCannotBeCopied) {
  Result<std::unique_ptr<int>> result = std::make_unique<int>(7);
  std::unique_ptr<int> value = *std::move(result);
  EXPECT_EQ(*value, 7);
}

}  // namespace
}  // namespace crucible
