// Scheduling, checking and planning take twice the work for twice the program: counted in blocks of instructions, which
// the compiler writes into the sources that this test is built of (trace-pc), so that no clock is asked. Twice the time
// would be nothing to see at these sizes, four times the blocks is.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <vector>

#include "core/budget/order.hpp"
#include "core/budget/rebuild.hpp"
#include "core/kernel/schedule_check.hpp"
#include "runtime/plan/arrange.hpp"
#include "tests/scale/shapes.hpp"

namespace {
std::uint64_t blocks = 0;
}
extern "C" void __sanitizer_cov_trace_pc();
extern "C" void __sanitizer_cov_trace_pc() { ++blocks; }

namespace crucible::scale {
namespace {

/// Blocks of instructions from a program of about so many ops to its placement.
std::uint64_t work(const Shape& shape, std::size_t ops, bool fuse) {
  const graph::Program program = shape.make(ops);
  const std::uint64_t before = blocks;
  auto prepared = kernel::prepare(program, {.fuse = fuse});
  EXPECT_TRUE(prepared) << prepared.error().message;
  if (!prepared) return 0;
  const auto planned =
      std::make_shared<const graph::Program>(prepared->program ? *std::move(prepared->program) : program);
  const auto checked = kernel::check_schedule(*planned, prepared->schedule);
  EXPECT_TRUE(checked) << checked.error().message;
  // Without the local search, which may visit a fixed number of operands whatever the size.
  budget::Line line =
      budget::make_line(*planned, prepared->schedule, std::vector<std::uint64_t>(prepared->schedule.steps.size(), 0),
                        runtime::kAlignment, {});
  budget::order_for_memory(line, 0);
  const auto rebuilt = budget::rebuild(line, *planned, prepared->schedule);
  EXPECT_TRUE(rebuilt) << rebuilt.error().message;
  const auto arranged =
      runtime::arrange(planned, std::move(prepared->schedule), [](const kernel::Step&) { return std::uint64_t{0}; },
                       {.objective = runtime::Objective::kFastest});
  EXPECT_TRUE(arranged) << arranged.error().message;
  return blocks - before;
}

class Growth : public testing::TestWithParam<bool> {};

TEST_P(Growth, IsThatOfTheProgram) {
  constexpr std::size_t kOps = 1000;
  // Of the second doubling over the first: 2 where the work is linear, 4 where it is quadratic. Searches for paths
  // between units that are joined are exact in programs of this size, so that some of them are in between; larger ones
  // have an allowance per unit.
  const double kMost = GetParam() ? 3.1 : 2.6;
  for (const Shape& shape : shapes()) {
    SCOPED_TRACE(shape.name);
    const std::uint64_t few = work(shape, kOps, GetParam()), some = work(shape, 2 * kOps, GetParam()),
                        many = work(shape, 4 * kOps, GetParam());
    ASSERT_GT(some, few);
    EXPECT_LT(static_cast<double>(many - some) / static_cast<double>(some - few), kMost)
        << few << ", " << some << ", " << many << " blocks";
  }
}

TEST(Chain, CostsLittlePerOpWhereKernelsGrowOpByOp) {
  const auto deep = std::ranges::find(shapes(), "deep", &Shape::name);
  ASSERT_NE(deep, shapes().end());
  constexpr std::size_t kOps = 4000;
  EXPECT_LT(work(*deep, kOps, true) / kOps, 17'000)
      << "blocks per op";  // 11,000 now, 60,000 while each joint copied both groups
}

INSTANTIATE_TEST_SUITE_P(Fused, Growth, testing::Values(true));
INSTANTIATE_TEST_SUITE_P(Unfused, Growth, testing::Values(false));

}  // namespace
}  // namespace crucible::scale
