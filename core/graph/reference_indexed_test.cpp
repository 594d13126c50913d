// Takes and puts of the interpreter against numbers worked out by hand.
#include "core/graph/reference_indexed.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace crucible::graph {
namespace {

using testing::ElementsAre;

Numbers reals(std::vector<double> values) { return {false, std::move(values), {}}; }
Numbers integers(std::vector<std::int64_t> values) { return {true, {}, std::move(values)}; }

TEST(ReferenceIndexed, ATakeOutsideIsZero) {
  EXPECT_THAT(reference_take(reals({1, 2, 3}), integers({2, 0, -1, 3, 2})).real, ElementsAre(3, 1, 0, 0, 3));
  EXPECT_THAT(reference_take(integers({7, 8}), integers({1, -9, 0})).integer, ElementsAre(8, 0, 7));
  EXPECT_THAT(reference_take(reals({}), integers({0, 1})).real, ElementsAre(0, 0));
}

TEST(ReferenceIndexed, PutsHappenInOrderAndSkipWhatIsOutside) {
  const Numbers base = reals({1, 2, 3}), index = integers({2, 0, 2, -1, 3}), source = reals({10, 20, 30, 40, 50});
  const auto put = [&](OpKind kind) { return reference_put(kind, DType::kF32, base, index, source).real; };
  EXPECT_THAT(put(OpKind::kPutSet), ElementsAre(20, 2, 30));
  EXPECT_THAT(put(OpKind::kPutAdd), ElementsAre(21, 2, 43));
  EXPECT_THAT(put(OpKind::kPutMultiply), ElementsAre(20, 2, 900));
  EXPECT_THAT(put(OpKind::kPutMax), ElementsAre(20, 2, 30));
  EXPECT_THAT(put(OpKind::kPutMin), ElementsAre(1, 2, 3));
}

TEST(ReferenceIndexed, EachSumIsRounded) {
  const Numbers ones = reals({1, 1});
  // 256 is where bf16 stops holding every whole number: 256 + 1 is 256 again, twice.
  EXPECT_THAT(reference_put(OpKind::kPutAdd, DType::kBF16, reals({256}), integers({0, 0}), ones).real,
              ElementsAre(256));
  EXPECT_THAT(reference_put(OpKind::kPutAdd, DType::kF32, reals({256}), integers({0, 0}), ones).real, ElementsAre(258));
}

TEST(ReferenceIndexed, NanWinsAndIntegersWrap) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  for (const OpKind kind : {OpKind::kPutMax, OpKind::kPutMin}) {
    const Numbers result = reference_put(kind, DType::kF32, reals({nan, 1}), integers({0, 1, 1}), reals({1, nan, 2}));
    EXPECT_TRUE(std::isnan(result.real[0]));
    EXPECT_TRUE(std::isnan(result.real[1]));
  }
  const std::int64_t most = std::numeric_limits<std::int64_t>::max();
  EXPECT_THAT(reference_put(OpKind::kPutAdd, DType::kI64, integers({most}), integers({0}), integers({1})).integer,
              ElementsAre(std::numeric_limits<std::int64_t>::min()));
  EXPECT_THAT(reference_put(OpKind::kPutMin, DType::kI64, integers({5, 5}), integers({0, 1}), integers({4, 6})).integer,
              ElementsAre(4, 5));
}

}  // namespace
}  // namespace crucible::graph
