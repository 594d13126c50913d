// Argument names from schema texts, with the forms that real schemas have.
#include "frontends/aten/call/schema.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace crucible::aten {
namespace {

using testing::ElementsAre;

TEST(Schema, ArgumentNames) {
  EXPECT_THAT(argument_names("aten::add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor"),
              ElementsAre("self", "other", "alpha"));
  EXPECT_THAT(
      argument_names("aten::foo(Tensor(a!) self, SymInt[2] stride=[1, 1], str mode='a,b', int[]? dim=None) -> ()"),
      ElementsAre("self", "stride", "mode", "dim"));
  EXPECT_THAT(argument_names("aten::bar() -> Tensor"), testing::IsEmpty());
  EXPECT_THAT(argument_names("aten::bar"), testing::IsEmpty());
}

TEST(Schema, WritesArgument) {
  EXPECT_TRUE(writes_argument("aten::add_(Tensor(a!) self) -> Tensor(a!)"));
  EXPECT_TRUE(writes_argument("aten::_foreach_zero_(Tensor(a!)[] self) -> ()"));
  EXPECT_FALSE(writes_argument("aten::t(Tensor(a) self) -> Tensor(a)"));
}

TEST(Schema, IsOneWhereItsBracketsAndItsArrowAre) {
  for (const char* text :
       {"aten::add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor", "aten::f(int[2] k=[0, 1]) -> ()",
        "aten::g(str s=\"a)b\", Tensor(a!)? x=None) -> (Tensor, Tensor(a!)[])"}) {
    EXPECT_TRUE(is_schema(text)) << text;
  }
  for (const char* text : {"aten::neg(] self) -> Tensor", "aten::neg -> (Tensor", "aten::neg(Tensor self",
                           "aten::neg(Tensor self)) -> Tensor", "aten::neg(str s=\"a) -> Tensor",
                           "aten::neg(int[2) k] -> Tensor", "", "aten::neg"}) {
    EXPECT_FALSE(is_schema(text)) << text;
  }
}

}  // namespace
}  // namespace crucible::aten
