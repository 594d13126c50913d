// Argument names from schema texts, with the forms that real schemas have.
#include "frontends/aten/schema.hpp"

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

}  // namespace
}  // namespace crucible::aten
