// Epilogues of a library's products: which ops they take, what stays, and that the checker of schedules sees one that
// is not what the ops do.
#include "core/kernel/fuse/library_epilogue.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "core/kernel/schedule_check.hpp"
#include "core/kernel/testing/test_program.hpp"

namespace crucible::kernel {
namespace {

using graph::OpKind;
using graph::Operand;
using ::testing::HasSubstr;

constexpr std::int64_t kRows = 6, kInner = 5, kColumns = 7;

Operand product(TestProgram& t, DType type = DType::kF32) {
  return t.op(OpKind::kMatMul, {t.input(type, {kRows, kInner}), t.input(type, {kInner, kColumns})}, {kRows, kColumns},
              type);
}
Operand with_bias(TestProgram& t, const Operand& x, const Operand& bias) {
  return t.op(OpKind::kAdd, {x, expanded(bias, {kRows, kColumns})}, {kRows, kColumns});
}
Operand relu(TestProgram& t, const Operand& x) { return t.op(OpKind::kMaximum, {x, t.scalar(0)}, {kRows, kColumns}); }
Operand binary(TestProgram& t, OpKind kind, const Operand& x, const Operand& y) {
  return t.op(kind, {x, y}, {kRows, kColumns});
}

/// As frontends/aten lowers it.
Operand gelu(TestProgram& t, const Operand& x, double cubic = 0.044715) {
  const Operand cube = binary(t, OpKind::kMultiply, binary(t, OpKind::kMultiply, x, x), x);
  const Operand inner = binary(t, OpKind::kAdd, x, binary(t, OpKind::kMultiply, cube, t.scalar(cubic)));
  const Operand tanh =
      t.op(OpKind::kTanh, {binary(t, OpKind::kMultiply, inner, t.scalar(0.79788456080286535588))}, {kRows, kColumns});
  const Operand half = binary(t, OpKind::kMultiply, binary(t, OpKind::kAdd, tanh, t.scalar(1)), t.scalar(0.5));
  return binary(t, OpKind::kMultiply, x, half);
}

/// A library that takes every product, and these epilogues.
Schedule scheduled(const TestProgram& t,
                   std::vector<LibraryEpilogue> taken = {LibraryEpilogue::kBias, LibraryEpilogue::kBiasRelu,
                                                         LibraryEpilogue::kBiasGelu},
                   Numerics numerics = Numerics::kFast) {
  const auto claims = [&](const LibraryCall& call) {
    return call.epilogue == LibraryEpilogue::kNone || std::ranges::find(taken, call.epilogue) != taken.end();
  };
  auto made = schedule(t.program, {.claims = claims, .numerics = numerics});
  EXPECT_TRUE(made) << made.error().message;
  const auto checked = check_schedule(t.program, *made);
  EXPECT_TRUE(checked) << checked.error().message;
  return *std::move(made);
}

/// Of the one step that is a library's.
const Step& library_step(const Schedule& schedule) {
  const auto found = std::ranges::find(schedule.steps, StepKind::kLibrary, &Step::kind);
  EXPECT_NE(found, schedule.steps.end());
  return *found;
}

TEST(LibraryEpilogue, TakesTheBias) {
  TestProgram t;
  const Operand bias = t.input(DType::kF32, {kColumns});
  const Operand y = with_bias(t, product(t), bias);
  t.keep(y);
  const Schedule made = scheduled(t);
  ASSERT_EQ(made.steps.size(), 1u);
  const Step& step = made.steps[0];
  EXPECT_EQ(step.library.epilogue, LibraryEpilogue::kBias);
  ASSERT_EQ(step.buffers.size(), 4u);
  EXPECT_EQ(step.buffers[2].value, y.value);
  EXPECT_TRUE(step.buffers[2].written);
  EXPECT_EQ(step.buffers[3].value, bias.value);
  EXPECT_EQ(step.library.extra.sizes, std::vector<std::int64_t>{kColumns});
}

TEST(LibraryEpilogue, TakesTheActivationToo) {
  for (const LibraryEpilogue wanted : {LibraryEpilogue::kBiasRelu, LibraryEpilogue::kBiasGelu}) {
    TestProgram t;
    const Operand x = with_bias(t, product(t), t.input(DType::kF32, {kColumns}));
    const Operand y = wanted == LibraryEpilogue::kBiasRelu ? relu(t, x) : gelu(t, x);
    t.keep(y);
    const Schedule made = scheduled(t);
    ASSERT_EQ(made.steps.size(), 1u);
    EXPECT_EQ(made.steps[0].library.epilogue, wanted);
    EXPECT_EQ(made.steps[0].buffers[2].value, y.value);
    // A library that has biases alone gets those, and the rest is a kernel.
    const Schedule less = scheduled(t, {LibraryEpilogue::kBias});
    ASSERT_EQ(less.steps.size(), 2u);
    EXPECT_EQ(library_step(less).library.epilogue, LibraryEpilogue::kBias);
    EXPECT_EQ(scheduled(t, {}).steps.size(), 2u);
    EXPECT_EQ(library_step(scheduled(t, {})).library.epilogue, LibraryEpilogue::kNone);
  }
}

TEST(LibraryEpilogue, LeavesTheActivationOfWhatIsReadElsewhere) {
  TestProgram t;
  const Operand x = with_bias(t, product(t), t.input(DType::kF32, {kColumns}));
  t.keep(relu(t, x));
  t.keep(binary(t, OpKind::kMultiply, x, x));
  const Schedule made = scheduled(t);
  EXPECT_EQ(library_step(made).library.epilogue, LibraryEpilogue::kBias);
  EXPECT_EQ(library_step(made).buffers[2].value, x.value);
}

TEST(LibraryEpilogue, OfHalvesTakesTheConversionsBetween) {
  for (const bool is_shared : {false, true}) {
    TestProgram t;
    const auto copy = [&](const Operand& x, const Sizes& sizes, DType type) {
      return t.op(OpKind::kCopy, {x}, sizes, type);
    };
    const Sizes all = {kRows, kColumns};
    const Operand bias = t.input(DType::kBF16, {kColumns});
    const Operand wide_bias = copy(bias, {kColumns}, DType::kF32);
    const Operand sum = with_bias(t, copy(product(t, DType::kBF16), all, DType::kF32), wide_bias);
    const Operand y = copy(relu(t, copy(copy(sum, all, DType::kBF16), all, DType::kF32)), all, DType::kBF16);
    t.keep(y);
    if (is_shared) t.keep(wide_bias);  // then it has to lie in memory, which the library does not do
    const Schedule made = scheduled(t);
    const Step& step = library_step(made);
    EXPECT_EQ(step.library.epilogue, is_shared ? LibraryEpilogue::kNone : LibraryEpilogue::kBiasRelu);
    if (is_shared) continue;
    EXPECT_EQ(made.steps.size(), 1u);
    EXPECT_EQ(step.ops.size(), 8u);
    EXPECT_EQ(step.buffers[2].value, y.value);
    EXPECT_EQ(step.buffers[3].value, bias.value);
  }
}

/// As frontends/aten lowers a linear layer of halves: one rounding, behind the bias. A library that has biases rounds
/// there, too; one that has none is asked for f32.
TEST(LibraryEpilogue, OfHalvesThatKeepF32) {
  for (const bool is_activated : {false, true}) {
    TestProgram t;
    const auto copy = [&](const Operand& x, const Sizes& sizes, DType type) {
      return t.op(OpKind::kCopy, {x}, sizes, type);
    };
    const Sizes all = {kRows, kColumns};
    const Operand bias = t.input(DType::kF16, {kColumns});
    const Operand summed =
        t.op(OpKind::kMatMul, {t.input(DType::kF16, {kRows, kInner}), t.input(DType::kF16, {kInner, kColumns})}, all,
             DType::kF32);
    Operand y = copy(with_bias(t, summed, copy(bias, {kColumns}, DType::kF32)), all, DType::kF16);
    if (is_activated) y = copy(gelu(t, copy(y, all, DType::kF32)), all, DType::kF16);
    t.keep(y);
    const Schedule made = scheduled(t);
    ASSERT_EQ(made.steps.size(), 1u);
    EXPECT_EQ(made.steps[0].library.epilogue, is_activated ? LibraryEpilogue::kBiasGelu : LibraryEpilogue::kBias);
    EXPECT_FALSE(made.steps[0].library.keeps_f32);
    EXPECT_EQ(made.steps[0].library.dtype, DType::kF16);
    EXPECT_EQ(made.steps[0].buffers[3].value, bias.value);
    const Schedule without = scheduled(t, {});
    EXPECT_EQ(library_step(without).library.epilogue, LibraryEpilogue::kNone);
    EXPECT_TRUE(library_step(without).library.keeps_f32);
  }
}

TEST(LibraryEpilogue, ConvertsAParametersBiasBeforeTheProductWhereALaunchGoesForIt) {
  for (const bool has_relu : {true, false}) {
    TestProgram t;
    const auto copy = [&](const Operand& x, const Sizes& sizes, DType type) {
      return t.op(OpKind::kCopy, {x}, sizes, type);
    };
    const Sizes all = {kRows, kColumns};
    const Operand x = product(t, DType::kBF16);
    const Operand bias =
        copy(t.input(DType::kF32, {kColumns}), {kColumns}, DType::kBF16);  // in a group behind the product
    const Operand sum =
        copy(with_bias(t, copy(x, all, DType::kF32), copy(bias, {kColumns}, DType::kF32)), all, DType::kBF16);
    const Operand wide = copy(sum, all, DType::kF32);
    t.keep(has_relu ? copy(relu(t, wide), all, DType::kBF16) : binary(t, OpKind::kMultiply, wide, wide));
    const Schedule made = scheduled(t);
    EXPECT_LE(made.steps.size(), scheduled(t, {}).steps.size());
    EXPECT_EQ(library_step(made).library.epilogue, has_relu ? LibraryEpilogue::kBiasRelu : LibraryEpilogue::kBias);
    EXPECT_EQ(library_step(made).buffers.back().value, bias.value);
    EXPECT_EQ(made.steps[0].ops, std::vector<graph::OpId>{1}) << "the conversion comes first";
  }
  // One that is made of something made stays where it is.
  TestProgram t;
  const Operand x = product(t);
  t.keep(with_bias(
      t, x, t.op(OpKind::kCopy, {t.op(OpKind::kExp, {t.input(DType::kF32, {kColumns})}, {kColumns})}, {kColumns})));
  EXPECT_EQ(library_step(scheduled(t)).library.epilogue, LibraryEpilogue::kNone);
}

TEST(LibraryEpilogue, LeavesTheGroupsThatItsOpsWereIn) {
  TestProgram t;
  const Operand x = with_bias(t, product(t), t.input(DType::kF32, {kColumns}));
  const Operand total = t.reduce(OpKind::kReduceSum, x, {1});
  t.keep(binary(t, OpKind::kDivide, x, expanded(total, {kRows, kColumns})));
  const Schedule made = scheduled(t);
  ASSERT_EQ(made.steps.size(), 2u);
  EXPECT_EQ(made.steps[0].library.epilogue, LibraryEpilogue::kBias);
  EXPECT_EQ(made.steps[1].ops.size(), 2u);
  EXPECT_TRUE(made.materialized[x.value]);
}

TEST(LibraryEpilogue, IsNotWhatLooksLikeOne) {
  const auto epilogue_of = [](const std::function<void(TestProgram&)>& write, Numerics numerics = Numerics::kFast) {
    TestProgram t;
    write(t);
    const Schedule made =
        scheduled(t, {LibraryEpilogue::kBias, LibraryEpilogue::kBiasRelu, LibraryEpilogue::kBiasGelu}, numerics);
    const auto found = std::ranges::find(made.steps, StepKind::kLibrary, &Step::kind);
    return found == made.steps.end() ? LibraryEpilogue::kNone : found->library.epilogue;
  };
  const auto biased = [](TestProgram& t) { return with_bias(t, product(t), t.input(DType::kF32, {kColumns})); };
  EXPECT_EQ(epilogue_of([&](TestProgram& t) { t.keep(biased(t)); }), LibraryEpilogue::kBias);
  EXPECT_EQ(epilogue_of([&](TestProgram& t) { t.keep(biased(t)); }, Numerics::kStrict), LibraryEpilogue::kNone);
  // A number per row, and a whole matrix.
  EXPECT_EQ(epilogue_of([&](TestProgram& t) { t.keep(with_bias(t, product(t), t.input(DType::kF32, {kRows, 1}))); }),
            LibraryEpilogue::kNone);
  EXPECT_EQ(
      epilogue_of([&](TestProgram& t) { t.keep(with_bias(t, product(t), t.input(DType::kF32, {kRows, kColumns}))); }),
      LibraryEpilogue::kNone);
  // The product itself is wanted.
  EXPECT_EQ(epilogue_of([&](TestProgram& t) {
              const Operand x = product(t);
              t.keep(x);
              t.keep(with_bias(t, x, t.input(DType::kF32, {kColumns})));
            }),
            LibraryEpilogue::kNone);
  // Read in another order than it lies.
  EXPECT_EQ(epilogue_of([&](TestProgram& t) {
              const Operand x = permuted(product(t), {1, 0});
              t.keep(t.op(OpKind::kAdd, {x, expanded(t.input(DType::kF32, {kRows}), {kColumns, kRows})},
                          {kColumns, kRows}));
            }),
            LibraryEpilogue::kNone);
  // Another number than 0, and one that changes.
  const auto at_least = [&](TestProgram& t, const Operand& least) {
    t.keep(t.op(OpKind::kMaximum, {biased(t), least}, {kRows, kColumns}));
  };
  EXPECT_EQ(epilogue_of([&](TestProgram& t) { at_least(t, t.scalar(1)); }), LibraryEpilogue::kBias);
  EXPECT_EQ(epilogue_of([&](TestProgram& t) { at_least(t, t.slot(0)); }), LibraryEpilogue::kBias);
  EXPECT_EQ(epilogue_of([&](TestProgram& t) { t.keep(gelu(t, biased(t), 0.0447)); }), LibraryEpilogue::kBias);
  // Made after the product.
  EXPECT_EQ(epilogue_of([&](TestProgram& t) {
              const Operand x = product(t);
              const Operand other = t.op(OpKind::kMatMul, {t.input(DType::kF32, {1, kRows}), x}, {1, kColumns});
              t.keep(with_bias(t, x, other));
            }),
            LibraryEpilogue::kNone);
  // The new state would be written before others have read the old one.
  EXPECT_EQ(epilogue_of([&](TestProgram& t) {
              const Operand start = t.state(DType::kF32, {kRows, kColumns});
              const Operand end = biased(t);
              t.end_state(start, end);
              t.keep(binary(t, OpKind::kMultiply, start, start));
            }),
            LibraryEpilogue::kNone);
}

class RandomLibraryEpilogues : public ::testing::TestWithParam<std::uint64_t> {};

/// A chain of products with biases, activations and sums, some of whose values are wanted.
TEST_P(RandomLibraryEpilogues, AreWhatTheOpsDo) {
  std::mt19937_64 random(GetParam());
  const auto chance = [&](int of) { return random() % static_cast<std::uint64_t>(of) == 0; };
  std::size_t epilogues = 0;
  for (int program = 0; program < 40; ++program) {
    TestProgram t(random());
    Operand x = t.input(DType::kF32, {kRows, kColumns});
    for (int layer = 0; layer < 6; ++layer) {
      x = t.op(OpKind::kMatMul, {x, t.input(DType::kF32, {kColumns, kColumns})}, {kRows, kColumns});
      if (!chance(6))
        x = with_bias(t, x, chance(5) ? t.input(DType::kF32, {kRows, 1}) : t.input(DType::kF32, {kColumns}));
      if (chance(5)) t.keep(x);
      if (chance(3)) x = chance(2) ? gelu(t, x) : relu(t, x);
      if (chance(4))
        x = binary(t, OpKind::kDivide, x, expanded(t.reduce(OpKind::kReduceSum, x, {1}), {kRows, kColumns}));
    }
    t.keep(x);
    const Schedule made = scheduled(t);
    epilogues += static_cast<std::size_t>(std::ranges::count_if(
        made.steps, [](const Step& step) { return step.library.epilogue != LibraryEpilogue::kNone; }));
  }
  EXPECT_GT(epilogues, 100u);
}
INSTANTIATE_TEST_SUITE_P(Seeds, RandomLibraryEpilogues, ::testing::Values(1, 2, 3, 4));

TEST(LibraryEpilogue, TheCheckerComputesWhatItDoes) {
  TestProgram t;
  const Operand other_bias = t.input(DType::kF32, {kColumns});
  t.keep(relu(t, with_bias(t, product(t), t.input(DType::kF32, {kColumns}))));
  const Schedule good = scheduled(t);
  const auto fault_of = [&](const std::function<void(Step&)>& change) -> std::string {
    Schedule bad = good;
    change(bad.steps[0]);
    const auto checked = check_schedule(t.program, bad);
    return checked ? "" : checked.error().message;
  };
  EXPECT_EQ(fault_of([](Step&) {}), "");
  EXPECT_THAT(fault_of([](Step& s) { s.library.epilogue = LibraryEpilogue::kBias; }), HasSubstr("by its ops"));
  EXPECT_THAT(fault_of([](Step& s) { s.library.epilogue = LibraryEpilogue::kBiasGelu; }), HasSubstr("by its ops"));
  EXPECT_THAT(fault_of([](Step& s) { s.library.extra.strides[0] = 0; }), HasSubstr("by its ops"));
  EXPECT_THAT(fault_of([](Step& s) { s.library.extra.sizes[0] = 1; }), HasSubstr("one number per column"));
  EXPECT_THAT(fault_of([](Step& s) { s.library.extra.offset = 1; }), HasSubstr("operand 3 leaves"));
  EXPECT_THAT(fault_of([&](Step& s) { s.buffers[3].value = other_bias.value; }),
              HasSubstr("is neither bound nor made"));
  EXPECT_THAT(fault_of([](Step& s) { s.library.epilogue = LibraryEpilogue::kNone; }), HasSubstr("4 buffers and 3 ops"));
  EXPECT_THAT(fault_of([](Step& s) { s.buffers.pop_back(); }), HasSubstr("is neither bound nor made"));
}

}  // namespace
}  // namespace crucible::kernel
