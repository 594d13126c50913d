// Two judges that know nothing of the planner: brute force over all offsets of tiny problems, and Z3 on small ones.
// What the planner has proved must be what they say.
#include <gtest/gtest.h>
#include <z3++.h>

#include "core/memory/random_problem.hpp"

namespace crucible::memory {
namespace {

/// The smallest peak of space 0, by trying every offset of every buffer; `limit` + 1 when none is within it.
class BruteForce {
 public:
  BruteForce(const Problem& problem, std::uint64_t limit) : problem_(problem), judge_(problem), best_(limit + 1) {
    offsets_.assign(problem.buffers.size(), 0);
    for (std::uint32_t a = 0; a < offsets_.size(); ++a) {
      sizes_.push_back(judge_.block_bytes(a));
      for (std::uint32_t b = 0; b < offsets_.size(); ++b) differ_.push_back(judge_.must_differ(a, b));
    }
    visit(0, 0);
  }
  std::uint64_t best() const { return best_; }

 private:
  bool fits(std::uint32_t i) const {
    for (std::uint32_t k = 0; k < i; ++k) {
      if (judge_.are_one(i, k) && offsets_[i] != offsets_[k]) return false;
      if (!differ_[i * offsets_.size() + k]) continue;
      if (std::max(offsets_[i], offsets_[k]) < std::min(offsets_[i] + sizes_[i], offsets_[k] + sizes_[k])) return false;
    }
    return true;
  }
  void visit(std::uint32_t i, std::uint64_t peak) {
    if (peak >= best_) return;
    if (i == offsets_.size()) {
      best_ = peak;
      return;
    }
    const Buffer& buffer = problem_.buffers[i];
    const std::uint64_t unit = problem_.spaces[0].alignment, step = std::max(unit, buffer.alignment);
    const bool is_used = judge_.is_used(i);
    const bool is_free = !is_used && buffer.group == kNoGroup;
    const bool is_pinned = buffer.pinned_offset != kUnpinned;
    for (std::uint64_t offset = is_pinned ? buffer.pinned_offset : 0; is_pinned || offset <= best_; offset += step) {
      const std::uint64_t top = is_used ? offset + (buffer.size_bytes + unit - 1) / unit * unit : 0;
      if (top >= best_) return;
      offsets_[i] = offset;
      if (fits(i)) visit(i + 1, std::max(peak, top));
      if (is_free || is_pinned) return;
    }
  }

  const Problem& problem_;
  PairByPair judge_;
  std::uint64_t best_ = 0;
  std::vector<std::uint64_t> offsets_, sizes_;
  std::vector<bool> differ_;
};

TEST(Judges, BruteForceFindsTheSamePeaks) {
  std::uint32_t compared = 0, above_bound = 0;
  for (std::uint32_t seed = 0; seed < 1200; ++seed) {
    SCOPED_TRACE(seed);
    const Problem problem = random_problem(seed, 7, 7, 6, {.spaces = false});
    const Result<Solution> solution = solve(problem, {.budget_passes = 3000});
    ASSERT_TRUE(solution) << solution.error().message;
    if (solution->outcome == Outcome::kImpossible) {
      EXPECT_EQ(BruteForce(problem, 40).best(), 41u);
      continue;
    }
    const SpacePlan& plan = solution->spaces[0];
    ASSERT_TRUE(plan.optimal);
    ASSERT_EQ(BruteForce(problem, plan.peak_bytes).best(), plan.peak_bytes);
    ++compared;
    above_bound += plan.peak_bytes > plan.lower_bound_bytes ? 1 : 0;
  }
  EXPECT_GT(compared, 900u);
  EXPECT_GT(above_bound, 1u);
}

/// Whether a plan within `capacity` exists for space 0.
bool z3_finds(const Problem& problem, std::uint64_t capacity) {
  z3::context context;
  z3::solver solver(context);
  const PairByPair judge(problem);
  std::vector<z3::expr> offsets;
  const auto constant = [&](std::uint64_t value) { return context.int_val(value); };
  const std::uint64_t unit = problem.spaces[0].alignment;
  for (std::uint32_t i = 0; i < problem.buffers.size(); ++i) {
    const Buffer& buffer = problem.buffers[i];
    const z3::expr quotient = context.int_const(("q" + std::to_string(i)).c_str());
    offsets.push_back(quotient * constant(std::max(unit, buffer.alignment)));
    solver.add(quotient >= 0);
    if (judge.is_used(i))
      solver.add(offsets[i] + constant((buffer.size_bytes + unit - 1) / unit * unit) <= constant(capacity));
    if (buffer.pinned_offset != kUnpinned) solver.add(offsets[i] == constant(buffer.pinned_offset));
    for (std::uint32_t k = 0; k < i; ++k) {
      if (judge.are_one(i, k)) solver.add(offsets[i] == offsets[k]);
      if (!judge.must_differ(i, k)) continue;
      solver.add(offsets[i] + constant(judge.block_bytes(i)) <= offsets[k] ||
                 offsets[k] + constant(judge.block_bytes(k)) <= offsets[i]);
    }
  }
  return solver.check() == z3::sat;
}

TEST(Judges, Z3ProvesTheSamePeaks) {
  std::uint32_t compared = 0, above_bound = 0;
  for (std::uint32_t seed = 0; seed < 120; ++seed) {
    SCOPED_TRACE(seed);
    const Problem problem = random_problem(seed, 12, 8, seed % 2 == 0 ? 9 : 1000, {.spaces = false});
    const Result<Solution> solution = solve(problem, {.budget_passes = 3000});
    ASSERT_TRUE(solution) << solution.error().message;
    if (solution->outcome == Outcome::kImpossible) {
      EXPECT_FALSE(z3_finds(problem, 1 << 20));
      continue;
    }
    const SpacePlan& plan = solution->spaces[0];
    if (!plan.optimal || plan.peak_bytes == 0) continue;
    ASSERT_TRUE(z3_finds(problem, plan.peak_bytes));
    ASSERT_FALSE(z3_finds(problem, plan.peak_bytes - 1));
    ++compared;
    above_bound += plan.peak_bytes > plan.lower_bound_bytes ? 1 : 0;
  }
  EXPECT_GT(compared, 90u);
  EXPECT_GT(above_bound, 1u);
}

}  // namespace
}  // namespace crucible::memory
