// Windows, margins and the patterns of resampling, without a trace.
#include "frontends/aten/shape/windows.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "frontends/aten/resampling/resample_axis.hpp"

namespace crucible::aten {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

Term input(Emitter& e, Sizes sizes) {
  Term term;
  term.operand.view = graph::View::contiguous(std::move(sizes));
  term.operand.value = e.outside_value(graph::ValueKind::kInput, DType::kF32, term.elements(), "x");
  return term;
}

TEST(Windows, WithoutAMarginTheyAreAView) {
  graph::Program program;
  Emitter e(program);
  const Term x = input(e, {2, 7});
  const Term seen = windows(e, x, {1}, {{7, 3, 3, 2}}, Term::number(0));
  EXPECT_TRUE(program.ops.empty());
  EXPECT_THAT(seen.sizes(), ElementsAre(2, 3, 3));
  EXPECT_THAT(seen.operand.view.strides, ElementsAre(7, 2, 1));
}

TEST(Windows, AMarginThatCutsMoreThanThereIsFails) {
  graph::Program program;
  Emitter e(program);
  padded(e, input(e, {2, 3}), {0, -2}, {0, -2}, Term::number(0));
  EXPECT_THAT(e.failure(), HasSubstr("cuts more than there is"));
}

TEST(Windows, NegativeMarginsAreAView) {
  graph::Program program;
  Emitter e(program);
  const Term cut = padded(e, input(e, {2, 5}), {0, -1}, {0, -2}, Term::number(0));
  EXPECT_TRUE(program.ops.empty());
  EXPECT_THAT(cut.sizes(), ElementsAre(2, 2));
  EXPECT_EQ(cut.operand.view.offset, 1);
}

TEST(Windows, SpreadingOutsideLeavesZeros) {
  graph::Program program;
  Emitter e(program);
  const Term x = input(e, {3});
  spread(e, x, 0, 2, 10, 4);
  ASSERT_EQ(program.ops.size(), 1u);
  EXPECT_EQ(program.ops[0].kind, graph::OpKind::kFill);
  const Term part = spread(e, x, 0, 2, -1, 3);  // elements at -1, 1 and 3: one of them is inside
  EXPECT_THAT(part.sizes(), ElementsAre(3));
  EXPECT_EQ(program.ops.back().attributes.region.offset, 1);
  EXPECT_THAT(program.ops.back().attributes.region.sizes, ElementsAre(1));
}

TEST(Resampling, SourcesFollowTheFrameworksRounding) {
  EXPECT_THAT(nearest_sources(2, 4, {}, false), ElementsAre(0, 0, 1, 1));
  EXPECT_THAT(nearest_sources(3, 5, {}, false), ElementsAre(0, 0, 1, 1, 2));
  EXPECT_THAT(nearest_sources(3, 5, {}, true), ElementsAre(0, 0, 1, 2, 2));
  EXPECT_THAT(nearest_sources(3, 5, 2.5, false), ElementsAre(0, 0, 0, 1, 1));  // the given factor decides
  EXPECT_THAT(nearest_sources(3, 3, 2.5, false), ElementsAre(0, 1, 2));        // except where sizes are equal
}

TEST(Resampling, RegularPatternsAreKnown) {
  EXPECT_EQ(repetition({0, 0, 1, 1}, 2), 2);
  EXPECT_EQ(repetition({0, 0, 1, 1}, 3), std::nullopt);
  EXPECT_EQ(repetition({0, 1, 1, 1}, 2), std::nullopt);
  EXPECT_EQ(repetition({}, 0), std::nullopt);
  ASSERT_TRUE(stepping({1, 3, 5}));
  EXPECT_EQ(stepping({1, 3, 5})->step, 2);
  EXPECT_EQ(stepping({1, 3, 5})->offset, 1);
  EXPECT_FALSE(stepping({0, 0, 1}));
  EXPECT_FALSE(stepping({0, 1, 3}));
  EXPECT_FALSE(stepping({}));
}

}  // namespace
}  // namespace crucible::aten
