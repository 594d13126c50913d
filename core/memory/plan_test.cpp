#include "core/memory/plan.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "core/memory/random_buffers.hpp"

namespace crucible::memory {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr std::uint64_t kMax = ~std::uint64_t{0};

/// Plans, checks with the independent checker, and checks lower bound <= peak <= sum of the rounded sizes.
Plan plan_and_check(const std::vector<Buffer>& buffers, std::uint64_t alignment) {
  Result<Plan> made = plan(buffers, alignment);
  EXPECT_TRUE(made) << made.error().message;
  if (!made) return {};
  const Result<void> checked = check(buffers, alignment, *made);
  EXPECT_TRUE(checked) << checked.error().message;
  std::uint64_t sum = 0;
  for (const Buffer& buffer : buffers) sum += (buffer.size_bytes + alignment - 1) / alignment * alignment;
  EXPECT_LE(made->lower_bound_bytes, made->peak_bytes);
  EXPECT_LE(made->peak_bytes, sum);
  return *std::move(made);
}

TEST(Plan, OfNothingIsEmpty) {
  const Plan made = plan_and_check({}, 64);
  EXPECT_EQ(made.peak_bytes, 0u);
  EXPECT_TRUE(made.witness.empty());
}

TEST(Plan, OfOneBufferIsItsRoundedSize) {
  const Plan made = plan_and_check({{100, 3, 5}}, 64);
  EXPECT_EQ(made.peak_bytes, 128u);
  EXPECT_EQ(made.lower_bound_bytes, 128u);
  EXPECT_EQ(made.lower_bound_time, 3u);
  EXPECT_THAT(made.witness, ElementsAre(0u));
}

TEST(Plan, StacksWhatOverlapsAndReusesWhatDoesNot) {
  EXPECT_EQ(plan_and_check({{64, 0, 9}, {64, 0, 9}, {64, 0, 9}}, 64).peak_bytes, 192u);
  EXPECT_EQ(plan_and_check({{64, 0, 1}, {64, 1, 2}, {64, 2, 3}}, 64).peak_bytes, 64u);  // end == begin is no conflict
}

TEST(Plan, BuffersThatOccupyNothingCostNothing) {
  const Plan made = plan_and_check({{0, 0, 9}, {1000, 4, 4}, {64, 0, 9}}, 64);
  EXPECT_EQ(made.peak_bytes, 64u);
  EXPECT_THAT(made.witness, ElementsAre(2u));
}

TEST(Plan, WitnessIsWhatIsAliveAtTheBound) {
  const Plan made = plan_and_check({{10, 0, 4}, {20, 2, 6}, {30, 3, 8}, {40, 6, 9}}, 1);
  EXPECT_EQ(made.lower_bound_bytes, 70u);
  EXPECT_EQ(made.lower_bound_time, 6u);
  EXPECT_THAT(made.witness, ElementsAre(2u, 3u));
}

TEST(Plan, ReachesTheBoundOnATrainingLikeGraph) {
  // Activations live from their forward step to the mirrored backward step; gradients are short.
  std::vector<Buffer> buffers;
  constexpr std::uint32_t kLayers = 200;
  std::mt19937 random(7);
  for (std::uint32_t layer = 0; layer < kLayers; ++layer) {
    buffers.push_back({1 + random() % 100000, layer, 2 * kLayers - layer});
    buffers.push_back({1 + random() % 100000, 2 * kLayers - layer - 1, 2 * kLayers - layer + 1});
    buffers.push_back({1 + random() % 100000, 0, 2 * kLayers + 1});
  }
  const Plan made = plan_and_check(buffers, 64);
  EXPECT_EQ(made.peak_bytes, made.lower_bound_bytes);
}

TEST(Plan, TriesOtherRanksWhenTheFirstMissesTheBound) {
  const std::vector<Buffer> buffers = {{3, 1, 3}, {1, 4, 7}, {4, 0, 2}, {3, 2, 4}, {1, 3, 4}, {2, 3, 6}};
  const Plan made = plan_and_check(buffers, 1);
  EXPECT_EQ(made.peak_bytes, made.lower_bound_bytes);
}

TEST(Plan, HoldsOnRandomInstancesOfManySizes) {
  for (const std::uint32_t count : {1u, 2u, 3u, 5u, 8u, 13u, 50u, 200u, 1000u, 5000u}) {
    const std::uint32_t rounds = count <= 50 ? 30 : count <= 1000 ? 2 : 1;
    for (std::uint32_t seed = 0; seed < rounds; ++seed) {
      for (const std::uint64_t alignment : {1u, 64u, 256u}) {
        SCOPED_TRACE(testing::Message() << count << " buffers, seed " << seed << ", alignment " << alignment);
        plan_and_check(random_buffers(seed, count, 2 + count / (1 + seed % 4)), alignment);
      }
    }
  }
}

TEST(Plan, StaysCloseToTheBoundOnLongChains) {
  const Plan made = plan_and_check(random_buffers(11, 20000, 20000), 64);
  EXPECT_LE(static_cast<double>(made.peak_bytes), 1.02 * static_cast<double>(made.lower_bound_bytes));
}

TEST(Plan, IsDeterministic) {
  const std::vector<Buffer> buffers = random_buffers(3, 500, 100);
  EXPECT_EQ(plan_and_check(buffers, 64).offsets, plan_and_check(buffers, 64).offsets);
}

TEST(Plan, StretchingTimeAndScalingSizesChangesNothingElse) {
  for (std::uint32_t seed = 0; seed < 20; ++seed) {
    const std::vector<Buffer> buffers = random_buffers(seed, 100, 60);
    std::vector<Buffer> stretched = buffers, scaled = buffers;
    for (Buffer& buffer : stretched) buffer.begin = 5 + 3 * buffer.begin, buffer.end = 5 + 3 * buffer.end;
    for (Buffer& buffer : scaled) buffer.size_bytes *= 64;
    const Plan original = plan_and_check(buffers, 1);
    EXPECT_EQ(plan_and_check(stretched, 1).offsets, original.offsets);
    const Plan large = plan_and_check(scaled, 64);
    EXPECT_EQ(large.peak_bytes, 64 * original.peak_bytes);
    EXPECT_EQ(large.lower_bound_bytes, 64 * original.lower_bound_bytes);
  }
}

TEST(Plan, BoundIsTheSameForPermutedAndReversedInput) {
  for (std::uint32_t seed = 0; seed < 20; ++seed) {
    const std::vector<Buffer> buffers = random_buffers(seed, 100, 60);
    std::vector<Buffer> permuted = buffers, reversed = buffers;
    std::ranges::shuffle(permuted, std::mt19937(seed));
    for (Buffer& buffer : reversed) buffer = {buffer.size_bytes, 100 - buffer.end, 100 - buffer.begin};
    const std::uint64_t bound = plan_and_check(buffers, 64).lower_bound_bytes;
    EXPECT_EQ(plan_and_check(permuted, 64).lower_bound_bytes, bound);
    EXPECT_EQ(plan_and_check(reversed, 64).lower_bound_bytes, bound);
  }
}

TEST(Plan, RefusesAReversedInterval) {
  const Result<Plan> made = plan(std::vector<Buffer>{{1, 0, 1}, {1, 7, 3}}, 64);
  ASSERT_FALSE(made);
  EXPECT_EQ(made.error().code, ErrorCode::kBadInput);
  EXPECT_THAT(made.error().message, HasSubstr("buffer 1 ends at 3 before it begins at 7"));
}

TEST(Plan, RefusesSizesThatOverflow) {
  for (const auto& buffers :
       {std::vector<Buffer>{{kMax, 0, 1}}, std::vector<Buffer>{{kMax / 2 + 1, 0, 1}, {kMax / 2 + 1, 1, 2}}}) {
    const Result<Plan> made = plan(buffers, 64);
    ASSERT_FALSE(made);
    EXPECT_EQ(made.error().code, ErrorCode::kBadInput);
    EXPECT_THAT(made.error().message, HasSubstr("do not fit into 64 bits"));
  }
  // Just below the limit works, areas beyond 64 bits included.
  plan_and_check({{kMax / 4, 0, 4000000000u}, {kMax / 4, 5, 4000000000u}}, 64);
}

TEST(Plan, RefusesAnAlignmentThatIsNoPowerOfTwo) {
  for (const std::uint64_t alignment : {0u, 3u, 48u}) {
    const Result<Plan> made = plan(std::vector<Buffer>{{1, 0, 1}}, alignment);
    ASSERT_FALSE(made);
    EXPECT_THAT(made.error().message, HasSubstr("is not a power of two"));
  }
}

}  // namespace
}  // namespace crucible::memory
