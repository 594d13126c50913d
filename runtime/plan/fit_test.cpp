// A plan small enough to be added up by hand: one parameter, one input, an activation, a gradient.
#include "runtime/plan/fit.hpp"

#include <gtest/gtest.h>

#include "runtime/testing/test_programs.hpp"

namespace crucible::runtime {
namespace {

using graph::OpKind;
using graph::Phase;
using graph::ValueId;

constexpr std::uint64_t kKib = 1024;

/// Forward: a = exp(x w). Backward: g = a a. Optimizer: w = w g. All of 256 f32: 1 KiB each.
struct Step {
  graph::Program program;
  kernel::Schedule schedule;
  Placement placement;
  PlanRoles roles;

  Step() {
    ProgramBuilder b;
    const ValueId w = b.state("w", {256}), x = b.input("x", {256});
    const ValueId y = b.op(OpKind::kMultiply, {b.whole(x), b.whole(w)}, {256});
    const ValueId a = b.op(OpKind::kExp, {b.whole(y)}, {256});
    const ValueId g = b.op(OpKind::kMultiply, {b.whole(a), b.whole(a)}, {256});
    b.end_state(w, b.op(OpKind::kMultiply, {b.whole(w), b.whole(g)}, {256}));
    for (std::uint32_t op = 0; op < b.program.ops.size(); ++op) {
      b.program.sources.push_back({"aten::op", "", "",
                                   op < 2   ? Phase::kForward
                                   : op < 3 ? Phase::kBackward
                                            : Phase::kOptimizer,
                                   op});
      b.program.ops[op].source = op;
    }
    program = std::move(b.program);
    schedule = naive_schedule(program, false);
    Result<Placement> placed = place(program, schedule, std::vector<std::uint64_t>(schedule.steps.size(), 0));
    EXPECT_TRUE(placed);
    placement = *std::move(placed);
    roles = assign_roles(program, schedule, placement, {});
  }
  Fit on(std::uint64_t usable, std::uint64_t batch = 0) const {
    hardware::DeviceProfile toy{.name = "toy"};
    toy.figures["memory.size"] = {.value = static_cast<double>(usable)};
    return fit(toy, program, schedule, placement, roles, batch);
  }
};

TEST(Fit, SaysHowMuchIsMissing) {
  const Step step;
  ASSERT_EQ(step.placement.plan.peak_bytes, 3 * kKib);  // w, and two of x, y, a, g at a time
  const Fit fits = step.on(3 * kKib), misses = step.on(3 * kKib - 1);
  EXPECT_TRUE(fits.fits);
  EXPECT_EQ(fits.missing_bytes, 0u);
  EXPECT_FALSE(misses.fits);
  EXPECT_EQ(misses.missing_bytes, 1u);
  EXPECT_EQ(misses.usable_bytes, 3 * kKib - 1);
}

TEST(Fit, PartsOfThePeakAddUp) {
  const Fit fit = Step().on(kKib);
  EXPECT_EQ(fit.carried_bytes, kKib);
  EXPECT_EQ(fit.carried_bytes + fit.activation_bytes + fit.gradient_bytes + fit.rest_bytes, fit.peak_bytes);
  EXPECT_EQ(fit.floor_bytes, 3 * kKib);  // w, and the two that a step reads and writes
}

TEST(Fit, TheBatchGrowsWithWhatIsLeftBesideTheStates) {
  const Step step;
  EXPECT_EQ(step.on(3 * kKib, 8).largest_batch, 8u);
  EXPECT_EQ(step.on(5 * kKib, 8).largest_batch, 16u);  // w stays 1 KiB, x and y double
  EXPECT_EQ(step.on(2 * kKib, 8).largest_batch, 0u);   // w, its new value and the gradient do not shrink
  EXPECT_EQ(step.on(5 * kKib).largest_batch, 0u);      // not known
}

}  // namespace
}  // namespace crucible::runtime
