// Properties of solve() on random problems with every feature. CRUCIBLE_MEMORY_INSTANCES says how many (default:
// 20,000).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <numeric>

#include "core/memory/certificate.hpp"
#include "core/memory/random_buffers.hpp"
#include "core/memory/random_problem.hpp"

namespace crucible::memory {
namespace {

using ::testing::HasSubstr;

std::uint32_t instances() {
  const char* text = std::getenv("CRUCIBLE_MEMORY_INSTANCES");
  return text == nullptr ? 20'000 : static_cast<std::uint32_t>(std::strtoul(text, nullptr, 10));
}

/// Sizes from a handful to some hundred, seldom the latter.
Problem problem_of(std::uint32_t seed) {
  const std::uint32_t count = seed % 64 == 0 ? 150 : seed % 8 == 0 ? 40 : 12;
  return random_problem(seed, count, 2 + seed % 17, seed % 3 == 0 ? 9 : 300);
}

Solution solve_or_fail(const Problem& problem, const Options& options) {
  Result<Solution> solution = solve(problem, options);
  EXPECT_TRUE(solution) << (solution ? "" : solution.error().message);
  return solution ? *std::move(solution) : Solution{};
}

TEST(Solve, EveryPlanIsValidAndCertified) {
  std::uint32_t found = 0, impossible = 0, optimal = 0;
  for (std::uint32_t seed = 0; seed < instances(); ++seed) {
    SCOPED_TRACE(seed);
    const Problem problem = problem_of(seed);
    const Solution solution = solve_or_fail(problem, {.budget_passes = 24});
    if (solution.outcome == Outcome::kImpossible) {  // without a capacity only pins can be
      ++impossible;
      EXPECT_TRUE(solution.offsets.empty());
      continue;
    }
    ASSERT_EQ(solution.outcome, Outcome::kFound);
    ++found;
    const Certificate certificate = certify(problem, solution);
    ASSERT_TRUE(certificate.is_valid) << certificate.verdict;
    for (const SpacePlan& plan : solution.spaces) {
      ASSERT_LE(plan.lower_bound_bytes, plan.peak_bytes);
      optimal += plan.optimal ? 1 : 0;
    }
    if (seed % 16 != 0 || problem.buffers.size() > 40) continue;
    const PairByPair judge(problem);
    ASSERT_TRUE(judge.is_valid(solution.offsets));
    for (std::uint32_t space = 0; space < problem.spaces.size(); ++space) {
      ASSERT_EQ(judge.peak(space, solution.offsets), solution.spaces[space].peak_bytes);
    }
  }
  EXPECT_GT(found, instances() / 2);
  EXPECT_GT(impossible, instances() / 1000);
  EXPECT_GT(optimal, found / 2);
}

TEST(Solve, WithinACapacityTheOutcomeIsNeverWrong) {
  std::uint32_t found = 0, impossible = 0;
  for (std::uint32_t seed = 0; seed < instances() / 4; ++seed) {
    SCOPED_TRACE(seed);
    Problem problem = random_problem(seed, 14, 8, 12);
    const Solution free = solve_or_fail(problem, {.budget_passes = 4000});
    if (free.outcome != Outcome::kFound) continue;
    const std::uint32_t space = seed % static_cast<std::uint32_t>(problem.spaces.size());
    const SpacePlan& plan = free.spaces[space];
    if (plan.peak_bytes == 0) continue;
    problem.spaces[space].capacity_bytes = plan.peak_bytes;
    const Solution fits = solve_or_fail(problem, {.budget_passes = 4000});
    ASSERT_NE(fits.outcome, Outcome::kImpossible);  // a plan is known; the budget may not suffice to find it again
    ASSERT_EQ(check(problem, fits).has_value(), fits.outcome == Outcome::kFound);
    found += fits.outcome == Outcome::kFound ? 1 : 0;
    problem.spaces[space].capacity_bytes = plan.peak_bytes - 1;
    const Solution tight = solve_or_fail(problem, {.budget_passes = 4000});
    ASSERT_EQ(tight.outcome, plan.optimal ? Outcome::kImpossible : tight.outcome);
    ASSERT_EQ(check(problem, tight).has_value(), tight.outcome == Outcome::kFound);
    impossible += tight.outcome == Outcome::kImpossible ? 1 : 0;
  }
  EXPECT_GT(found, instances() / 8);
  EXPECT_GT(impossible, instances() / 8);
}

/// No plan better than that of an exact search exists, whatever the order of the buffers or the direction of time.
TEST(Solve, ProvedPeaksDoNotDependOnOrderDirectionOrScale) {
  std::uint32_t compared = 0;
  for (std::uint32_t seed = 0; seed < instances() / 8; ++seed) {
    SCOPED_TRACE(seed);
    const Problem problem = random_problem(seed, 12, 9, 20, {.carried = false, .apart = false});
    const Options options{.budget_passes = 2000};
    const Solution solution = solve_or_fail(problem, options);
    if (solution.outcome != Outcome::kFound) continue;
    Problem permuted = problem, reversed = problem, stretched = problem, scaled = problem;
    std::ranges::shuffle(permuted.buffers, std::mt19937(seed));
    for (Buffer& buffer : reversed.buffers) {
      const std::uint32_t begin = buffer.begin;
      buffer.begin = 100 - buffer.end, buffer.end = 100 - begin;
    }
    const std::uint32_t stretch = seed % 2 == 0 ? 3 : 100'000;  // the latter: far more steps than buffers
    for (Buffer& buffer : stretched.buffers)
      buffer.begin = 5 + stretch * buffer.begin, buffer.end = 5 + stretch * buffer.end;
    for (Buffer& buffer : scaled.buffers) {
      buffer.size_bytes *= 64, buffer.alignment *= 64;
      if (buffer.pinned_offset != kUnpinned) buffer.pinned_offset *= 64;
    }
    for (Space& space : scaled.spaces) space.alignment *= 64;
    ASSERT_EQ(solve_or_fail(stretched, options).offsets, solution.offsets);
    for (const auto& [other, scale] : {std::pair(&permuted, 1u), {&reversed, 1u}, {&scaled, 64u}}) {
      const Solution same = solve_or_fail(*other, options);
      ASSERT_TRUE(check(*other, same));
      for (std::size_t space = 0; space < problem.spaces.size(); ++space) {
        ASSERT_EQ(same.spaces[space].lower_bound_bytes, scale * solution.spaces[space].lower_bound_bytes);
        if (!same.spaces[space].optimal || !solution.spaces[space].optimal) continue;
        ASSERT_EQ(same.spaces[space].peak_bytes, scale * solution.spaces[space].peak_bytes);
        ++compared;
      }
    }
  }
  EXPECT_GT(compared, instances() / 8);
}

TEST(Solve, IsTheSameForAnyNumberOfThreads) {
  for (std::uint32_t seed = 0; seed < 12; ++seed) {
    Problem problem;
    problem.buffers = random_buffers(seed, 60 + 90 * seed, 20 + 10 * seed);
    if (seed % 3 == 0) problem.buffers[7].pinned_offset = 1 << 20;
    for (const std::uint64_t budget : {0u, 600u}) {
      const Solution solution = solve_or_fail(problem, {.budget_passes = budget});
      for (const std::uint32_t threads : {3u, 4u}) {
        const Solution same = solve_or_fail(problem, {.budget_passes = budget, .threads = threads});
        EXPECT_EQ(same.offsets, solution.offsets) << seed;
        EXPECT_EQ(same.passes, solution.passes) << seed;
      }
    }
  }
}

TEST(Solve, SpendsItsBudgetAndNoMore) {
  Problem problem;
  problem.buffers = random_buffers(5, 900, 300);
  for (Buffer& buffer : problem.buffers) buffer.size_bytes = 1 + buffer.size_bytes % 1000;
  for (const std::uint64_t budget : {0u, 1u, 50u, 500u}) {
    EXPECT_LE(solve_or_fail(problem, {.budget_passes = budget}).passes, budget + 1);
  }
}

TEST(Solve, SaysWhyACapacityCannotBeKept) {
  Problem problem;
  problem.buffers = {{100, 0, 2}, {100, 1, 3}};
  problem.spaces[0].capacity_bytes = 199;
  const Solution solution = solve_or_fail(problem, {});
  EXPECT_EQ(solution.outcome, Outcome::kImpossible);
  EXPECT_THAT(solution.spaces[0].reason,
              HasSubstr("at step 1 at least 200 bytes are needed, 1 more than the capacity of 199"));
  EXPECT_FALSE(check(problem, solution));
  EXPECT_FALSE(certify(problem, solution).is_valid);
}

TEST(Solve, PinsOntoEachOtherAreImpossible) {
  Problem problem;
  problem.buffers = {{64, 0, 4}, {64, 2, 6}};
  problem.buffers[0].pinned_offset = 0;
  problem.buffers[1].pinned_offset = 32;
  const Solution solution = solve_or_fail(problem, {});
  EXPECT_EQ(solution.outcome, Outcome::kImpossible);
  EXPECT_THAT(solution.spaces[0].reason, HasSubstr("buffers 0 and 1 are pinned onto each other"));
}

TEST(Solve, ASearchThatDoesNotSufficeProvesNothing) {
  Problem problem;  // needs 1 unit more than its bound, and no budget to find that out
  for (std::uint32_t seed = 0;; ++seed) {
    problem.buffers = random_buffers(seed, 700, 40);
    for (Buffer& buffer : problem.buffers) buffer.size_bytes = 1 + buffer.size_bytes % 97;
    const Solution free = solve_or_fail(problem, {.budget_passes = 0});
    if (free.spaces[0].optimal) continue;
    problem.spaces[0].capacity_bytes = free.spaces[0].lower_bound_bytes;
    break;
  }
  const Solution solution = solve_or_fail(problem, {.budget_passes = 0});
  EXPECT_EQ(solution.outcome, Outcome::kNotFound);
  EXPECT_TRUE(solution.offsets.empty());
  EXPECT_GT(solution.spaces[0].peak_bytes, problem.spaces[0].capacity_bytes);
  EXPECT_THAT(solution.spaces[0].reason, HasSubstr("there may be one that fits"));
}

TEST(Solve, RefusesWhatContradictsItself) {
  const auto refusal = [](const Problem& problem) {
    const Result<Solution> solution = solve(problem);
    EXPECT_FALSE(solution);
    return solution ? "" : solution.error().message;
  };
  Problem problem;
  problem.buffers = {{64, 0, 4}, {64, 2, 6}};
  Problem other = problem;
  other.buffers[1].space = 1;
  EXPECT_THAT(refusal(other), HasSubstr("buffer 1 is in space 1, but there are 1 spaces"));
  other = problem;
  other.buffers[1].alignment = 3;
  EXPECT_THAT(refusal(other), HasSubstr("buffer 1 has alignment 3, which is not a power of two"));
  other = problem;
  other.buffers[1].alignment = 64, other.buffers[1].pinned_offset = 32;
  EXPECT_THAT(refusal(other), HasSubstr("buffer 1 is pinned to 32, not a multiple of its alignment 64"));
  other = problem;
  other.buffers[1].carried = true;
  EXPECT_THAT(refusal(other), HasSubstr("two of it would be alive at once"));
  other = problem;
  other.period = 5;
  EXPECT_THAT(refusal(other), HasSubstr("beyond the period of 5 steps"));
  other = problem;
  other.buffers[0].group = other.buffers[1].group = 7;
  other.buffers[0].pinned_offset = 0, other.buffers[1].pinned_offset = 64;
  EXPECT_THAT(refusal(other), HasSubstr("of group 7 but pinned to 0 and 64"));
  other.spaces.resize(2), other.buffers[1].space = 1;
  EXPECT_THAT(refusal(other), HasSubstr("of group 7 but in spaces 0 and 1"));
  other = problem;
  other.apart = {{0, 2}};
  EXPECT_THAT(refusal(other), HasSubstr("(0, 2) names a buffer that is not there"));
  other.apart = {{1, 1}};
  EXPECT_THAT(refusal(other), HasSubstr("cannot be kept apart: they are one"));
  other = problem;
  other.buffers[1].pinned_offset = kUnpinned - 63;
  EXPECT_THAT(refusal(other), HasSubstr("do not fit into 64 bits"));
}

}  // namespace
}  // namespace crucible::memory
