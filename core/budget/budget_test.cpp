// Random programs with less memory: judged by the verifier of programs, the checkers of schedules and placements, the
// reference interpreter and the generated kernels, bit by bit.
#include <gtest/gtest.h>

#include <cmath>

#include "core/budget/order.hpp"
#include "core/budget/rebuild.hpp"
#include "core/budget/recompute.hpp"
#include "core/graph/random_program.hpp"
#include "core/graph/reference.hpp"
#include "core/kernel/testing/host_executor.hpp"
#include "core/kernel/schedule_check.hpp"
#include "runtime/run/session.hpp"
#include "runtime/testing/test_programs.hpp"

namespace crucible::budget {
namespace {

/// Program and data, scheduled, and as the search for memory left them.
struct Case {
  graph::RandomProgram random;
  kernel::Schedule schedule;
  Rebuilt rebuilt;
  std::uint64_t peak_before = 0, peak_after = 0;
  std::uint32_t repeats = 0;
};

Case make_case(std::uint64_t seed, std::uint32_t stairs, const Costs& costs = {}) {
  Case result;
  result.random =
      seed % 2 == 0
          ? graph::random_program(
                {.seed = seed, .ops = 20 + static_cast<std::uint32_t>(seed % 80), .generators = seed % 4 == 0})
          : runtime::deep_program(seed);
  Result<kernel::Schedule> made = kernel::schedule(result.random.program, {.claims = nullptr, .fuse = seed % 3 != 0});
  EXPECT_TRUE(made) << made.error().message;
  if (!made) return result;
  result.schedule = *std::move(made);
  const std::vector<std::uint64_t> scratch(result.schedule.steps.size(), 0);
  Line line = make_line(result.random.program, result.schedule, scratch, 8, costs);
  result.peak_before = measure(line).peak;
  order_for_memory(line);
  Recompute search(std::move(line));
  while (stairs-- > 0 && search.descend()) {
  }
  result.peak_after = search.peak();
  result.repeats = search.repeats();
  Result<Rebuilt> rebuilt = rebuild(search.line(), result.random.program, result.schedule);
  EXPECT_TRUE(rebuilt) << rebuilt.error().message;
  if (rebuilt) result.rebuilt = *std::move(rebuilt);
  return result;
}

/// Ends of states and outputs, whole buffers, are the same bits.
void expect_equal_results(const Case& it, const std::vector<graph::Bytes>& before,
                          const std::vector<graph::Bytes>& after) {
  const graph::Program &old = it.random.program, &now = it.rebuilt.program;
  ASSERT_EQ(old.states.size(), now.states.size());
  for (std::size_t i = 0; i < old.states.size(); ++i) {
    EXPECT_EQ(old.states[i].start, now.states[i].start);
    EXPECT_EQ(before[old.states[i].end], after[now.states[i].end]) << "state " << i;
  }
  for (const graph::Output& output : old.outputs)
    EXPECT_EQ(before[output.operand.value], after[output.operand.value]) << output.name;
}

/// Verifier, checkers, placement and measure agree on what was made of the program.
void expect_approval(const Case& it, const Costs& costs) {
  const Rebuilt& rebuilt = it.rebuilt;
  EXPECT_LE(it.peak_after, it.peak_before);
  const Result<void> verified = graph::verify(rebuilt.program);
  ASSERT_TRUE(verified) << verified.error().message;
  const Result<void> checked = kernel::check_schedule(rebuilt.program, rebuilt.schedule);
  ASSERT_TRUE(checked) << checked.error().message;
  const std::vector<std::uint64_t> scratch(rebuilt.schedule.steps.size(), 0);
  const Result<runtime::Placement> placed = runtime::place(rebuilt.program, rebuilt.schedule, scratch);
  ASSERT_TRUE(placed) << placed.error().message;
  EXPECT_EQ(measure(make_line(rebuilt.program, rebuilt.schedule, scratch, 8, costs)).peak, it.peak_after);
  const auto before = graph::run_iteration(it.random.program, it.random.values, it.random.slots);
  std::vector<graph::Bytes> values = it.random.values;
  values.resize(rebuilt.program.values.size());
  const auto after = graph::run_iteration(rebuilt.program, values, it.random.slots);
  ASSERT_TRUE(before && after);
  expect_equal_results(it, *before, *after);
}

TEST(Recompute, GivesTheSameResultsToEveryJudge) {
  std::uint32_t repeated = 0;
  for (std::uint64_t seed = 0; seed < 150; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    const Case it = make_case(seed, 1 + static_cast<std::uint32_t>(seed % 40));
    repeated += it.repeats > 0;
    expect_approval(it, {});
  }
  EXPECT_GT(repeated, 60u);
}

TEST(Recompute, GivesTheSameResultsWithStatesOnTheHost) {
  std::uint32_t left = 0, below_carried = 0;
  for (std::uint64_t seed = 0; seed < 150; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    const Costs costs{.flops_per_ns = seed % 3 == 0 ? 1e-3 : 50, .host_bytes_per_ns = 20};
    const Case it = make_case(seed, 1 + static_cast<std::uint32_t>(seed * 7 % 100), costs);
    expect_approval(it, costs);
    std::uint64_t carried = 0;
    bool has_left = false;
    for (const graph::State& state : it.rebuilt.program.states) {
      const graph::Value& value = it.rebuilt.program.values[state.start];
      carried += static_cast<std::uint64_t>(value.elements) * size_bytes(value.dtype);
      EXPECT_EQ(it.rebuilt.schedule.on_host(state.start), it.rebuilt.schedule.on_host(state.end));
      has_left |= it.rebuilt.schedule.on_host(state.start);
    }
    left += has_left;
    below_carried += it.peak_after < carried;
  }
  EXPECT_GT(left, 40u);
  EXPECT_GT(below_carried, 0u);
}

TEST(Recompute, RunsTheSameKernelsOnTheSameBits) {
  if (kernel::HostKernels::compiler().empty()) GTEST_SKIP() << "no clang";
  std::vector<Case> cases;
  std::vector<const kernel::Schedule*> schedules;
  for (std::uint64_t seed = 1000; seed < 1012; ++seed) {
    cases.push_back(make_case(seed, 30));
    cases.push_back(make_case(seed, 60, {.host_bytes_per_ns = 20}));
  }
  for (const Case& it : cases) schedules.push_back(&it.schedule);  // the rebuilt ones have no other kernels
  const Result<kernel::HostKernels> kernels = kernel::HostKernels::compile(schedules);
  ASSERT_TRUE(kernels) << kernels.error().message;
  for (const Case& it : cases) {
    for (const bool in_place : {false, true}) {
      const kernel::RunOptions options{.in_place = in_place};
      const auto before =
          kernel::run_on_host(it.random.program, it.schedule, *kernels, it.random.values, it.random.slots, options);
      const auto after = kernel::run_on_host(it.rebuilt.program, it.rebuilt.schedule, *kernels, it.random.values,
                                             it.random.slots, options);
      ASSERT_TRUE(before && after);
      expect_equal_results(it, *before, *after);
    }
  }
}

TEST(Recompute, HalvesWhatADeepNetworkNeeds) {
  for (const std::uint64_t seed : {1u, 5u, 7u, 11u}) {
    const Case it = make_case(seed, 1000);
    std::uint64_t carried = 0, activation = 0;
    for (const graph::State& state : it.random.program.states) {
      activation = 4 * static_cast<std::uint64_t>(it.random.program.values[state.start].elements);
      carried += activation;
    }
    // Of n layers' activations about the square root of n must stay, and a few more are at work.
    const double layers = static_cast<double>(it.random.program.states.size());
    EXPECT_LE(static_cast<double>(it.peak_after - carried),
              (2 * std::sqrt(layers) + 6 + layers / 3) * static_cast<double>(activation))
        << "seed " << seed << ": " << layers << " layers of " << activation << " bytes, " << it.peak_before << " to "
        << it.peak_after;
  }
}

TEST(Recompute, GoesDownOneStairForAllBudgets) {
  // The path is the same however far one goes: what was reached on the way down is reached again.
  const Case whole = make_case(7, 1000);
  const Case again = make_case(7, 1000);
  EXPECT_EQ(whole.peak_after, again.peak_after);
  EXPECT_EQ(whole.rebuilt.step_of, again.rebuilt.step_of);
  std::uint64_t last = whole.peak_before;
  for (const std::uint32_t stairs : {0u, 1u, 2u, 4u, 8u, 1000u}) {
    const std::uint64_t peak = make_case(7, stairs).peak_after;
    EXPECT_LE(peak, last);
    last = peak;
  }
  EXPECT_EQ(last, whole.peak_after);
}

}  // namespace
}  // namespace crucible::budget
