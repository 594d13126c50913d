// Differential tests: random programs scheduled with and without fusion, with and without in-place reuse, against the
// reference interpreter; and what the schedules of well-known patterns look like.
#include "core/kernel/schedule.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <deque>

#include "core/graph/random_program.hpp"
#include "core/kernel/testing/test_program.hpp"

namespace crucible::kernel {
namespace {

using graph::Operand;
using graph::OpKind;

/// Programs of growing size with seeds from 12 * `batch`.
void compare_random_programs(int batch, Numerics numerics, Executors executors = Executors::kCompiledAndInterpreted) {
  if (executors == Executors::kCompiledAndInterpreted && HostKernels::compiler().empty()) GTEST_SKIP() << "no clang";
  constexpr int kPrograms = 12;
  std::deque<TestProgram> programs;
  std::vector<const TestProgram*> list;
  for (int i = 0; i < kPrograms; ++i) {
    graph::RandomOptions options;
    options.seed = static_cast<std::uint64_t>(batch * kPrograms + i);
    options.ops = 10 + static_cast<std::uint32_t>(i) * 5;
    graph::RandomProgram random = graph::random_program(options);
    TestProgram& test = programs.emplace_back();
    test.program = std::move(random.program);
    test.values = std::move(random.values);
    test.slots = std::move(random.slots);
    list.push_back(&test);
  }
  for (const std::string& failure : run_and_compare(list, nullptr, numerics, executors)) {
    ADD_FAILURE() << "seeds from " << batch * kPrograms << ": " << failure;
    return;
  }
}

/// A number in the environment, in tests that are named without it: CRUCIBLE_RANDOM_BATCHES is how many batches are
/// compiled, CRUCIBLE_INTERPRETED_PROGRAMS how many programs the interpreter alone runs.
int environment(const char* name, int otherwise) {
  const char* text = std::getenv(name);
  return text == nullptr ? otherwise : std::max(1, std::atoi(text));
}

class RandomPrograms : public ::testing::TestWithParam<int> {};

TEST_P(RandomPrograms, AgreeWithTheInterpreter) { compare_random_programs(GetParam(), Numerics::kFast); }

/// Others than those above.
TEST_P(RandomPrograms, HaveTheSameBitsFusedAndUnfusedWhenStrict) {
  compare_random_programs(1000 + GetParam(), Numerics::kStrict);
}

INSTANTIATE_TEST_SUITE_P(Seeds, RandomPrograms, ::testing::Range(0, environment("CRUCIBLE_RANDOM_BATCHES", 4)));

/// Without a compiler there is time for many more. Fused and unfused, in place and in slices, every access watched.
TEST(InterpretedPrograms, AgreeWithTheReferenceFusedAndUnfused) {
  for (int batch = 0; batch * 12 < environment("CRUCIBLE_INTERPRETED_PROGRAMS", 500); ++batch) {
    compare_random_programs(2000 + batch, Numerics::kFast, Executors::kInterpreted);
    if (HasFailure()) return;
  }
}

TEST(InterpretedPrograms, HaveTheSameBitsFusedAndUnfusedWhenStrict) {
  for (int batch = 0; batch * 12 < environment("CRUCIBLE_INTERPRETED_PROGRAMS", 500); ++batch) {
    compare_random_programs(100000 + batch, Numerics::kStrict, Executors::kInterpreted);
    if (HasFailure()) return;
  }
}

/// layer_norm(x) * gamma + beta over the last dimension, x of [rows, width].
Operand layer_norm(TestProgram& t, const Operand& x, const Operand& gamma, const Operand& beta) {
  const Sizes sizes = x.view.sizes;
  const double width = static_cast<double>(sizes.back());
  const auto last = static_cast<std::int64_t>(sizes.size() - 1);
  Sizes row = sizes;
  row.back() = 1;
  const Operand mean = t.op(OpKind::kMultiply, {t.reduce(OpKind::kReduceSum, x, {last}), t.scalar(1 / width)}, row);
  const Operand centred = t.op(OpKind::kSubtract, {x, expanded(mean, sizes)}, sizes);
  const Operand square = t.op(OpKind::kMultiply, {centred, centred}, sizes);
  const Operand variance =
      t.op(OpKind::kMultiply, {t.reduce(OpKind::kReduceSum, square, {last}), t.scalar(1 / width)}, row);
  const Operand shifted = t.op(OpKind::kAdd, {variance, t.scalar(1e-5)}, row);
  const Operand scale = t.op(OpKind::kReciprocalSqrt, {shifted}, row);
  const Operand normal = t.op(OpKind::kMultiply, {centred, expanded(scale, sizes)}, sizes);
  const Operand scaled = t.op(OpKind::kMultiply, {normal, expanded(gamma, sizes)}, sizes);
  return t.op(OpKind::kAdd, {scaled, expanded(beta, sizes)}, sizes);
}

Operand softmax(TestProgram& t, const Operand& x, std::int64_t dim) {
  const Sizes sizes = x.view.sizes;
  const Operand top = t.reduce(OpKind::kReduceMax, x, {dim});
  const Operand shifted = t.op(OpKind::kSubtract, {x, expanded(top, sizes)}, sizes);
  const Operand power = t.op(OpKind::kExp, {shifted}, sizes);
  return t.op(OpKind::kDivide, {power, expanded(t.reduce(OpKind::kReduceSum, power, {dim}), sizes)}, sizes);
}

struct Pattern {
  std::string name;
  std::size_t most_steps;
  TestProgram test;
};

void add_row_patterns(std::deque<Pattern>& patterns) {
  {
    TestProgram& t = patterns.emplace_back(Pattern{"layer norm", 1, TestProgram(1)}).test;
    const Operand x = t.input(DType::kF32, {37, 96}), y = t.input(DType::kF32, {37, 96});
    const Operand sum = t.op(OpKind::kAdd, {x, y}, {37, 96});
    t.keep(layer_norm(t, sum, t.input(DType::kF32, {96}), t.input(DType::kF32, {96})));
    t.keep(sum);
  }
  for (const std::int64_t dim : {0, 1, 2}) {
    TestProgram& t =
        patterns.emplace_back(Pattern{fmt::format("softmax over dimension {}", dim), 1, TestProgram(2)}).test;
    t.keep(softmax(t, t.input(DType::kF32, {16, 40, 24}, -20, 20), dim));
  }
  {
    TestProgram& t = patterns.emplace_back(Pattern{"softmax of a permuted tensor", 1, TestProgram(3)}).test;
    const Operand x = t.input(DType::kF32, {4, 12, 3, 16});
    t.keep(softmax(t, permuted(x, {0, 2, 1, 3}), 3));
  }
  {
    TestProgram& t = patterns.emplace_back(Pattern{"long rows of f64 and their maximum", 1, TestProgram(4)}).test;
    const Operand x = t.input(DType::kF64, {5, 20000});
    const Operand centred = t.op(OpKind::kSubtract, {x, expanded(t.reduce(OpKind::kReduceMax, x, {1}), {5, 20000})},
                                 {5, 20000}, DType::kF64);
    t.keep(t.reduce(OpKind::kReduceSum, centred, {1}));
  }
}

void add_column_patterns(std::deque<Pattern>& patterns) {
  {
    TestProgram& t = patterns.emplace_back(Pattern{"column sums of one pass", 1, TestProgram(5)}).test;
    const Operand x = t.input(DType::kF32, {68, 160}), y = t.input(DType::kF32, {68, 160});
    t.keep(t.reduce(OpKind::kReduceSum, t.op(OpKind::kMultiply, {x, y}, {68, 160}), {0}));
    t.keep(t.reduce(OpKind::kReduceSum, x, {0}));
    t.keep(t.reduce(OpKind::kReduceMax, y, {0}));
  }
  {
    TestProgram& t = patterns.emplace_back(Pattern{"normalised columns", 1, TestProgram(6)}).test;
    const Operand x = t.input(DType::kF32, {33, 100});
    const Operand mean = t.op(OpKind::kMultiply, {t.reduce(OpKind::kReduceSum, x, {0}), t.scalar(1.0 / 33)}, {1, 100});
    t.keep(t.op(OpKind::kSubtract, {x, expanded(mean, {33, 100})}, {33, 100}));
  }
  {
    TestProgram& t = patterns.emplace_back(Pattern{"batch norm with running mean", 1, TestProgram(7)}).test;
    const Sizes sizes{4, 6, 5, 7}, channel{1, 6, 1, 1};
    const Operand x = t.input(DType::kF32, sizes), running = t.state(DType::kF32, {6});
    const Operand sum = t.reduce(OpKind::kReduceSum, x, {0, 2, 3});
    const Operand mean = t.op(OpKind::kMultiply, {sum, t.slot(1.0 / 140)}, channel);
    const Operand centred = t.op(OpKind::kSubtract, {x, expanded(mean, sizes)}, sizes);
    t.keep(t.op(OpKind::kMaximum, {centred, t.scalar(0)}, sizes));
    const Operand old = t.op(OpKind::kMultiply, {running, t.scalar(0.9)}, {6});
    t.end_state(running, t.op(OpKind::kAdd, {old, reshaped(mean, {6})}, {6}));
  }
}

void add_map_patterns(std::deque<Pattern>& patterns) {
  {
    TestProgram& t = patterns.emplace_back(Pattern{"optimizer update", 1, TestProgram(8)}).test;
    const Operand p = t.state(DType::kF32, {30, 50}), m = t.state(DType::kF32, {1500}),
                  g = t.input(DType::kF32, {50, 30});
    const Operand clip = t.input(DType::kF32, {});
    const Operand clipped = t.op(OpKind::kMultiply, {permuted(g, {1, 0}), expanded(clip, {30, 50})}, {30, 50});
    const Operand decayed = t.op(OpKind::kMultiply, {m, t.slot(0.9)}, {1500});
    const Operand moment = t.op(OpKind::kAdd, {decayed, reshaped(clipped, {1500})}, {1500});
    const Operand step = t.op(OpKind::kMultiply, {moment, t.slot(-0.1)}, {1500});
    t.end_state(m, moment);
    t.end_state(p, t.op(OpKind::kAdd, {p, reshaped(step, {30, 50})}, {30, 50}));
  }
  {
    TestProgram& t = patterns.emplace_back(Pattern{"counters", 1, TestProgram(9)}).test;
    for (int i = 0; i < 40; ++i) {
      const Operand count = t.state(DType::kI64, {}, 0, 100);
      t.end_state(count, t.op(OpKind::kAdd, {count, t.scalar(1)}, {}, DType::kI64));
    }
  }
  {
    TestProgram& t = patterns.emplace_back(Pattern{"causal mask from coordinates", 1, TestProgram(10)}).test;
    graph::Attributes along;
    along.dims = {0};
    const Operand i = t.op(OpKind::kCoordinate, {}, {24}, DType::kI64, along);
    const Operand ones = t.op(OpKind::kFill, {t.scalar(-5)}, {24, 24});
    const Operand mask = t.op(OpKind::kLessEqual, {expanded(i, {24, 24}), expanded(reshaped(i, {24, 1}), {24, 24})},
                              {24, 24}, DType::kBool);
    const Operand x = t.input(DType::kF32, {24, 24});
    t.keep(t.op(OpKind::kSelect, {mask, x, ones}, {24, 24}));
  }
}

/// Fifty partial gradients, added as they come: one kernel for all of them would keep all alive until the last is
/// there.
TEST(Fusion, LetsFewLargeTensorsWaitForEachOther) {
  for (const std::int64_t side : {16, 64}) {
    TestProgram t(11);
    const Operand x = t.input(DType::kF32, {side, side});
    Operand sum = t.op(OpKind::kMatMul, {x, x}, {side, side});
    for (int i = 0; i < 50; ++i) {
      const Operand part = t.op(OpKind::kMatMul, {x, permuted(x, {1, 0})}, {side, side});
      sum = t.op(OpKind::kAdd, {sum, part}, {side, side});
    }
    t.keep(sum);
    const Result<Schedule> made = schedule(t.program, {});
    ASSERT_TRUE(made) << made.error().message;
    std::size_t most = 0;
    for (const Step& step : made->steps) most = std::max(most, step.buffers.size());
    if (side == 64) {
      EXPECT_EQ(most, 9u) << "eight operands and the result";
    } else {
      EXPECT_GT(most, 9u) << "small ones are cheaper to keep than to launch for";
    }
  }
}

TEST(Patterns, AreOneKernelEachAndAgreeWithTheInterpreter) {
  if (HostKernels::compiler().empty()) GTEST_SKIP() << "no clang";
  std::deque<Pattern> patterns;
  add_row_patterns(patterns);
  add_column_patterns(patterns);
  add_map_patterns(patterns);
  std::vector<const TestProgram*> list;
  for (const Pattern& pattern : patterns) list.push_back(&pattern.test);
  std::vector<std::size_t> steps;
  for (const std::string& failure : run_and_compare(list, &steps)) ADD_FAILURE() << failure;
  for (const std::string& failure : run_and_compare(list, nullptr, Numerics::kStrict))
    ADD_FAILURE() << "strict: " << failure;
  ASSERT_EQ(steps.size(), patterns.size());
  for (std::size_t i = 0; i < steps.size(); ++i) EXPECT_LE(steps[i], patterns[i].most_steps) << patterns[i].name;
}

TEST(Schedule, UpdatesStatesInPlaceAndKeepsNoInnerValue) {
  TestProgram t;
  const Operand p = t.state(DType::kF32, {64}), g = t.input(DType::kF32, {64});
  const Operand step = t.op(OpKind::kMultiply, {g, t.slot(0.1)}, {64});
  const Operand next = t.op(OpKind::kSubtract, {p, step}, {64});
  t.end_state(p, next);
  auto made = schedule(t.program, {});
  ASSERT_TRUE(made) << made.error().message;
  ASSERT_EQ(made->in_place.size(), 1u);
  EXPECT_EQ(made->in_place[0].operand, p.value);
  EXPECT_EQ(made->in_place[0].result, next.value);
  EXPECT_FALSE(made->materialized[step.value]);
}

TEST(Schedule, DoesNotOverwriteWhatIsReadElsewhereOrAtOtherPlaces) {
  TestProgram t;
  const Operand x = t.input(DType::kF32, {8, 8});
  const Operand y = t.op(OpKind::kAdd, {x, t.scalar(1)}, {8, 8});
  t.keep(t.reduce(OpKind::kReduceSum, y, {0, 1}));
  t.keep(t.op(OpKind::kAdd, {y, permuted(y, {1, 0})}, {8, 8}));  // reads y at two places
  auto made = schedule(t.program, {});
  ASSERT_TRUE(made) << made.error().message;
  EXPECT_TRUE(made->in_place.empty());
}

TEST(Schedule, KernelsOfEqualTextAreOneKernelWhateverTheirSize) {
  TestProgram t;
  for (const std::int64_t size : {100, 2000, 31}) {
    const Operand p = t.state(DType::kF32, {size});
    t.end_state(p, t.op(OpKind::kMultiply, {p, t.scalar(0.5)}, {size}));
  }
  auto made = schedule(t.program, {});
  ASSERT_TRUE(made) << made.error().message;
  EXPECT_EQ(made->steps.size(), 3u);
  EXPECT_EQ(made->kernels.size(), 1u);
}

TEST(Schedule, HandsContractionsToTheLibraryWhenItClaimsThem) {
  TestProgram t;
  const Operand a = t.input(DType::kF32, {4, 6}), b = t.input(DType::kF32, {6, 5});
  t.keep(t.op(OpKind::kMatMul, {a, b}, {4, 5}));
  int asked = 0;
  const auto claim = [&](const LibraryCall& call) {
    ++asked;
    EXPECT_EQ(call.kind, LibraryKind::kMatMul);
    EXPECT_EQ(call.views[1], b.view);
    return true;
  };
  auto made = schedule(t.program, {.claims = claim, .fuse = true});
  ASSERT_TRUE(made) << made.error().message;
  EXPECT_EQ(asked, 1);
  ASSERT_EQ(made->steps.size(), 1u);
  EXPECT_EQ(made->steps[0].kind, StepKind::kLibrary);
  EXPECT_EQ(made->steps[0].flops, 240u);
}

/// A processor's thread walks all rows of its columns; a device whose threads run in step would have 24 warps at work.
TEST(Schedule, FewTallColumnsAreTakenInSlabsWhereThreadsRunInStep) {
  TestProgram t(1);
  t.keep(t.reduce(OpKind::kReduceSum, t.input(DType::kF32, {4096, 768}), {0}));
  const auto steps_of = [&](const Options& options) {
    auto prepared = prepare(t.program, options);
    EXPECT_TRUE(prepared);
    return prepared ? prepared->schedule.steps : std::vector<Step>();
  };
  EXPECT_EQ(steps_of({}).size(), 1u);
  for (const bool fuse : {true, false}) {
    const auto steps = steps_of({.fuse = fuse, .device = {.lanes = 32}});
    ASSERT_EQ(steps.size(), 2u);
    EXPECT_EQ(steps[0].grid, 64 * 768 / 32);  // 64 slabs of 64 rows
    EXPECT_EQ(steps[1].grid, 768 / 32);
  }
  // Strict results are the same everywhere, so is the way to them.
  EXPECT_EQ(steps_of({.numerics = Numerics::kStrict}).size(), 2u);
}

TEST(Schedule, ATableThatRowsAreTakenFromIsNotReadWhole) {
  TestProgram t(1);
  const Operand table = t.input(DType::kF32, {50000, 16}), ids = t.input(DType::kI64, {8}, 0, 9);
  t.keep(t.op(OpKind::kGatherRows, {table, ids}, {8, 16}, DType::kF32));
  const auto scheduled = schedule(t.program, {});
  ASSERT_TRUE(scheduled);
  ASSERT_EQ(scheduled->steps.size(), 1u);
  EXPECT_EQ(scheduled->steps[0].bytes, 2u * 8 * 16 * 4 + 8 * 8);
}

}  // namespace
}  // namespace crucible::kernel
