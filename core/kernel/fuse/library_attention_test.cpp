// Which ops are one call of an attention, what the call is told, and what stays kernels for which reason.
#include "core/kernel/fuse/library_attention.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <limits>
#include <optional>

#include "core/kernel/fuse/explain.hpp"
#include "core/kernel/schedule_check.hpp"
#include "core/kernel/testing/test_program.hpp"

namespace crucible::kernel {
namespace {

using graph::Operand;
using graph::OpId;
using graph::OpKind;

constexpr double kInfinity = std::numeric_limits<double>::infinity();

enum class Mask { kNone, kCausal, kHidden, kStrictlyCausal, kShifted, kAcrossHeads, kAdded, kBool };

/// As recordings have it: [batch, rows, 3, heads, width] in memory, products in f32, the result in [batch, rows, heads,
/// width].
struct Form {
  DType dtype = DType::kBF16;
  Mask mask = Mask::kNone;
  bool divides_late = true, scales_apart = false, is_flat = false;
  bool drops = false;
  DType values = DType::kBF16;
  std::optional<Operand> shown = {};  // what says which keys are seen, of another layer
};

constexpr std::int64_t kBatch = 2, kHeads = 3, kRows = 5, kWidth = 8;

struct Built {
  Operand packed, scores, powers, output;
};

Operand copied(TestProgram& t, const Operand& x, DType dtype) {
  return t.program.values[x.value].dtype == dtype ? x : t.op(OpKind::kCopy, {x}, x.view.sizes, dtype);
}

Operand seen(TestProgram& t, const Form& form, const Operand& scores) {
  if (form.mask == Mask::kAcrossHeads) {  // rows are counted on from one head to the next
    Form inside = form;
    inside.mask = Mask::kCausal;
    return reshaped(seen(t, inside, reshaped(scores, {kBatch, kHeads * kRows, kRows})), scores.view.sizes);
  }
  const Sizes sizes = scores.view.sizes, plane{sizes[sizes.size() - 2], kRows};
  if (form.mask == Mask::kNone) return scores;
  if (form.shown) return t.op(OpKind::kSelect, {expanded(*form.shown, sizes), scores, t.scalar(-kInfinity)}, sizes);
  if (form.mask == Mask::kAdded)
    return t.op(OpKind::kAdd, {scores, expanded(t.input(DType::kF32, plane), sizes)}, sizes);
  if (form.mask == Mask::kBool)
    return t.op(OpKind::kSelect, {expanded(t.input(DType::kBool, plane), sizes), scores, t.scalar(-kInfinity)}, sizes);
  graph::Attributes along_rows, along_keys;
  along_rows.dims = {0};
  along_keys.dims = {1};
  Operand i = t.op(OpKind::kCoordinate, {}, plane, DType::kI32, along_rows);
  const Operand j = t.op(OpKind::kCoordinate, {}, plane, DType::kI32, along_keys);
  if (form.mask == Mask::kShifted) i = t.op(OpKind::kAdd, {i, t.scalar(1)}, plane, DType::kI32);
  if (form.mask == Mask::kHidden) {
    const Operand hidden = t.op(OpKind::kLess, {i, j}, plane, DType::kBool);
    return t.op(OpKind::kSelect, {expanded(hidden, sizes), t.scalar(-kInfinity), scores}, sizes);
  }
  const Operand shown =
      t.op(form.mask == Mask::kStrictlyCausal ? OpKind::kLess : OpKind::kLessEqual, {j, i}, plane, DType::kBool);
  return t.op(OpKind::kSelect, {expanded(shown, sizes), scores, t.scalar(-kInfinity)}, sizes);
}

Operand guarded(TestProgram& t, const Operand& x, double marked, double instead) {
  const Operand asked = t.op(OpKind::kEqual, {x, t.scalar(marked)}, x.view.sizes, DType::kBool);
  return t.op(OpKind::kSelect, {asked, t.scalar(instead), x}, x.view.sizes);
}

Built attention(TestProgram& t, const Form& form) {
  Built built;
  built.packed = t.input(form.dtype, {kBatch, kRows, 3, kHeads, kWidth});
  const auto part = [&](std::int64_t which) {
    Operand x = built.packed;
    constexpr std::int64_t kRow = 3 * kHeads * kWidth;
    x.view = {which * kHeads * kWidth, {kBatch, kHeads, kRows, kWidth}, {kRows * kRow, kWidth, kRow, 1}};
    return copied(t, x, DType::kF32);
  };
  Operand q = part(0), k = part(1), v = part(2);
  if (form.values != form.dtype) v = copied(t, t.input(form.values, v.view.sizes), DType::kF32);
  if (form.is_flat) {
    for (Operand* x : {&q, &k, &v}) *x = reshaped(*x, {kBatch * kHeads, kRows, kWidth});
  }
  const std::size_t rank = q.view.sizes.size();
  Sizes batch(q.view.sizes.begin(), q.view.sizes.end() - 2), sizes = batch, out = batch;
  sizes.insert(sizes.end(), {kRows, kRows});
  out.insert(out.end(), {kRows, kWidth});
  std::vector<std::size_t> order;
  for (std::size_t d = 0; d + 2 < rank; ++d) order.push_back(d);
  order.insert(order.end(), {rank - 1, rank - 2});
  graph::Attributes scale;
  if (!form.scales_apart) scale.alpha = 0.25;
  built.scores = t.op(OpKind::kMatMul, {q, permuted(k, order)}, sizes, DType::kF32, scale);
  Operand x = built.scores;
  if (form.scales_apart) x = t.op(OpKind::kDivide, {x, t.scalar(4)}, sizes);
  x = seen(t, form, x);
  const auto last = static_cast<std::int64_t>(rank) - 1;
  const bool is_masked = form.mask != Mask::kNone;
  Operand top = t.reduce(OpKind::kReduceMax, x, {last});
  if (is_masked) top = guarded(t, top, -kInfinity, 0);
  built.powers = t.op(OpKind::kExp, {t.op(OpKind::kSubtract, {x, expanded(top, sizes)}, sizes)}, sizes);
  Operand total = t.reduce(OpKind::kReduceSum, built.powers, {last});
  if (is_masked) total = guarded(t, total, 0, 1);
  Operand left = built.powers;
  if (!form.divides_late) left = t.op(OpKind::kDivide, {left, expanded(total, sizes)}, sizes);
  if (form.drops) left = t.op(OpKind::kMultiply, {left, t.input(DType::kF32, sizes)}, sizes);
  left = copied(t, copied(t, left, form.dtype), DType::kF32);
  built.output = t.op(OpKind::kMatMul, {left, v}, out);
  if (form.divides_late) built.output = t.op(OpKind::kDivide, {built.output, expanded(total, out)}, out);
  built.output = copied(t, built.output, form.dtype);
  t.keep(built.output);
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

TEST(LibraryAttention, IsOneStepOfFourBuffersInTheFormsOfRecordings) {
  for (const Mask mask : {Mask::kNone, Mask::kCausal, Mask::kHidden}) {
    for (const bool late : {true, false}) {
      for (const bool apart : {false, true}) {
        for (const bool flat : {false, true}) {
          for (const DType dtype : {DType::kBF16, DType::kF16, DType::kF32}) {
            if (flat && dtype == DType::kF32)
              continue;  // packed operands without casts have no strides with batch and heads as one
            TestProgram t;
            const Built built = attention(t, {.dtype = dtype,
                                              .mask = mask,
                                              .divides_late = late,
                                              .scales_apart = apart,
                                              .is_flat = flat,
                                              .values = dtype});
            const Schedule made = scheduled(t);
            ASSERT_EQ(made.steps.size(), 1u)
                << static_cast<int>(mask) << late << apart << flat << static_cast<int>(dtype);
            const Step* const step = call_of(made);
            ASSERT_NE(step, nullptr);
            ASSERT_EQ(step->buffers.size(), 4u);
            for (std::size_t i = 0; i < 3; ++i) EXPECT_EQ(step->buffers[i].value, built.packed.value);
            EXPECT_EQ(step->buffers[3].value, built.output.value);
            EXPECT_TRUE(step->buffers[3].written);
            EXPECT_FALSE(made.materialized[built.scores.value]);
            EXPECT_EQ(step->library.attributes.alpha, 0.25);
            EXPECT_EQ(step->library.is_causal, mask != Mask::kNone);
            EXPECT_EQ(step->library.dtype, dtype);
            EXPECT_EQ(step->library.views[1].offset, kHeads * kWidth);
            EXPECT_EQ(step->library.views[1].sizes, (Sizes{kBatch, kHeads, kRows, kWidth}));
            EXPECT_EQ(step->library.views[1].strides,
                      (Sizes{kRows * 3 * kHeads * kWidth, kWidth, 3 * kHeads * kWidth, 1}));
            EXPECT_EQ(step->library.extra.sizes, (Sizes{kBatch, kHeads, kRows, kWidth}));
            EXPECT_GT(step->flops, 0u);
          }
        }
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

TEST(LibraryAttention, StaysKernelsWithAReason) {
  for (const Mask mask : {Mask::kStrictlyCausal, Mask::kShifted, Mask::kAdded, Mask::kBool}) {
    TestProgram t;
    EXPECT_EQ(why_not(t, attention(t, {.mask = mask})), NotCalled::kMask) << static_cast<int>(mask);
  }
  for (const bool late : {true, false}) {
    TestProgram dropped;
    EXPECT_EQ(why_not(dropped, attention(dropped, {.divides_late = late, .drops = true})), NotCalled::kChanged);
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

TEST(LibraryAttention, IsNoneWhereTheOpsSaySomethingElse) {
  TestProgram negative, other;
  const Built built = attention(negative, {.mask = Mask::kCausal});
  negative.program.ops[negative.program.values[built.scores.value].producer].attributes.alpha = -1;
  EXPECT_EQ(why_not(negative, built), NotCalled::kNoAttention) << "what is hidden would weigh most";
  const Built more = attention(other, {});
  for (graph::Op& op : other.program.ops) {
    if (op.kind == OpKind::kReduceMax) op.kind = OpKind::kReduceMin;
  }
  EXPECT_EQ(why_not(other, more), NotCalled::kNoAttention);
}

TEST(LibraryAttention, RowsOfSeveralHeadsAsOneAreNotCausal) {
  for (const Mask mask : {Mask::kCausal, Mask::kAcrossHeads}) {
    TestProgram t;
    const Built built =
        attention(t, {.dtype = DType::kF32, .mask = mask, .divides_late = false, .values = DType::kF32});
    const FoundAttention found = AttentionForms(t.program).at(t.program.values[built.output.value].producer);
    EXPECT_EQ(found.attention.has_value(), mask == Mask::kCausal);
    EXPECT_EQ(found.why, mask == Mask::kCausal ? NotCalled::kDeclined : NotCalled::kMask);
  }
}

TEST(LibraryAttention, LeavesToOthersWhatTheyNeed) {
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

TEST(LibraryAttention, SharesAMaskThatNobodyMakes) {
  TestProgram t;
  (void)attention(t, {.mask = Mask::kCausal});
  const auto compare = std::ranges::find(t.program.ops, OpKind::kLessEqual, &graph::Op::kind);
  (void)attention(t, {.mask = Mask::kCausal, .shown = compare->outputs[0]});
  const Schedule made = scheduled(t);
  EXPECT_EQ(made.steps.size(), 2u);
  EXPECT_TRUE(std::ranges::all_of(made.steps, [](const Step& step) { return step.library.is_causal; }));
}

TEST(LibraryAttention, WrongCallsAreFoundByTheChecker) {
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
