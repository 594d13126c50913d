// What a line says about memory, against the placement and its lower bound; orders that must not change the results.
#include "core/budget/line.hpp"

#include <gtest/gtest.h>

#include "core/budget/order.hpp"
#include "core/budget/rebuild.hpp"
#include "core/graph/random_program.hpp"
#include "runtime/run/session.hpp"

namespace crucible::budget {
namespace {

constexpr std::uint64_t kAlignment = runtime::kAlignment;

struct Scheduled {
  graph::Program program;
  kernel::Schedule schedule;
  std::vector<std::uint64_t> scratch;
};

Scheduled scheduled(std::uint64_t seed, std::uint32_t ops, bool fuse) {
  Scheduled result;
  result.program = graph::random_program({.seed = seed, .ops = ops}).program;
  Result<kernel::Schedule> made = kernel::schedule(result.program, {.claims = nullptr, .fuse = fuse});
  EXPECT_TRUE(made) << made.error().message;
  if (made) result.schedule = *std::move(made);
  for (std::size_t step = 0; step < result.schedule.steps.size(); ++step) {
    result.scratch.push_back(step % 7 == 3 ? 100 * (seed % 50) : 0);
  }
  return result;
}

TEST(Line, MeasuresTheLowerBoundOfThePlacement) {
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    const Scheduled it = scheduled(seed, 10 + static_cast<std::uint32_t>(seed % 60), seed % 2 == 0);
    const Live live = measure(make_line(it.program, it.schedule, it.scratch, kAlignment, {}));
    const Result<runtime::Placement> placed = runtime::place(it.program, it.schedule, it.scratch);
    ASSERT_TRUE(placed) << placed.error().message;
    EXPECT_EQ(live.peak, placed->plan.lower_bound_bytes);
    EXPECT_EQ(live.bytes[live.peak_position], live.peak);
  }
}

TEST(Line, RebuiltUnchangedIsTheSameProgram) {
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    const Scheduled it = scheduled(seed, 30, seed % 2 == 0);
    const Line line = make_line(it.program, it.schedule, it.scratch, kAlignment, {});
    const Result<Rebuilt> rebuilt = rebuild(line, it.program, it.schedule);
    ASSERT_TRUE(rebuilt) << rebuilt.error().message;
    EXPECT_EQ(rebuilt->program.values.size(), it.program.values.size());
    EXPECT_EQ(rebuilt->program.ops.size(), it.program.ops.size());
    EXPECT_EQ(rebuilt->schedule.materialized, it.schedule.materialized);
    ASSERT_EQ(rebuilt->schedule.in_place.size(), it.schedule.in_place.size());
    for (std::size_t i = 0; i < it.schedule.in_place.size(); ++i) {
      EXPECT_EQ(rebuilt->schedule.in_place[i].operand, it.schedule.in_place[i].operand);
      EXPECT_EQ(rebuilt->schedule.in_place[i].result, it.schedule.in_place[i].result);
    }
  }
}

TEST(Order, KeepsDependencesAndNeverRaisesThePeak) {
  std::uint32_t lowered = 0;
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    const Scheduled it = scheduled(seed, 20 + static_cast<std::uint32_t>(seed % 60), seed % 2 == 0);
    Line line = make_line(it.program, it.schedule, it.scratch, kAlignment, {});
    const Dependences edges = dependences(line);
    const Ordered ordered = order_for_memory(line);
    EXPECT_EQ(ordered.peak_after, measure(line).peak);
    EXPECT_LE(ordered.peak_after, ordered.peak_before);
    EXPECT_EQ(ordered.moved == 0, ordered.peak_after == ordered.peak_before);
    lowered += ordered.peak_after < ordered.peak_before;
    std::vector<std::uint32_t> position(line.nodes.size(), kNone);
    for (std::uint32_t p = 0; p < line.order.size(); ++p) position[line.order[p]] = p;
    for (NodeId node = 0; node < line.nodes.size(); ++node) {
      ASSERT_NE(position[node], kNone);
      for (const NodeId earlier : edges.before[node]) EXPECT_LT(position[earlier], position[node]);
    }
  }
  EXPECT_GT(lowered, 50u);
}

}  // namespace
}  // namespace crucible::budget
