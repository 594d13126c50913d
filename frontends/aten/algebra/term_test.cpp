// Type promotion: the rules that the framework documents, by example.
#include "frontends/aten/algebra/term.hpp"

#include <gtest/gtest.h>

namespace crucible::aten {
namespace {

Term tensor(DType dtype, Sizes sizes = {2}) {
  Term t;
  t.dtype = dtype;
  t.operand.value = 0;
  t.operand.view = graph::View::contiguous(std::move(sizes));
  return t;
}

TEST(Promote, TensorsWithDimensionsJoin) {
  EXPECT_EQ(promote({tensor(DType::kF32), tensor(DType::kF64)}), DType::kF64);
  EXPECT_EQ(promote({tensor(DType::kI64), tensor(DType::kF16)}), DType::kF16);
  EXPECT_EQ(promote({tensor(DType::kF16), tensor(DType::kBF16)}), DType::kF32);
  EXPECT_EQ(promote({tensor(DType::kU8), tensor(DType::kI8)}), DType::kI16);
  EXPECT_EQ(promote({tensor(DType::kU8), tensor(DType::kI32)}), DType::kI32);
  EXPECT_EQ(promote({tensor(DType::kBool), tensor(DType::kU8)}), DType::kU8);
}

TEST(Promote, ZeroDimensionalTensorsRaiseTheCategoryOnly) {
  EXPECT_EQ(promote({tensor(DType::kF32), tensor(DType::kF64, {})}), DType::kF32);
  EXPECT_EQ(promote({tensor(DType::kI32), tensor(DType::kF64, {})}), DType::kF64);
  EXPECT_EQ(promote({tensor(DType::kF64, {}), tensor(DType::kF32, {})}), DType::kF64);
}

TEST(Promote, NumbersComeLast) {
  EXPECT_EQ(promote({tensor(DType::kF16), Term::number(2)}), DType::kF16);
  EXPECT_EQ(promote({tensor(DType::kI64), Term::number(2)}), DType::kF32);
  EXPECT_EQ(promote({tensor(DType::kI32), Term::integer(2)}), DType::kI32);
  EXPECT_EQ(promote({tensor(DType::kBool), Term::integer(2)}), DType::kI64);
  EXPECT_EQ(promote({tensor(DType::kI32, {}), Term::integer(2)}), DType::kI32);
  Term wrapped = tensor(DType::kF64, {});
  wrapped.is_wrapped_number = true;
  EXPECT_EQ(promote({tensor(DType::kF32, {}), wrapped}), DType::kF32);
  EXPECT_EQ(promote({tensor(DType::kI64), wrapped}), DType::kF32);
}

}  // namespace
}  // namespace crucible::aten
