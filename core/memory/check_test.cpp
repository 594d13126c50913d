// The checker's own tests: plans with planted faults must be refused, and a naive all-pairs comparison must agree with
// it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <random>

#include "core/memory/plan.hpp"
#include "core/memory/random_buffers.hpp"

namespace crucible::memory {
namespace {

using ::testing::HasSubstr;

/// The definition, compared pair by pair.
bool overlaps_somewhere(const std::vector<Buffer>& buffers, const Plan& plan) {
  for (std::size_t a = 0; a < buffers.size(); ++a) {
    for (std::size_t b = 0; b < a; ++b) {
      const bool together = std::max(buffers[a].begin, buffers[b].begin) < std::min(buffers[a].end, buffers[b].end);
      const bool share = std::max(plan.offsets[a], plan.offsets[b]) <
                         std::min(plan.offsets[a] + buffers[a].size_bytes, plan.offsets[b] + buffers[b].size_bytes);
      if (together && share) return true;
    }
  }
  return false;
}

std::uint64_t end_of(const std::vector<Buffer>& buffers, const Plan& plan) {
  std::uint64_t highest = 0;
  for (std::size_t i = 0; i < buffers.size(); ++i) {
    if (buffers[i].begin < buffers[i].end) highest = std::max(highest, plan.offsets[i] + buffers[i].size_bytes);
  }
  return highest;
}

TEST(Check, AgreesWithAllPairsOnMutatedOffsets) {
  std::mt19937 random(1);
  int refused = 0, accepted = 0;
  for (std::uint32_t seed = 0; seed < 300; ++seed) {
    const std::vector<Buffer> buffers = random_buffers(seed, 2 + seed % 40, 30);
    Result<Plan> made = plan(buffers, 1);
    ASSERT_TRUE(made);
    const std::size_t moved = random() % buffers.size();
    if (buffers[moved].size_bytes == 0 || buffers[moved].begin == buffers[moved].end || made->peak_bytes == 0) continue;
    made->offsets[moved] = random() % made->peak_bytes;
    made->peak_bytes = end_of(buffers, *made);
    if (made->peak_bytes < made->lower_bound_bytes) continue;  // another rule refuses this one
    const Result<void> checked = check(buffers, 1, *made);
    ASSERT_EQ(checked.has_value(), !overlaps_somewhere(buffers, *made)) << "seed " << seed << ", buffer " << moved;
    if (checked) {
      ++accepted;
    } else {
      ++refused;
      EXPECT_EQ(checked.error().code, ErrorCode::kCheckFailed);
      EXPECT_THAT(checked.error().message, HasSubstr("overlaps"));
    }
  }
  EXPECT_GT(refused, 50);
  EXPECT_GT(accepted, 5);
}

class CheckRefuses : public testing::Test {
 protected:
  void SetUp() override {
    Result<Plan> made = plan(buffers_, 64);
    ASSERT_TRUE(made);
    plan_ = *std::move(made);
    ASSERT_TRUE(check(buffers_, 64, plan_));
  }
  std::string refusal() const {
    const Result<void> checked = check(buffers_, 64, plan_);
    EXPECT_FALSE(checked);
    return checked ? "" : checked.error().message;
  }
  const std::vector<Buffer> buffers_ = {{128, 0, 4}, {64, 2, 6}, {100, 3, 8}};
  Plan plan_;
};

TEST_F(CheckRefuses, AnOverlapAndNamesBoth) {
  plan_.offsets[1] = plan_.offsets[0] + 64;
  plan_.peak_bytes = (end_of(buffers_, plan_) + 63) / 64 * 64;
  const std::string message = refusal();
  EXPECT_THAT(message, HasSubstr("buffer 0 (steps [0, 4), bytes ["));
  EXPECT_THAT(message, HasSubstr("buffer 1 (steps [2, 6), bytes ["));
}

TEST_F(CheckRefuses, AMisalignedOffset) {
  plan_.offsets[2] += 32;
  EXPECT_THAT(refusal(), HasSubstr("not a multiple of 64"));
}

TEST_F(CheckRefuses, ABufferBehindTheArena) {
  plan_.offsets[2] = plan_.peak_bytes;
  EXPECT_THAT(refusal(), HasSubstr("ends behind the arena"));
  plan_.offsets[2] = ~std::uint64_t{63};  // offset plus size overflows
  EXPECT_THAT(refusal(), HasSubstr("ends behind the arena"));
}

TEST_F(CheckRefuses, AnArenaThatIsTooLarge) {
  plan_.peak_bytes += 64;
  EXPECT_THAT(refusal(), HasSubstr("but the last buffer ends at"));
}

TEST_F(CheckRefuses, AWrongLowerBound) {
  plan_.lower_bound_bytes -= 64;
  EXPECT_THAT(refusal(), HasSubstr("bytes are alive at once"));
}

TEST_F(CheckRefuses, AWrongWitness) {
  plan_.witness.pop_back();
  EXPECT_THAT(refusal(), HasSubstr("the witness adds up to"));
  plan_.witness.push_back(plan_.witness[0]);
  EXPECT_THAT(refusal(), HasSubstr("is named twice"));
  plan_.witness.back() = 99;
  EXPECT_THAT(refusal(), HasSubstr("witness 99"));
}

TEST_F(CheckRefuses, AMissingOffset) {
  plan_.offsets.pop_back();
  EXPECT_THAT(refusal(), HasSubstr("2 offsets for 3 buffers"));
}

TEST(Check, AGroupIsPinnedWithItsLargestBuffer) {
  Problem problem;
  problem.buffers = {{.size_bytes = 64, .begin = 0, .end = 2, .pinned_offset = 128, .group = 0},
                     {.size_bytes = 256, .begin = 1, .end = 3, .group = 0}};
  for (const std::uint32_t end : {2u, 0u}) {  // 0: the pinned one occupies nothing
    problem.buffers[0].end = end;
    Solution solution = *solve(problem);
    EXPECT_EQ(solution.spaces[0].lower_bound_bytes, 384u);
    EXPECT_TRUE(solution.spaces[0].optimal);
    EXPECT_TRUE(check(problem, solution));
    solution.spaces[0].lower_bound_bytes = 256;
    EXPECT_FALSE(check(problem, solution));
  }
}

}  // namespace
}  // namespace crucible::memory
