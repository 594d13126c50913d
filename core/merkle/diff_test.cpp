// Differences of programs: that equal ones have none, and that each kind is named where it is.
#include "core/merkle/diff.hpp"

#include <gtest/gtest.h>

#include "core/graph/testing/disguise.hpp"
#include "core/merkle/print.hpp"
#include "core/merkle/testing/layers.hpp"

namespace crucible::merkle {
namespace {

using graph::Program;
using testing::layered;

RegionTree tree_of(Program program) { return regions_of(std::make_shared<const Program>(std::move(program)), {}); }

std::string all(const Difference& difference) {
  std::string text;
  for (const Change& change : difference.changes) {
    text += std::string(name(change.kind)) + "|" + change.phase + "|" + change.module + "|" + change.what + "\n";
  }
  return text;
}

TEST(RegionDiff, NamesAloneAreNoDifference) {
  const Program program = layered({.layers = 4});
  const RegionTree a = tree_of(program), b = tree_of(disguised(program, 3, graph::Modules::kRenamed));
  const Difference difference = diff(a, b);
  EXPECT_TRUE(difference.equal);
  ASSERT_FALSE(difference.changes.empty());
  EXPECT_EQ(difference.changes.front().kind, ChangeKind::kName);
  EXPECT_TRUE(diff(a, a).equal);
  EXPECT_TRUE(diff(a, a).changes.empty());
  EXPECT_EQ(diff(a, a).regions, 0u);
}

TEST(RegionDiff, ModulesAreNoPartOfAComputation) {
  const Program program = layered({.layers = 2});
  EXPECT_TRUE(diff(tree_of(program), tree_of(disguised(program, 3))).equal);
}

TEST(RegionDiff, OneScalarIsOneLine) {
  const Difference difference =
      diff(tree_of(layered({.layers = 4})), tree_of(layered({.layers = 4, .head_scale = 0.25})));
  EXPECT_FALSE(difference.equal);
  EXPECT_EQ(all(difference),
            "number|forward||aten::sum at train.py:1: 0.5, now 0.25\n"
            "number|backward||aten::mul at train.py:1: 0.5, now 0.25\n");
}

TEST(RegionDiff, AWiderLayerIsNamedAndNoOtherOne) {
  const Difference difference = diff(tree_of(layered({.layers = 6})), tree_of(layered({.layers = 6, .wide_layer = 4})));
  EXPECT_FALSE(difference.equal);
  ASSERT_FALSE(difference.changes.empty());
  for (const Change& change : difference.changes) {
    EXPECT_TRUE(change.module.starts_with("blocks.4")) << all(difference);
    EXPECT_EQ(change.kind, ChangeKind::kShape) << all(difference);
  }
  EXPECT_NE(all(difference).find("blocks.4.first.weight is f32[16, 16], now f32[16, 32]"), std::string::npos)
      << all(difference);
}

TEST(RegionDiff, MoreLayersAreSaidToBeOnlyInTheSecond) {
  const Difference difference = diff(tree_of(layered({.layers = 3})), tree_of(layered({.layers = 5})));
  EXPECT_FALSE(difference.equal);
  EXPECT_NE(all(difference).find("added|forward|"), std::string::npos) << all(difference);
  EXPECT_EQ(all(difference).find("removed"), std::string::npos) << all(difference);
}

TEST(RegionDiff, WorkIsThatOfTheDifference) {
  const auto compared = [](std::size_t layers) {
    return diff(tree_of(layered({.layers = layers})), tree_of(layered({.layers = layers, .wide_layer = 2}))).regions;
  };
  EXPECT_EQ(compared(8), compared(64));
}

TEST(RegionDiff, EveryChangedFieldHasALine) {
  const Program program = layered({.layers = 2});
  const RegionTree before = tree_of(program);
  testing::for_each_field(program, [&](const Program& other, const std::string& field) {
    const Difference difference = diff(before, tree_of(other));
    EXPECT_FALSE(difference.equal) << field;
    EXPECT_FALSE(difference.changes.empty()) << field;
  });
}

TEST(RegionPrint, ShowsALoopOnce) {
  const RegionTree tree = tree_of(layered({.layers = 4}));
  const std::string text = to_text(tree);
  EXPECT_NE(text.find("4 x blocks.0 ... blocks.3"), std::string::npos) << text;
  EXPECT_EQ(text.find("blocks.2"), std::string::npos) << text;
  EXPECT_NE(to_svg(tree).find("4 x blocks.0"), std::string::npos);
  EXPECT_NE(to_json(tree).find("\"carried\""), std::string::npos);
}

}  // namespace
}  // namespace crucible::merkle
