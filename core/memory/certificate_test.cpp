// Plants a fault of every kind in a valid solution: the checker and the certificate must refuse each.
#include "core/memory/certificate.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "core/memory/random_problem.hpp"

namespace crucible::memory {
namespace {

using ::testing::HasSubstr;

/// Every feature in one problem.
Problem rich_problem() {
  Problem problem;
  problem.spaces = {{64, 4096}, {1, kNoCapacity}};
  problem.buffers = {{128, 0, 4}, {64, 2, 6}, {100, 3, 8}, {256, 1, 3}, {70, 6, 2}, {10, 0, 9}, {7, 2, 5}};
  problem.buffers[0].pinned_offset = 128;
  problem.buffers[1].group = problem.buffers[2].group = 4;
  problem.buffers[3].alignment = 256;
  problem.buffers[4].carried = true;
  problem.buffers[5].space = problem.buffers[6].space = 1;
  problem.apart = {{3, 2}};
  return problem;
}

class CertificateRefuses : public testing::Test {
 protected:
  void SetUp() override {
    Result<Solution> made = solve(problem_);
    ASSERT_TRUE(made);
    solution_ = *std::move(made);
    certificate_ = certify(problem_, solution_);
    ASSERT_TRUE(certificate_.is_valid) << certificate_.verdict;
    ASSERT_TRUE(check_certificate(problem_, solution_, certificate_));
  }
  std::string refusal() const {
    const Result<void> checked = check(problem_, solution_);
    EXPECT_FALSE(checked);
    const Certificate made = certify(problem_, solution_);
    EXPECT_FALSE(made.is_valid);
    EXPECT_FALSE(check_certificate(problem_, solution_, made));
    EXPECT_FALSE(check_certificate(problem_, solution_, certificate_));
    return checked ? "" : checked.error().message;
  }
  Problem problem_ = rich_problem();
  Solution solution_;
  Certificate certificate_;
};

TEST_F(CertificateRefuses, ABufferOffItsPin) {
  solution_.offsets[0] += 1024;
  EXPECT_THAT(refusal(), HasSubstr("buffer 0 is at 1152 but pinned to 128"));
}

TEST_F(CertificateRefuses, AGroupTornApart) {
  solution_.offsets[1] += 1024;
  EXPECT_THAT(refusal(), HasSubstr("buffers 1 and 2 are of group 4 but at"));
}

TEST_F(CertificateRefuses, AnAlignmentOfItsOwn) {
  solution_.offsets[3] += 64;
  EXPECT_THAT(refusal(), HasSubstr("not a multiple of 256"));
}

TEST_F(CertificateRefuses, ACarriedBufferUnderWhatLivesInTheNextIteration) {
  solution_.offsets[4] = solution_.offsets[0];
  EXPECT_THAT(refusal(), HasSubstr("overlaps"));
}

TEST_F(CertificateRefuses, APairKeptApartAtOnePlace) {
  Problem merged = problem_;
  problem_.apart.clear();
  solution_.offsets[1] = solution_.offsets[2] = 1024;
  solution_.offsets[3] = 1024;
  problem_ = merged;
  problem_.buffers[1].begin = 3;  // only the pair forbids it
  EXPECT_THAT(refusal(), HasSubstr("to be kept apart"));
}

TEST_F(CertificateRefuses, APeakAboveTheCapacity) {
  problem_.spaces[0].capacity_bytes = solution_.spaces[0].peak_bytes - 1;
  EXPECT_THAT(refusal(), HasSubstr("above the capacity"));
}

TEST_F(CertificateRefuses, FactsThatAreNotThose) {
  const std::function<void()> faults[] = {
      [&] { solution_.spaces[1].peak_bytes += 1; },        [&] { solution_.spaces[1].peak_bytes -= 1; },
      [&] { solution_.spaces[0].lower_bound_bytes += 64; }, [&] { solution_.spaces[0].lower_bound_time = 8; },
      [&] { solution_.spaces[0].witness.pop_back(); },     [&] { solution_.spaces[0].witness[0] = 5; },
      [&] { solution_.spaces.pop_back(); },                [&] { solution_.outcome = Outcome::kNotFound; },
      [&] { solution_.spaces[0].outcome = Outcome::kNotFound; }};
  const Solution good = solution_;
  for (const auto& plant : faults) {
    solution_ = good;
    plant();
    refusal();
  }
}

TEST_F(CertificateRefuses, ThatOfAnotherPlan) {
  Problem other = problem_;
  other.buffers[6].size_bytes = 8;
  const Result<Solution> moved = solve(other);
  ASSERT_TRUE(moved);
  const Result<void> checked = check_certificate(other, *moved, certificate_);
  ASSERT_FALSE(checked);
  EXPECT_EQ(checked.error().code, ErrorCode::kCheckFailed);
  EXPECT_THAT(checked.error().message, HasSubstr("it was made for the plan " + certificate_.digest.hex()));
}

TEST_F(CertificateRefuses, ChangedFactsUnderTheRightDigest) {
  Certificate forged = certificate_;
  forged.spaces[0].peak_bytes += 64;
  EXPECT_FALSE(check_certificate(problem_, solution_, forged));
  forged = certificate_;
  forged.is_valid = false, forged.verdict = "no";
  EXPECT_FALSE(check_certificate(problem_, solution_, forged));
}

TEST(Certificate, TheDigestCoversEveryField) {
  const Problem problem = rich_problem();
  const std::vector<std::uint64_t> offsets(problem.buffers.size(), 0);
  const std::function<void(Problem&)> changes[] = {
      [](Problem& p) { ++p.buffers[2].size_bytes; },  [](Problem& p) { ++p.buffers[2].begin; },
      [](Problem& p) { ++p.buffers[2].end; },         [](Problem& p) { p.buffers[2].alignment = 2; },
      [](Problem& p) { ++p.buffers[2].space; },       [](Problem& p) { ++p.buffers[2].group; },
      [](Problem& p) { p.buffers[2].carried = true; }, [](Problem& p) { p.buffers[2].pinned_offset = 0; },
      [](Problem& p) { ++p.period; },                 [](Problem& p) { p.spaces[1].alignment = 2; },
      [](Problem& p) { --p.spaces[1].capacity_bytes; }, [](Problem& p) { p.apart[0].second = 1; },
      [](Problem& p) { p.apart.clear(); }};
  for (const auto& change : changes) {
    Problem changed = problem;
    change(changed);
    EXPECT_NE(digest(changed, offsets), digest(problem, offsets));
  }
  std::vector<std::uint64_t> moved = offsets;
  moved[3] = 64;
  EXPECT_NE(digest(problem, moved), digest(problem, offsets));
}

/// Random offsets in random rich problems: the sweep agrees with the definition, pair by pair.
TEST(Certificate, TheSweepAgreesWithTheDefinition) {
  std::uint32_t accepted = 0, refused = 0;
  for (std::uint32_t seed = 0; seed < 3000; ++seed) {
    SCOPED_TRACE(seed);
    const Problem problem = random_problem(seed, 10, 8, 6);
    Result<Solution> solution = solve(problem, {.budget_passes = 4});
    ASSERT_TRUE(solution);
    if (solution->outcome != Outcome::kFound) continue;
    std::mt19937 random(seed);
    const std::size_t moved = random() % problem.buffers.size();
    solution->offsets[moved] = random() % 24;
    const PairByPair judge(problem);
    bool bounds_hold = true;
    for (std::uint32_t space = 0; space < problem.spaces.size(); ++space) {
      SpacePlan& plan = solution->spaces[space];
      plan.peak_bytes = judge.peak(space, solution->offsets);
      bounds_hold = bounds_hold && plan.peak_bytes >= plan.lower_bound_bytes;
      plan.optimal = plan.peak_bytes == plan.lower_bound_bytes;
    }
    const Result<void> checked = check(problem, *solution);
    ASSERT_EQ(checked.has_value(), judge.is_valid(solution->offsets) && bounds_hold)
        << (checked ? "accepted" : checked.error().message);
    ++(checked ? accepted : refused);
  }
  EXPECT_GT(accepted, 300u);
  EXPECT_GT(refused, 300u);
}

}  // namespace
}  // namespace crucible::memory
