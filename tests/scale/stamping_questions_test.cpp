// Questions that look alike and are not, for core/kernel/fuse/group_stamps.hpp: two programs whose groups have the same
// loops and share the same values, but of which one may be joined and the other may not, or becomes another group. One
// that knows the answer for the first must not give it to the second.
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "core/kernel/stamps.hpp"
#include "core/kernel/testing/test_program.hpp"

namespace crucible::kernel {
namespace {

using graph::Operand;
using graph::OpKind;

/// Kernels and steps as words.
std::vector<std::string> schedule_of(const TestProgram& test, Stamps& stamps) {
  Options options{.claims = {}, .device = {}};
  options.stamps = &stamps;
  const auto made = schedule(test.program, options);
  EXPECT_TRUE(made) << made.error().message;
  std::vector<std::string> words;
  if (!made) return words;
  for (const Step& step : made->steps) {
    std::string text = made->kernels[step.kernel].name;
    for (const BufferArgument& buffer : step.buffers) text += " " + std::to_string(buffer.value);
    words.push_back(text);
  }
  return words;
}

/// The second has its own schedule whether the first was scheduled before it or not. Returns how many steps each has.
std::pair<std::size_t, std::size_t> expect_own_answers(const TestProgram& first, const TestProgram& second) {
  Stamps known, nothing(false);
  const auto before = schedule_of(first, known);
  const auto want = schedule_of(second, nothing), got = schedule_of(second, known);
  EXPECT_EQ(want, got);
  return {before.size(), want.size()};
}

TEST(GroupStamps, TellOpsInAnotherOrderApart) {
  // Two chains over x of equal content but for the operand that the second op of the first one broadcasts; one after
  // the other, or in turns.
  const auto make = [](bool in_turns) {
    TestProgram t;
    const Operand x = t.input(DType::kF32, {8, 16}), row = expanded(t.input(DType::kF32, {1, 16}), {8, 16});
    const Operand a = t.op(OpKind::kNegate, {x}, {8, 16});
    Operand b = in_turns ? t.op(OpKind::kExp, {x}, {8, 16}) : x;
    const Operand a2 = t.op(OpKind::kAdd, {a, row}, {8, 16});
    if (!in_turns) b = t.op(OpKind::kExp, {x}, {8, 16});
    t.keep(a2);
    t.keep(t.op(OpKind::kTanh, {b}, {8, 16}));
    return t;
  };
  const auto [first, second] = expect_own_answers(make(false), make(true));
  EXPECT_EQ(first, 1u);
  EXPECT_EQ(second, 1u);
  expect_own_answers(make(true), make(false));
}

TEST(GroupStamps, TellSharedValuesApart) {
  // Two sums of two operands each: of the same two, or of one that both have and others.
  const auto make = [](bool same) {
    TestProgram t;
    const Operand x = t.input(DType::kF32, {64}), y = t.input(DType::kF32, {64}), z = t.input(DType::kF32, {64});
    t.keep(t.op(OpKind::kAdd, {x, y}, {64}));
    t.keep(t.op(OpKind::kAdd, {x, same ? y : z}, {64}));
    return t;
  };
  expect_own_answers(make(true), make(false));
  expect_own_answers(make(false), make(true));
}

TEST(GroupStamps, TellWhatIsMadeHereFromWhatComesFromOutside) {
  // Large operands that other units make would wait for each other; those from outside lie there anyway.
  const auto make = [](bool made) {
    TestProgram t;
    const Operand w = t.input(DType::kF32, {64, 64});
    std::vector<Operand> x;
    for (int i = 0; i < 12; ++i) {
      const Operand from = t.input(DType::kF32, {64, 64});
      x.push_back(made ? t.op(OpKind::kMatMul, {from, w}, {64, 64}) : from);
    }
    Operand total = x[0];
    for (std::size_t i = 1; i < x.size(); ++i) total = t.op(OpKind::kAdd, {total, x[i]}, {64, 64});
    t.keep(total);
    return t;
  };
  const auto [first, second] = expect_own_answers(make(false), make(true));
  EXPECT_EQ(first, 1u);
  EXPECT_GT(second, 13u) << "twelve products, and more than one kernel for the sum";
}

TEST(GroupStamps, TellProductsOfManyMatricesApart) {
  // One along and one across: joined where they are running sums, not where they are products.
  const auto make = [](bool products) {
    TestProgram t;
    graph::Attributes along;
    along.dims = {2};
    const auto scores = [&] {
      const Operand x = t.input(DType::kF32, {2, 32, 32});
      return products ? t.op(OpKind::kMatMul, {x, x}, {2, 32, 32})
                      : t.op(OpKind::kScanSum, {x}, {2, 32, 32}, DType::kF32, along);
    };
    const Operand a = t.op(OpKind::kNegate, {scores()}, {2, 32, 32});
    const Operand b = t.op(OpKind::kExp, {permuted(scores(), {0, 2, 1})}, {2, 32, 32});
    t.keep(t.op(OpKind::kAdd, {a, b}, {2, 32, 32}));
    return t;
  };
  const auto [first, second] = expect_own_answers(make(false), make(true));
  EXPECT_EQ(first, 3u);
  EXPECT_GT(second, 3u);
}

TEST(LaunchStamps, TellWhatOthersNeedApart) {
  // One unit of three ops, of which others need the last and one of the first two.
  const auto make = [](bool first) {
    TestProgram t;
    const Operand x = t.input(DType::kF32, {64});
    const Operand a = t.op(OpKind::kNegate, {x}, {64}), b = t.op(OpKind::kExp, {x}, {64});
    t.keep(t.op(OpKind::kAdd, {a, b}, {64}));
    t.keep(first ? a : b);
    return t;
  };
  const auto [first, second] = expect_own_answers(make(true), make(false));
  EXPECT_EQ(first, 1u);
  EXPECT_EQ(second, 1u);
}

}  // namespace
}  // namespace crucible::kernel
