// Functional names of in-place and out= ops, with the forms that real schemas have.
#include "frontends/aten/call/op_variants.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "frontends/aten/lower_table.hpp"

namespace crucible::aten {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

TEST(OpVariants, InPlace) {
  EXPECT_THAT(functional_names("aten::add_.Tensor"), ElementsAre("aten::add.Tensor"));
  EXPECT_THAT(functional_names("aten::relu_"), ElementsAre("aten::relu"));
  EXPECT_THAT(functional_names("aten::_foreach_add_.Scalar"), ElementsAre("aten::_foreach_add.Scalar"));
  EXPECT_THAT(functional_names("aten::pow_.Scalar"), ElementsAre("aten::pow.Tensor_Scalar"));
  EXPECT_THAT(functional_names("aten::transpose_"), ElementsAre("aten::transpose.int"));
}

TEST(OpVariants, OutArguments) {
  EXPECT_THAT(functional_names("aten::maximum.out"), ElementsAre("aten::maximum", "aten::maximum.Tensor"));
  EXPECT_THAT(functional_names("aten::lt.Scalar_out"), ElementsAre("aten::lt.Scalar"));
  EXPECT_THAT(functional_names("aten::sum.IntList_out"), ElementsAre("aten::sum.dim_IntList"));
  EXPECT_THAT(functional_names("aten::gelu_backward.grad_input"), ElementsAre("aten::gelu_backward"));
  EXPECT_THAT(functional_names("aten::max.out"), ElementsAre("aten::max.other"));
}

TEST(OpVariants, FunctionalOpsHaveNone) {
  for (const auto name : {"aten::add.Tensor", "aten::relu", "aten::__and__.Tensor", "aten::sum.dim_IntList"}) {
    EXPECT_THAT(functional_names(name), IsEmpty()) << name;
  }
}

TEST(OpVariants, TheTableIsAskedWithThem) {
  ASSERT_NE(find_entry("aten::add_.Tensor"), nullptr);
  EXPECT_EQ(find_entry("aten::add_.Tensor")->name, "aten::add.Tensor");
  EXPECT_EQ(find_entry("aten::add.out")->name, "aten::add.Tensor");
  EXPECT_EQ(find_entry("aten::add.Tensor")->name, "aten::add.Tensor");
  EXPECT_EQ(find_entry("aten::no_such_op_"), nullptr);
  EXPECT_EQ(find_entry("aten::no_such_op.out"), nullptr);
}

}  // namespace
}  // namespace crucible::aten
