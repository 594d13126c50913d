// The table of ops and the small functions of program.hpp.
#include "core/graph/program.hpp"

#include <gtest/gtest.h>

#include <set>

#include "core/graph/op_table.hpp"

namespace crucible::graph {
namespace {

TEST(OpTable, NamesAreUnique) {
  std::set<std::string_view> names;
  for (int i = 0; i < kOpKindCount; ++i) EXPECT_TRUE(names.insert(name(static_cast<OpKind>(i))).second);
  EXPECT_TRUE(is_known(OpKind::kOpaque));
  EXPECT_TRUE(is_known(OpKind::kComposite));
  EXPECT_FALSE(is_known(static_cast<OpKind>(kOpKindCount + 2)));
  EXPECT_EQ(name(static_cast<OpKind>(kOpKindCount + 2)), "unknown");
}

TEST(OpTable, ClassesAgreeWithThePredicates) {
  for (int i = 0; i < kOpKindCount; ++i) {
    const auto kind = static_cast<OpKind>(i);
    EXPECT_EQ(info(kind).op_class == OpClass::kReduction, is_reduction(kind));
    EXPECT_EQ(info(kind).op_class <= OpClass::kGenerator, is_elementwise(kind));
  }
}

}  // namespace
}  // namespace crucible::graph
