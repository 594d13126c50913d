// Random programs of several threads, each iteration in another order that keeps what depends on what.
#include "frontends/aten/recording/thread_order.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <set>
#include <string>

#include "core/trace/trace_maker.hpp"
#include "frontends/aten/recording/align.hpp"

namespace crucible::aten {
namespace {

using trace::TensorId;
using trace::samples::tensor_of;
using trace::samples::TraceMaker;

struct Step {
  std::string schema = {};
  std::vector<std::size_t> reads = {};  // variables; the first is written where the schema says so
  bool writes = false;             // else it makes the next variable
  std::uint32_t thread = 0;
};

/// The first variables are two weights, which stay, and an input, which is new in each iteration.
std::vector<Step> random_steps(std::mt19937& random) {
  const auto below = [&random](std::size_t count) { return static_cast<std::size_t>(random() % count); };
  std::vector<Step> steps;
  std::size_t variables = 3;
  for (std::size_t i = 0; i < 12; ++i) {
    Step step{.thread = static_cast<std::uint32_t>(below(3))};
    step.reads = {below(variables), below(variables)};
    step.writes = below(4) == 0 && step.reads[0] > 2;
    step.schema = step.writes ? "aten::add_.Tensor(Tensor(a!) self, Tensor other, *, Scalar alpha=1) -> Tensor(a!)"
                              : (below(2) == 0 ? "aten::mul.Tensor(Tensor self, Tensor other) -> Tensor"
                                               : "aten::sub.Tensor(Tensor self, Tensor other) -> Tensor");
    if (!step.writes) ++variables;
    steps.push_back(std::move(step));
  }
  return steps;
}

/// What a step must come after, by what the steps read and write.
std::vector<std::set<std::size_t>> needs_of(const std::vector<Step>& steps) {
  std::vector<std::set<std::size_t>> needs(steps.size());
  std::vector<std::size_t> made(3 + steps.size(), steps.size());
  std::size_t variables = 3;
  for (std::size_t i = 0; i < steps.size(); ++i) {
    for (std::size_t before = 0; before < i; ++before) {
      const bool written_there =
          steps[before].writes && std::ranges::find(steps[i].reads, steps[before].reads[0]) != steps[i].reads.end();
      const bool written_here =
          steps[i].writes && std::ranges::find(steps[before].reads, steps[i].reads[0]) != steps[before].reads.end();
      if (written_there || written_here) needs[i].insert(before);
    }
    for (const std::size_t variable : steps[i].reads) {
      if (made[variable] < steps.size()) needs[i].insert(made[variable]);
    }
    if (!steps[i].writes) made[variables++] = i;
  }
  return needs;
}

std::vector<std::size_t> random_order(const std::vector<std::set<std::size_t>>& needs, std::mt19937& random) {
  std::vector<std::size_t> order;
  std::set<std::size_t> done;
  while (order.size() < needs.size()) {
    const std::size_t i = random() % needs.size();
    if (done.contains(i) || !std::ranges::all_of(needs[i], [&](std::size_t before) { return done.contains(before); }))
      continue;
    done.insert(i);
    order.push_back(i);
  }
  return order;
}

trace::Trace recorded(const std::vector<Step>& steps, std::mt19937& random, bool one_thread) {
  const auto needs = needs_of(steps);
  TraceMaker maker;
  const TensorId weights[] = {maker.tensor({2}), maker.tensor({2})};
  for (int iteration = 0; iteration < 3; ++iteration) {
    maker.begin_iteration();
    std::vector<TensorId> variables = {weights[0], weights[1], maker.tensor({2})};
    std::vector<std::size_t> place(steps.size());
    for (std::size_t i = 0, next = 3; i < steps.size(); ++i) place[i] = steps[i].writes ? steps[i].reads[0] : next++;
    for (std::size_t i = 0; i < steps.size(); ++i) variables.push_back(maker.tensor({2}));
    for (const std::size_t i : random_order(needs, random)) {
      maker.op(steps[i].schema, {tensor_of(variables[steps[i].reads[0]]), tensor_of(variables[steps[i].reads[1]])},
               {tensor_of(variables[place[i]])});
      maker.trace.ops.back().thread = one_thread ? 0 : steps[i].thread;
    }
  }
  return maker.take();
}

TEST(ThreadOrder, IterationsOfThreadsAreBroughtIntoTheOrderOfTheFirst) {
  std::mt19937 random(7);
  int orders_that_differ = 0;
  for (int round = 0; round < 300; ++round) {
    const std::vector<Step> steps = random_steps(random);
    const trace::Trace trace = recorded(steps, random, false);
    const Result<std::vector<Alignment>> aligned = align(trace);
    ASSERT_TRUE(aligned) << round << ": " << aligned.error().message;
    ASSERT_EQ(aligned->size(), 1u) << round << ": " << aligned->back().difference;
    for (const auto& ops : aligned->front().ops) {
      orders_that_differ += !std::ranges::is_sorted(ops);
      // Every op of the iteration is there once, and none before what it depends on: a read sees the same writes as
      // recorded.
      std::vector<std::uint32_t> sorted = ops;
      std::ranges::sort(sorted);
      for (std::size_t i = 1; i < sorted.size(); ++i) ASSERT_EQ(sorted[i], sorted[i - 1] + 1);
      for (std::size_t a = 0; a < ops.size(); ++a) {
        for (std::size_t b = a + 1; b < ops.size(); ++b) {
          if (ops[a] < ops[b]) continue;  // in the recorded order
          const trace::Op &early = trace.ops[ops[b]], &late = trace.ops[ops[a]];
          const auto storage = [&trace](const trace::Arg& arg) { return trace.tensors[arg.tensor].storage; };
          for (const trace::Arg& read : late.args) EXPECT_NE(storage(read), storage(early.outputs[0]));
          for (const trace::Arg& read : early.args) EXPECT_NE(storage(read), storage(late.outputs[0]));
        }
      }
    }
  }
  EXPECT_GT(orders_that_differ, 300);
}

TEST(ThreadOrder, OneThreadKeepsItsOrder) {
  std::mt19937 random(7);
  const trace::Trace trace = recorded(random_steps(random), random, true);
  const Result<std::vector<Alignment>> aligned = align(trace);
  ASSERT_TRUE(aligned) << aligned.error().message;
  EXPECT_GT(aligned->size(), 1u);  // another order on one thread is another program as far as anybody knows
}

}  // namespace
}  // namespace crucible::aten
