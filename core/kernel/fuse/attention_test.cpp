// Attention as one step: what becomes one, that its bits are those of single kernels, what lies in memory, and what is
// refused.
#include "core/kernel/fuse/attention.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <limits>
#include <random>

#include "core/kernel/fuse/explain.hpp"
#include "core/kernel/fuse/recompute_scores.hpp"
#include "core/kernel/run_schedule.hpp"
#include "core/kernel/schedule_check.hpp"
#include "core/kernel/ir/read_ir.hpp"
#include "core/kernel/testing/test_program.hpp"

namespace crucible::kernel {
namespace {

using graph::Operand;
using graph::OpId;
using graph::OpKind;

enum class Mask { kNone, kCausal, kAdded, kBool };

struct Shape {
  std::int64_t batch = 2, heads = 3, rows = 17, keys = 17, width = 8, values = 8;
  Mask mask = Mask::kNone;
  bool is_safe = false;      // rows that see nothing have probabilities of 0, as the framework's kernels have it
  bool divides_late = true;  // the sum divides the product with the values
  bool across = false;       // [batch, rows, heads, width] in memory
  bool drops = false;        // probabilities are multiplied with recorded draws
  std::int64_t sharing = 1;  // query heads per head of keys and values
  DType dtype = DType::kF32;
  std::string text() const {
    return fmt::format("{}x{}x{}x{} width {}/{} mask {} safe {} late {} across {} drops {} sharing {}", batch, heads,
                       rows, keys, width, values, static_cast<int>(mask), is_safe, divides_late, across, drops,
                       sharing);
  }
};

/// What an attention is made of; `output` is its result.
struct Built {
  Operand scores, powers, output;
};

Operand heads_of(TestProgram& t, const Shape& s, std::int64_t rows, std::int64_t width, bool is_shared) {
  const std::int64_t heads = is_shared ? s.heads / s.sharing : s.heads;
  const Operand made = s.across ? permuted(t.input(s.dtype, {s.batch, rows, heads, width}), {0, 2, 1, 3})
                                : t.input(s.dtype, {s.batch, heads, rows, width});
  if (!is_shared || s.sharing == 1) return made;
  Operand shared =
      made;  // [batch, heads of keys, sharing, rows, width] as [batch, heads, ...] has no strides: five dimensions stay
  shared.view.sizes = {s.batch, heads, s.sharing, rows, width};
  shared.view.strides = {made.view.strides[0], made.view.strides[1], 0, made.view.strides[2], made.view.strides[3]};
  return shared;
}

Operand masked(TestProgram& t, const Shape& s, const Operand& scores, const Sizes& sizes) {
  const Sizes plane{s.rows, s.keys};
  graph::Attributes along_rows, along_keys;
  along_rows.dims = {0};
  along_keys.dims = {1};
  const Operand nothing = t.scalar(-std::numeric_limits<double>::infinity());
  switch (s.mask) {
    case Mask::kNone:
      return scores;
    case Mask::kCausal: {
      const Operand i = t.op(OpKind::kCoordinate, {}, plane, DType::kI32, along_rows),
                    j = t.op(OpKind::kCoordinate, {}, plane, DType::kI32, along_keys);
      const Operand seen = t.op(OpKind::kLessEqual, {j, i}, plane, DType::kBool);
      return t.op(OpKind::kSelect, {expanded(seen, sizes), scores, nothing}, sizes, s.dtype);
    }
    case Mask::kAdded:
      return t.op(OpKind::kAdd, {scores, expanded(t.input(s.dtype, plane), sizes)}, sizes, s.dtype);
    case Mask::kBool: {
      Sizes broadcast(sizes.size(), 1);
      broadcast.front() = s.batch;
      broadcast.back() = s.keys;
      return t.op(OpKind::kSelect, {expanded(t.input(DType::kBool, broadcast), sizes), scores, nothing}, sizes,
                  s.dtype);
    }
  }
  return scores;
}

Built attention(TestProgram& t, const Shape& s) {
  Sizes batch{s.batch, s.heads};
  if (s.sharing > 1) batch = {s.batch, s.heads / s.sharing, s.sharing};
  const auto with = [&](std::int64_t a, std::int64_t b) {
    Sizes sizes = batch;
    sizes.insert(sizes.end(), {a, b});
    return sizes;
  };
  Operand query = heads_of(t, s, s.rows, s.width, false);
  if (s.sharing > 1) query = t.input(s.dtype, with(s.rows, s.width));
  const Operand key = heads_of(t, s, s.keys, s.width, true), value = heads_of(t, s, s.keys, s.values, true);
  std::vector<std::size_t> swapped;
  for (std::size_t d = 0; d < batch.size(); ++d) swapped.push_back(d);
  swapped.insert(swapped.end(), {batch.size() + 1, batch.size()});
  graph::Attributes scale;
  scale.alpha = 0.37;
  Built built;
  const Sizes sizes = with(s.rows, s.keys), rows = with(s.rows, 1), out = with(s.rows, s.values);
  const auto last = static_cast<std::int64_t>(sizes.size()) - 1;
  built.scores = t.op(OpKind::kMatMul, {query, permuted(key, swapped)}, sizes, s.dtype, scale);
  const Operand seen = masked(t, s, built.scores, sizes);
  Operand top = t.reduce(OpKind::kReduceMax, seen, {last});
  if (s.is_safe) {
    const Operand none =
        t.op(OpKind::kEqual, {top, t.scalar(-std::numeric_limits<double>::infinity())}, rows, DType::kBool);
    top = t.op(OpKind::kSelect, {none, t.scalar(0), top}, rows, s.dtype);
  }
  built.powers =
      t.op(OpKind::kExp, {t.op(OpKind::kSubtract, {seen, expanded(top, sizes)}, sizes, s.dtype)}, sizes, s.dtype);
  Operand total = t.reduce(OpKind::kReduceSum, built.powers, {last});
  if (s.is_safe) {
    const Operand none = t.op(OpKind::kEqual, {total, t.scalar(0)}, rows, DType::kBool);
    total = t.op(OpKind::kSelect, {none, t.scalar(1), total}, rows, s.dtype);
  }
  Operand left = built.powers;
  if (!s.divides_late) left = t.op(OpKind::kDivide, {left, expanded(total, sizes)}, sizes, s.dtype);
  if (s.drops) left = t.op(OpKind::kMultiply, {left, t.input(s.dtype, sizes)}, sizes, s.dtype);
  built.output = t.op(OpKind::kMatMul, {left, value}, out, s.dtype);
  if (s.divides_late) built.output = t.op(OpKind::kDivide, {built.output, expanded(total, out)}, out, s.dtype);
  t.keep(built.output);
  return built;
}

Schedule scheduled(const TestProgram& t, const Options& options = {}) {
  Result<Schedule> made = schedule(t.program, options);
  EXPECT_TRUE(made) << made.error().message;
  return made ? *std::move(made) : Schedule();
}

const Step* step_with(const Schedule& schedule, OpId op) {
  const auto found =
      std::ranges::find_if(schedule.steps, [&](const Step& step) { return std::ranges::count(step.ops, op) > 0; });
  return found == schedule.steps.end() ? nullptr : &*found;
}

bool is_one_step(const TestProgram& t, const Schedule& schedule, const Operand& a, const Operand& b) {
  return step_with(schedule, t.program.values[a.value].producer) ==
         step_with(schedule, t.program.values[b.value].producer);
}

TEST(Attention, IsOneStepWithoutScoresInMemory) {
  for (const Mask mask : {Mask::kNone, Mask::kCausal, Mask::kAdded, Mask::kBool}) {
    for (const bool late : {true, false}) {
      TestProgram t;
      const Built built = attention(t, {.mask = mask, .is_safe = mask != Mask::kNone, .divides_late = late});
      const Schedule made = scheduled(t);
      EXPECT_TRUE(is_one_step(t, made, built.scores, built.powers));
      EXPECT_FALSE(made.materialized[built.scores.value]);
      EXPECT_FALSE(made.materialized[built.powers.value]);
      const std::size_t steps =
          (late ? 2 : 1) + (mask == Mask::kCausal ? 1 : 0);  // a plane for all heads says what is seen
      EXPECT_EQ(made.steps.size(), steps);
    }
  }
}

/// Rows, keys and widths around the edges of tiles, panels and chunks.
Shape random_shape(std::mt19937_64& random) {
  const auto pick = [&](std::initializer_list<std::int64_t> list) { return list.begin()[random() % list.size()]; };
  Shape s;
  s.batch = pick({1, 2, 3});
  s.heads = pick({1, 2, 4});
  s.rows = pick({1, 2, 5, 11, 12, 13, 24, 31, 47, 97});
  s.keys = pick({2, 3, 15, 16, 17, 31, 32, 33, 67, 255, 256, 257, 300});
  s.width = pick({1, 3, 8, 16, 17, 33, 64});
  s.values = pick({1, 4, 15, 16, 17, 32, 40});
  s.mask = static_cast<Mask>(random() % 4);
  if (s.mask == Mask::kCausal) s.keys = std::max<std::int64_t>(s.rows, 2);
  s.is_safe = s.mask == Mask::kBool || random() % 2 == 0;
  s.divides_late = random() % 2 == 0;
  s.across = random() % 2 == 0;
  s.drops = random() % 4 == 0;
  s.sharing = s.heads > 1 && random() % 4 == 0 ? 2 : 1;
  s.dtype = random() % 5 == 0 ? DType::kF64 : DType::kF32;
  return s;
}

void compare_random(std::uint64_t seed, int count, Numerics numerics, Executors executors) {
  if (executors == Executors::kCompiledAndInterpreted && HostKernels::compiler().empty()) GTEST_SKIP() << "no clang";
  std::mt19937_64 random(seed);
  std::deque<TestProgram> programs;
  std::vector<const TestProgram*> list;
  int fused = 0;
  for (int i = 0; i < count; ++i) {
    const Shape shape = random_shape(random);
    TestProgram& t = programs.emplace_back(seed + static_cast<std::uint64_t>(i));
    const Built built = attention(t, shape);
    const Schedule made = scheduled(t, {.claims = {}, .numerics = numerics, .device = {}});
    fused += made.materialized[built.scores.value] ? 0 : 1;
    list.push_back(&t);
  }
  EXPECT_GT(fused, count / 2) << "most are one step";
  for (const std::string& failure : run_and_compare(list, nullptr, numerics, executors)) ADD_FAILURE() << failure;
}

TEST(Attention, HasTheSameBitsFusedUnfusedAndInterpretedWhenStrict) {
  compare_random(1, 12, Numerics::kStrict, Executors::kCompiledAndInterpreted);
  compare_random(2, 16, Numerics::kStrict, Executors::kInterpreted);
}

TEST(Attention, AgreesWithTheReferenceWhenFast) {
  compare_random(3, 8, Numerics::kFast, Executors::kCompiledAndInterpreted);
  compare_random(4, 8, Numerics::kFast, Executors::kInterpreted);
}

// ---- what is refused, and what is bounded ----

/// Why the product that makes the scores is no part of the softmax's step.
Apart why_apart(const TestProgram& t, const Built& built, const Options& options) {
  const Schedule made = scheduled(t, options);
  const auto step_of = [&](const Operand& operand) {
    return static_cast<std::uint32_t>(step_with(made, t.program.values[operand.value].producer) - made.steps.data());
  };
  const std::uint32_t product = step_of(built.scores), group = step_of(built.powers);
  EXPECT_NE(product, group);
  for (const Explanation::Beside& beside : explain(t.program, made, group).apart) {
    if (beside.step == product) return beside.apart;
  }
  ADD_FAILURE() << "the two steps are not beside each other";
  return Apart::kNot;
}

TEST(Attention, SaysWhyItStaysApart) {
  TestProgram rows, again, few, many;
  EXPECT_EQ(why_apart(rows, attention(rows, {.batch = 1, .heads = 2, .rows = 4, .keys = 70000}), {}), Apart::kScratch);
  EXPECT_EQ(
      why_apart(again,
                attention(again, {.batch = 1, .heads = 1, .rows = 600, .keys = 20000, .width = 400, .values = 400}),
                {}),
      Apart::kNoGain);
  const Options library{.claims = [](const LibraryCall& call) { return call.kind == LibraryKind::kMatMul; }};
  EXPECT_EQ(why_apart(few, attention(few, {}), library), Apart::kLibrary);
  const Built built = attention(many, {.batch = 2, .heads = 4, .rows = 1024, .keys = 1024, .width = 4});
  EXPECT_TRUE(is_one_step(many, scheduled(many, library), built.scores, built.powers))
      << "many scores cost more than a library saves";
  EXPECT_NE(words(Apart::kScratch), words(Apart::kNoGain));
}

TEST(Attention, StaysApartWhereAPathReturns) {
  TestProgram t;
  const Sizes sizes{2, 24, 24};
  const Operand query = t.input(DType::kF32, sizes), key = t.input(DType::kF32, sizes);
  const Operand scores = t.op(OpKind::kMatMul, {query, key}, sizes), powers = t.op(OpKind::kExp, {scores}, sizes);
  const Operand around = t.op(OpKind::kMatMul, {key, powers}, sizes);  // reads all rows of what the group makes
  const Operand output = t.op(OpKind::kMatMul, {powers, around}, sizes);
  t.keep(output);
  const Schedule made = scheduled(t);
  EXPECT_TRUE(is_one_step(t, made, scores, scores));
  EXPECT_FALSE(is_one_step(t, made, scores, output));
  EXPECT_TRUE(check_schedule(t.program, made));
}

TEST(Attention, KeepsItsScratchWithinBounds) {
  for (const std::int64_t keys : {17, 1000, 4096, 15000}) {
    for (const DType dtype : {DType::kF32, DType::kF64}) {
      TestProgram t;
      const Built built = attention(t, {.batch = 1, .heads = 2, .rows = 33, .keys = keys, .dtype = dtype});
      const Schedule made = scheduled(t);
      ASSERT_TRUE(is_one_step(t, made, built.scores, built.powers));
      const Step& step = *step_with(made, t.program.values[built.scores.value].producer);
      const Result<KernelIr> kernel = read_ir(made.kernels[step.kernel].ir);
      ASSERT_TRUE(kernel);
      std::int64_t bytes = 0;
      for (const IrArray& array : kernel->arrays)
        bytes += array.size * static_cast<std::int64_t>(size_bytes(array.type));
      EXPECT_LE(bytes, most_scratch_bytes({}) + 256 * 1024) << keys << " keys: scores, and what a product copies";
    }
  }
}

TEST(Attention, IsSmallOnDevicesWithManyItems) {
  TestProgram few, many;
  const Options options{.claims = {}, .device = {.workers = 10000, .register_bytes = 1020}};
  const Built small = attention(few, {.batch = 1, .heads = 2, .rows = 32, .keys = 500}),
              large = attention(many, {.batch = 1, .heads = 2, .rows = 32, .keys = 9000});
  EXPECT_TRUE(is_one_step(few, scheduled(few, options), small.scores, small.powers));
  EXPECT_FALSE(is_one_step(many, scheduled(many, options), large.scores, large.powers));
}

// ---- gradients ----

/// An attention and the gradients of queries, keys and values, as frontends/aten/attention/attention.cpp writes them.
/// Ops from the first of the gradient on are of the backward pass.
struct Training {
  TestProgram t;
  Built built;
  Operand query_gradient, key_gradient, value_gradient;
  graph::OpId first_later = 0;

  Training(const Shape& s, std::uint64_t seed) : t(seed) {
    const Sizes sizes{s.batch, s.heads, s.rows, s.keys}, rows{s.batch, s.heads, s.rows, 1};
    const std::vector<std::size_t> swapped{0, 1, 3, 2};
    built = attention(t, s);
    const graph::Program& p = t.program;
    const Operand query = p.ops[p.values[built.scores.value].producer].inputs[0];
    const Operand key = permuted(p.ops[p.values[built.scores.value].producer].inputs[1], swapped);
    Operand product = built.output, total;
    if (s.divides_late) {
      const graph::Op& divide = p.ops[p.values[built.output.value].producer];
      product = divide.inputs[0];
      total = expanded(reshaped_total(divide.inputs[1], rows), sizes);
    }
    const Operand value = p.ops[p.values[product.value].producer].inputs[1];
    Operand probabilities = p.ops[p.values[product.value].producer].inputs[0];
    first_later = static_cast<OpId>(p.ops.size());
    const Operand gradient = t.input(s.dtype, {s.batch, s.heads, s.rows, s.values});
    if (s.divides_late) probabilities = t.op(OpKind::kDivide, {built.powers, total}, sizes, s.dtype);
    const Operand inner = t.reduce(
        OpKind::kReduceSum, t.op(OpKind::kMultiply, {gradient, built.output}, gradient.view.sizes, s.dtype), {3});
    const Operand slope = t.op(OpKind::kMatMul, {gradient, permuted(value, swapped)}, sizes, s.dtype);
    const Operand ds =
        t.op(OpKind::kMultiply,
             {probabilities, t.op(OpKind::kSubtract, {slope, expanded(inner, sizes)}, sizes, s.dtype)}, sizes, s.dtype);
    const Operand scaled = t.op(OpKind::kMultiply, {ds, t.scalar(0.37)}, sizes, s.dtype);
    query_gradient = t.op(OpKind::kMatMul, {scaled, key}, query.view.sizes, s.dtype);
    key_gradient = t.op(OpKind::kMatMul, {permuted(scaled, swapped), query}, key.view.sizes, s.dtype);
    value_gradient = t.op(OpKind::kMatMul, {permuted(probabilities, swapped), gradient}, value.view.sizes, s.dtype);
    for (const Operand& made : {query_gradient, key_gradient, value_gradient}) t.keep(made);
    t.program.sources.assign(2, {});
    t.program.sources[1].phase = graph::Phase::kBackward;
    for (OpId op = 0; op < t.program.ops.size(); ++op) t.program.ops[op].source = op < first_later ? 0 : 1;
  }

 private:
  /// A row's operand that was expanded, as a row again.
  static Operand reshaped_total(Operand operand, const Sizes& rows) {
    operand.view.sizes = rows;
    operand.view.strides.back() = 0;
    return operand;
  }
};

/// With the program that recompute_scores() makes of it, whose new values have no bytes yet.
TestProgram restated(const Training& training, Numerics numerics) {
  TestProgram t = training.t;
  auto changed = recompute_scores(t.program, {.claims = {}, .numerics = numerics, .device = {}}, 1);
  EXPECT_TRUE(changed) << "scores are computed again";
  if (changed) t.program = *std::move(changed);
  t.values.resize(t.program.values.size());
  return t;
}

std::vector<graph::Bytes> interpreted(const TestProgram& t, bool fuse) {
  const Schedule made = scheduled(t, {.claims = {}, .fuse = fuse, .numerics = Numerics::kStrict, .device = {}});
  const auto interpreter = ScheduleInterpreter::create(t.program, made);
  EXPECT_TRUE(interpreter);
  auto got = interpreter->run(t.program, made, t.values, t.slots, {}, false);
  EXPECT_TRUE(got) << got.error().message;
  return *std::move(got);
}

TEST(RecomputeScores, LeavesNoScoresInMemory) {
  for (const Mask mask : {Mask::kNone, Mask::kCausal, Mask::kAdded}) {
    const Training training({.rows = 48, .keys = 48, .mask = mask, .is_safe = mask != Mask::kNone}, 7);
    const TestProgram t = restated(training, Numerics::kFast);
    ASSERT_TRUE(graph::verify(t.program)) << graph::verify(t.program).error().message;
    const Schedule made = scheduled(t);
    for (graph::ValueId value = 0; value < t.program.values.size(); ++value) {
      EXPECT_FALSE(made.materialized[value] && t.program.values[value].elements == 2 * 3 * 48 * 48)
          << "value " << value;
    }
    EXPECT_TRUE(is_one_step(t, made, training.key_gradient, training.value_gradient))
        << "keys and values share their scores";
  }
}

TEST(RecomputeScores, KeepsSmallScores) {
  const Training training({.rows = 48, .keys = 48}, 7);
  EXPECT_FALSE(recompute_scores(training.t.program, {}));
}

TEST(RecomputeScores, KeepsStrictBits) {
  std::mt19937_64 random(5);
  for (int i = 0; i < 12; ++i) {
    Shape shape = random_shape(random);
    shape.sharing = 1;
    shape.drops = false;
    shape.batch = 4;  // fewer small ones are not joined: many rows would become few items
    shape.rows = std::max<std::int64_t>(shape.rows, 11);
    shape.keys = shape.mask == Mask::kCausal ? shape.rows : std::max<std::int64_t>(shape.keys, 31);
    shape.width = shape.values = std::min<std::int64_t>(shape.width, 8);
    SCOPED_TRACE(shape.text());
    const Training training(shape, 100 + static_cast<std::uint64_t>(i));
    const TestProgram t = restated(training, Numerics::kStrict);
    ASSERT_TRUE(graph::verify(t.program)) << graph::verify(t.program).error().message;
    const auto kept = interpreted(training.t, false), again = interpreted(t, true);
    for (const Operand& made :
         {training.built.output, training.query_gradient, training.key_gradient, training.value_gradient}) {
      EXPECT_EQ(kept[made.value], again[made.value]) << shape.text() << ": value " << made.value;
    }
  }
}

TEST(RecomputeScores, RunsAsItsReferenceDoes) {
  std::deque<TestProgram> programs;
  std::vector<const TestProgram*> list;
  std::mt19937_64 random(9);
  for (int i = 0; i < 6; ++i) {
    Shape shape = random_shape(random);
    shape.sharing = 1;
    shape.drops = false;
    shape.batch = 4;  // fewer small ones are not joined: many rows would become few items
    shape.rows = std::max<std::int64_t>(shape.rows, 11);
    shape.keys = shape.mask == Mask::kCausal ? shape.rows : std::max<std::int64_t>(shape.keys, 31);
    shape.width = shape.values = std::min<std::int64_t>(shape.width, 8);
    SCOPED_TRACE(shape.text());
    list.push_back(
        &programs.emplace_back(restated(Training(shape, 200 + static_cast<std::uint64_t>(i)), Numerics::kStrict)));
  }
  for (const std::string& failure : run_and_compare(list, nullptr, Numerics::kStrict, Executors::kInterpreted))
    ADD_FAILURE() << failure;
  if (HostKernels::compiler().empty()) GTEST_SKIP() << "no clang";
  for (const std::string& failure : run_and_compare(list, nullptr, Numerics::kStrict)) ADD_FAILURE() << failure;
}

}  // namespace
}  // namespace crucible::kernel
