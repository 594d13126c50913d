// Which ops are one call of an attention, what the call is told, and what stays kernels for which reason.
#include "core/kernel/fuse/named_attention.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <limits>
#include <optional>
#include <utility>
#include <vector>

#include "core/kernel/fuse/explain.hpp"
#include "core/kernel/schedule_check.hpp"
#include "core/kernel/testing/test_program.hpp"

namespace crucible::kernel {
namespace {

using graph::Operand;
using graph::OpId;
using graph::OpKind;

constexpr double kInfinity = std::numeric_limits<double>::infinity();

enum class Mask { kNone, kCausal, kAdded, kBool };

/// As recordings have it: [batch, rows, 3, heads, width] in memory, products in f32, the result in [batch, rows, heads,
/// width].
struct Form {
  DType dtype = DType::kBF16;
  Mask mask = Mask::kNone;
  bool divides_late = true, is_named = true;
  DType values = DType::kBF16;
  std::vector<graph::CompositeAttribute> more = {};
  std::optional<Operand> shown = {};  // what says which keys are seen, of another layer
};

constexpr std::int64_t kBatch = 2, kHeads = 3, kRows = 5, kWidth = 8;

struct Built {
  Operand packed, scores, powers, output;
};

Operand copied(TestProgram& t, const Operand& x, DType dtype) {
  return t.program.values[x.value].dtype == dtype ? x : t.op(OpKind::kCopy, {x}, x.view.sizes, dtype);
}

/// Scores, and the mask where it is an operand.
std::pair<Operand, std::optional<Operand>> seen(TestProgram& t, const Form& form, const Operand& scores) {
  const Sizes sizes = scores.view.sizes, plane{sizes[sizes.size() - 2], kRows};
  const auto chosen = [&](const Operand& shown) {
    return t.op(OpKind::kSelect, {expanded(shown, sizes), scores, t.scalar(-kInfinity)}, sizes);
  };
  if (form.mask == Mask::kNone) return {scores, std::nullopt};
  if (form.shown) return {chosen(*form.shown), std::nullopt};
  if (form.mask == Mask::kAdded) {
    const Operand mask = t.input(DType::kF32, plane);
    return {t.op(OpKind::kAdd, {scores, expanded(mask, sizes)}, sizes), mask};
  }
  if (form.mask == Mask::kBool) {
    const Operand mask = t.input(DType::kBool, plane);
    return {chosen(mask), mask};
  }
  graph::Attributes along_rows, along_keys;
  along_rows.dims = {0};
  along_keys.dims = {1};
  const Operand i = t.op(OpKind::kCoordinate, {}, plane, DType::kI32, along_rows),
                j = t.op(OpKind::kCoordinate, {}, plane, DType::kI32, along_keys);
  return {chosen(t.op(OpKind::kLessEqual, {j, i}, plane, DType::kBool)), std::nullopt};
}

Operand guarded(TestProgram& t, const Operand& x, double marked, double instead) {
  const Operand asked = t.op(OpKind::kEqual, {x, t.scalar(marked)}, x.view.sizes, DType::kBool);
  return t.op(OpKind::kSelect, {asked, t.scalar(instead), x}, x.view.sizes);
}

graph::CompositeAttribute attribute(const char* name, double number) {
  return {name, false, {graph::Scalar{graph::kNone, false, number, 0}}};
}

Built attention(TestProgram& t, const Form& form) {
  Built built;
  built.packed = t.input(form.dtype, {kBatch, kRows, 3, kHeads, kWidth});
  const auto part = [&](std::int64_t which) {
    Operand x = built.packed;
    constexpr std::int64_t kRow = 3 * kHeads * kWidth;
    x.view = {which * kHeads * kWidth, {kBatch, kHeads, kRows, kWidth}, {kRows * kRow, kWidth, kRow, 1}};
    return x;
  };
  const Operand query = part(0), key = part(1);
  const Operand value = form.values == form.dtype ? part(2) : t.input(form.values, query.view.sizes);
  const Operand q = copied(t, query, DType::kF32), k = copied(t, key, DType::kF32), v = copied(t, value, DType::kF32);
  const Sizes sizes{kBatch, kHeads, kRows, kRows}, out{kBatch, kHeads, kRows, kWidth};
  graph::Attributes scale;
  scale.alpha = 0.25;
  built.scores = t.op(OpKind::kMatMul, {q, permuted(k, {0, 1, 3, 2})}, sizes, DType::kF32, scale);
  const auto [x, mask] = seen(t, form, built.scores);
  const bool is_masked = form.mask != Mask::kNone;
  Operand top = t.reduce(OpKind::kReduceMax, x, {3});
  if (is_masked) top = guarded(t, top, -kInfinity, 0);
  built.powers = t.op(OpKind::kExp, {t.op(OpKind::kSubtract, {x, expanded(top, sizes)}, sizes)}, sizes);
  Operand total = t.reduce(OpKind::kReduceSum, built.powers, {3});
  if (is_masked) total = guarded(t, total, 0, 1);
  Operand left = built.powers;
  if (!form.divides_late) left = t.op(OpKind::kDivide, {left, expanded(total, sizes)}, sizes);
  left = copied(t, copied(t, left, form.dtype), DType::kF32);
  built.output = t.op(OpKind::kMatMul, {left, v}, out);
  if (form.divides_late) built.output = t.op(OpKind::kDivide, {built.output, expanded(total, out)}, out);
  built.output = copied(t, built.output, form.dtype);
  t.keep(built.output);
  if (!form.is_named) return built;
  graph::Meaning meaning{"attention", {attribute("scale", 0.25)}, {}, {{"output", built.output}}};
  if (form.mask == Mask::kCausal) meaning.attributes.push_back(attribute("causal", 1));
  meaning.attributes.insert(meaning.attributes.end(), form.more.begin(), form.more.end());
  meaning.inputs = {{"query", query}, {"key", key}, {"value", value}};
  if (mask) meaning.inputs.push_back({"mask", *mask});
  t.program.meanings.push_back(std::move(meaning));
  return built;
}

bool is_attention(const LibraryCall& call) { return call.kind == LibraryKind::kAttention; }

Schedule scheduled(const TestProgram& t, const std::function<bool(const LibraryCall&)>& claims = is_attention,
                   Numerics numerics = Numerics::kFast) {
  Result<Schedule> made = schedule(t.program, {.claims = claims, .numerics = numerics, .epilogues = true});
  EXPECT_TRUE(made) << made.error().message;
  if (!made) return {};
  const Result<void> checked = check_schedule(t.program, *made);
  EXPECT_TRUE(checked) << checked.error().message;
  return *std::move(made);
}

const Step* call_of(const Schedule& schedule) {
  const auto found = std::ranges::find(schedule.steps, StepKind::kLibrary, &Step::kind);
  return found == schedule.steps.end() ? nullptr : &*found;
}

TEST(NamedAttention, IsOneStepOfFourBuffers) {
  for (const Mask mask : {Mask::kNone, Mask::kCausal}) {
    for (const bool late : {true, false}) {
      for (const DType dtype : {DType::kBF16, DType::kF16, DType::kF32}) {
        TestProgram t;
        const Built built = attention(t, {.dtype = dtype, .mask = mask, .divides_late = late, .values = dtype});
        const Schedule made = scheduled(t);
        ASSERT_EQ(made.steps.size(), 1u) << static_cast<int>(mask) << late << static_cast<int>(dtype);
        const Step* const step = call_of(made);
        ASSERT_NE(step, nullptr);
        ASSERT_EQ(step->buffers.size(), 4u);
        for (std::size_t i = 0; i < 3; ++i) EXPECT_EQ(step->buffers[i].value, built.packed.value);
        EXPECT_EQ(step->buffers[3].value, built.output.value);
        EXPECT_TRUE(step->buffers[3].written);
        EXPECT_FALSE(made.materialized[built.scores.value]);
        EXPECT_EQ(step->library.attributes.alpha, 0.25);
        EXPECT_EQ(step->library.is_causal, mask == Mask::kCausal);
        EXPECT_EQ(step->library.dtype, dtype);
        EXPECT_EQ(step->library.views[1].offset, kHeads * kWidth);
        EXPECT_EQ(step->library.views[1].sizes, (Sizes{kBatch, kHeads, kRows, kWidth}));
        EXPECT_EQ(step->library.views[1].strides, (Sizes{kRows * 3 * kHeads * kWidth, kWidth, 3 * kHeads * kWidth, 1}));
        EXPECT_EQ(step->library.extra.sizes, (Sizes{kBatch, kHeads, kRows, kWidth}));
        EXPECT_GT(step->flops, 0u);
      }
    }
  }
}

/// Why the step that makes the powers is no call.
NotCalled why_not(const TestProgram& t, const Built& built,
                  const std::function<bool(const LibraryCall&)>& claims = is_attention,
                  Numerics numerics = Numerics::kFast) {
  const Schedule made = scheduled(t, claims, numerics);
  EXPECT_EQ(call_of(made), nullptr);
  const OpId op = t.program.values[built.powers.value].producer;
  const auto step =
      std::ranges::find_if(made.steps, [&](const Step& each) { return std::ranges::count(each.ops, op) > 0; });
  if (step == made.steps.end()) return NotCalled::kNoAttention;
  return explain(t.program, made, static_cast<std::uint32_t>(step - made.steps.begin())).not_called;
}

TEST(NamedAttention, StaysKernelsWithAReason) {
  for (const Mask mask : {Mask::kAdded, Mask::kBool}) {
    TestProgram t;
    EXPECT_EQ(why_not(t, attention(t, {.mask = mask})), NotCalled::kMask) << static_cast<int>(mask);
  }
  for (const char* limit : {"left", "right", "shift"}) {
    TestProgram t;
    EXPECT_EQ(why_not(t, attention(t, {.mask = Mask::kCausal, .more = {attribute(limit, 1)}})), NotCalled::kMask);
  }
  TestProgram scores, powers, types, declined, strict;
  Built built = attention(scores, {});
  scores.keep(built.scores);
  EXPECT_EQ(why_not(scores, built), NotCalled::kWanted);
  built = attention(powers, {});
  powers.keep(powers.op(OpKind::kNegate, {built.powers}, built.powers.view.sizes));
  EXPECT_EQ(why_not(powers, built), NotCalled::kWanted);
  EXPECT_EQ(why_not(types, attention(types, {.values = DType::kF16})), NotCalled::kTypes);
  EXPECT_EQ(why_not(declined, attention(declined, {}), [](const LibraryCall&) { return false; }), NotCalled::kDeclined);
  EXPECT_EQ(why_not(strict, attention(strict, {}), is_attention, Numerics::kStrict), NotCalled::kDeclined);
}

TEST(NamedAttention, IsNoneWhereNothingIsNamedSo) {
  TestProgram unnamed, other, without_result, without_value, negative;
  EXPECT_EQ(why_not(unnamed, attention(unnamed, {.is_named = false})), NotCalled::kNoAttention);
  Built built = attention(other, {});
  other.program.meanings[0].name = "attention_backward";
  EXPECT_EQ(why_not(other, built), NotCalled::kNoAttention);
  built = attention(without_result, {});
  without_result.program.meanings[0].outputs[0].name = "log_sum";
  EXPECT_EQ(why_not(without_result, built), NotCalled::kNoAttention);
  built = attention(without_value, {});
  without_value.program.meanings[0].inputs.pop_back();
  EXPECT_EQ(why_not(without_value, built), NotCalled::kNoAttention);
  built = attention(negative, {});
  negative.program.meanings[0].attributes[0] = attribute("scale", -1);
  EXPECT_EQ(why_not(negative, built), NotCalled::kNoAttention) << "no library is asked for it";
}

/// A file may say anything: what is no operand of the result's ops is no operand of a call, whose order it would break.
TEST(NamedAttention, IsNoneWhoseResultDoesNotDependOnItsOperands) {
  for (std::size_t role = 0; role < 3; ++role) {
    TestProgram t;
    const Built built = attention(t, {});
    const Operand later = t.op(OpKind::kNegate, {built.packed}, built.packed.view.sizes, DType::kBF16);
    t.keep(later);
    t.program.meanings[0].inputs[role].operand.value = later.value;
    EXPECT_EQ(why_not(t, built), NotCalled::kNoAttention) << role;
  }
  TestProgram itself;
  const Built built = attention(itself, {});
  itself.program.meanings[0].inputs[0].operand = built.output;
  EXPECT_EQ(why_not(itself, built), NotCalled::kNoAttention);
}

TEST(NamedAttention, WithSharedHeadsHasAReason) {
  TestProgram t;
  const Built built = attention(t, {});
  t.program.meanings[0].inputs[1].operand.view.sizes[1] = 1;
  EXPECT_EQ(why_not(t, built), NotCalled::kLayout);
}

/// Of q in another order only copies are named, of k what is copied.
TEST(NamedAttention, ReadsWhatItsOpsRead) {
  TestProgram t;
  const Built built = attention(t, {.dtype = DType::kF32, .values = DType::kF32});
  graph::Op& product = t.program.ops[t.program.values[built.scores.value].producer];
  const Operand query = product.inputs[0];
  // Behind the last op, so that the order of definitions is broken where the call reads it.
  const Operand copy = t.op(OpKind::kCopy, {query}, query.view.sizes);
  t.keep(copy);
  t.program.meanings[0].inputs[0].operand = copy;
  const Schedule made = scheduled(t);
  const Step* const step = call_of(made);
  ASSERT_NE(step, nullptr);
  EXPECT_EQ(step->buffers[0].value, built.packed.value);
  EXPECT_EQ(step->library.views[0], query.view);
  EXPECT_EQ(made.steps.size(), 2u);
}

TEST(NamedAttention, LeavesToOthersWhatTheyNeed) {
  TestProgram t;
  const Built built = attention(t, {.mask = Mask::kCausal});
  // A cast of the queries and the mask are read elsewhere, and so is the result.
  const graph::Op inner = t.program.ops[t.program.values[built.scores.value].producer];
  const Operand query = inner.inputs[0];
  t.keep(t.op(OpKind::kNegate, {query}, query.view.sizes));
  const auto compare = std::ranges::find(t.program.ops, OpKind::kLessEqual, &graph::Op::kind);
  const Operand mask = compare->outputs[0];
  t.keep(t.op(OpKind::kLogicalNot, {mask}, mask.view.sizes, DType::kBool));
  t.keep(t.op(OpKind::kExp, {built.output}, built.output.view.sizes, DType::kBF16));
  const Schedule made = scheduled(t);
  const Step* const step = call_of(made);
  ASSERT_NE(step, nullptr);
  for (const OpId op : step->ops) {
    EXPECT_NE(t.program.ops[op].outputs[0].value, mask.value);
    EXPECT_NE(t.program.ops[op].outputs[0].value, query.value);
  }
  EXPECT_EQ(made.steps.size(), 4u);
}

TEST(NamedAttention, SharesAMaskThatNobodyMakes) {
  TestProgram t;
  (void)attention(t, {.mask = Mask::kCausal});
  const auto compare = std::ranges::find(t.program.ops, OpKind::kLessEqual, &graph::Op::kind);
  (void)attention(t, {.mask = Mask::kCausal, .shown = compare->outputs[0]});
  const Schedule made = scheduled(t);
  EXPECT_EQ(made.steps.size(), 2u);
  EXPECT_TRUE(std::ranges::all_of(made.steps, [](const Step& step) { return step.library.is_causal; }));
}

TEST(NamedAttention, WrongCallsAreFoundByTheChecker) {
  TestProgram t;
  (void)attention(t, {.mask = Mask::kCausal});
  const Schedule good = scheduled(t);
  ASSERT_EQ(good.steps.size(), 1u);
  const auto is_found = [&](const std::function<void(Step&)>& spoil) {
    Schedule bad = good;
    spoil(bad.steps[0]);
    return !check_schedule(t.program, bad);
  };
  EXPECT_TRUE(is_found([](Step& step) { step.buffers.pop_back(); }));
  EXPECT_TRUE(is_found([](Step& step) { step.library.views[1].offset += 1000; }));
  EXPECT_TRUE(is_found([](Step& step) { step.library.extra.sizes[2] += 1; }));
  EXPECT_TRUE(is_found([](Step& step) { step.library.views[2].sizes[1] = 1; }));
  EXPECT_TRUE(is_found([](Step& step) { step.ops.pop_back(); }));
  EXPECT_TRUE(is_found([&](Step& step) {
    std::erase_if(step.ops, [&](OpId op) { return t.program.ops[op].kind == OpKind::kReduceSum; });
  }));
}

}  // namespace
}  // namespace crucible::kernel
