// Which attentions of a training step are stated anew, as what, and that both ways come to the same numbers.
#include "core/kernel/fuse/trained_attention.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "core/graph/meaning.hpp"
#include "core/graph/reference.hpp"
#include "core/kernel/schedule_check.hpp"
#include "core/kernel/testing/test_program.hpp"

namespace crucible::kernel {
namespace {

using graph::Operand;
using graph::OpId;
using graph::OpKind;

constexpr std::int64_t kBatch = 2, kHeads = 3, kRows = 5, kWidth = 8;
constexpr double kScale = 0.25;

struct Form {
  DType dtype = DType::kBF16;
  bool is_causal = false;
  double scale_of_gradient = kScale;
  bool is_named = true;
};

struct Built {
  Operand packed, scores, probabilities, output, gradient;
  std::vector<Operand> gradients;  // of q, k, v
};

graph::CompositeAttribute attribute(const char* name, double number) {
  return {name, false, {graph::Scalar{graph::kNone, false, number, 0}}};
}

Operand copied(TestProgram& t, const Operand& x, DType dtype) {
  return t.program.values[x.value].dtype == dtype ? x : t.op(OpKind::kCopy, {x}, x.view.sizes, dtype);
}

/// As the lowering has both directions: [batch, rows, 3, heads, width] in memory, the gradient reads the probabilities.
Built training(TestProgram& t, const Form& form) {
  Built b;
  b.packed = t.input(form.dtype, {kBatch, kRows, 3, kHeads, kWidth});
  const auto part = [&](std::int64_t which) {
    Operand x = b.packed;
    constexpr std::int64_t kRow = 3 * kHeads * kWidth;
    x.view = {which * kHeads * kWidth, {kBatch, kHeads, kRows, kWidth}, {kRows * kRow, kWidth, kRow, 1}};
    return x;
  };
  const Operand query = part(0), key = part(1), value = part(2);
  const Operand q = copied(t, query, DType::kF32), k = copied(t, key, DType::kF32), v = copied(t, value, DType::kF32);
  const Sizes sizes{kBatch, kHeads, kRows, kRows}, out{kBatch, kHeads, kRows, kWidth};
  graph::Attributes scale;
  scale.alpha = kScale;
  b.scores = t.op(OpKind::kMatMul, {q, permuted(k, {0, 1, 3, 2})}, sizes, DType::kF32, scale);
  Operand x = b.scores;
  if (form.is_causal) {
    graph::Attributes along_rows, along_keys;
    along_rows.dims = {0}, along_keys.dims = {1};
    const Sizes plane{kRows, kRows};
    const Operand i = t.op(OpKind::kCoordinate, {}, plane, DType::kI32, along_rows),
                  j = t.op(OpKind::kCoordinate, {}, plane, DType::kI32, along_keys);
    const Operand seen = t.op(OpKind::kLessEqual, {j, i}, plane, DType::kBool);
    x = t.op(OpKind::kSelect, {expanded(seen, sizes), x, t.scalar(-std::numeric_limits<double>::infinity())}, sizes);
  }
  const Operand top = t.reduce(OpKind::kReduceMax, x, {3});
  const Operand powers = t.op(OpKind::kExp, {t.op(OpKind::kSubtract, {x, expanded(top, sizes)}, sizes)}, sizes);
  const Operand total = t.reduce(OpKind::kReduceSum, powers, {3});
  b.probabilities = t.op(OpKind::kDivide, {powers, expanded(total, sizes)}, sizes);
  const Operand sum = t.op(OpKind::kMatMul, {copied(t, powers, form.dtype), value}, out, DType::kF32);
  b.output = t.op(OpKind::kDivide, {sum, expanded(total, out)}, out, form.dtype);
  t.keep(t.op(OpKind::kNegate, {b.output}, out, form.dtype));
  b.gradient = t.op(OpKind::kTanh, {t.input(form.dtype, out)}, out, form.dtype);
  const Operand g = copied(t, b.gradient, DType::kF32);
  const Operand inner =
      t.reduce(OpKind::kReduceSum, t.op(OpKind::kMultiply, {g, copied(t, b.output, DType::kF32)}, out), {3});
  Operand ds = t.op(OpKind::kMatMul, {g, permuted(v, {0, 1, 3, 2})}, sizes);
  ds = t.op(OpKind::kSubtract, {ds, expanded(inner, sizes)}, sizes);
  ds = t.op(OpKind::kMultiply, {b.probabilities, ds}, sizes);
  ds = copied(t, t.op(OpKind::kMultiply, {ds, t.scalar(kScale)}, sizes), form.dtype);
  const Operand p = copied(t, b.probabilities, form.dtype);
  b.gradients = {t.op(OpKind::kMatMul, {ds, key}, out, form.dtype),
                 t.op(OpKind::kMatMul, {permuted(ds, {0, 1, 3, 2}), query}, out, form.dtype),
                 t.op(OpKind::kMatMul, {permuted(p, {0, 1, 3, 2}), b.gradient}, out, form.dtype)};
  for (const Operand& gradient : b.gradients) t.keep(t.op(OpKind::kNegate, {gradient}, out, form.dtype));
  if (!form.is_named) return b;
  graph::Meaning forward{"attention", {attribute("scale", kScale)}, {}, {{"output", b.output}}};
  graph::Meaning backward{"attention_backward", {attribute("scale", form.scale_of_gradient)}, {}, {}};
  for (graph::Meaning* meaning : {&forward, &backward}) {
    if (form.is_causal) meaning->attributes.push_back(attribute("causal", 1));
    meaning->inputs = {{"query", query}, {"key", key}, {"value", value}};
  }
  backward.inputs.push_back({"grad_out", b.gradient});
  backward.inputs.push_back({"out", b.output});
  const char* const names[] = {"grad_query", "grad_key", "grad_value"};
  for (std::size_t i = 0; i < 3; ++i) backward.outputs.push_back({names[i], b.gradients[i]});
  t.program.meanings = {std::move(forward), std::move(backward)};
  return b;
}

bool takes_attentions(const LibraryCall& call) { return is_attention(call.kind); }

Prepared prepared(const TestProgram& t, const std::function<bool(const LibraryCall&)>& claims = takes_attentions,
                  Numerics numerics = Numerics::kFast) {
  Result<Prepared> made = prepare(t.program, {.claims = claims, .numerics = numerics, .epilogues = true});
  EXPECT_TRUE(made) << made.error().message;
  if (!made) return {};
  const graph::Program& program = made->program ? *made->program : t.program;
  const Result<void> verified = verify(program), checked = check_schedule(program, made->schedule);
  EXPECT_TRUE(verified) << verified.error().message;
  EXPECT_TRUE(checked) << checked.error().message;
  return *std::move(made);
}

std::vector<const Step*> calls_of(const Prepared& prepared) {
  std::vector<const Step*> found;
  for (const Step& step : prepared.schedule.steps) {
    if (step.kind == StepKind::kLibrary) found.push_back(&step);
  }
  return found;
}

/// The values of a run of the program, with what enters from outside taken from the test.
std::vector<graph::Bytes> run(const TestProgram& t, const graph::Program& program) {
  std::vector<graph::Bytes> values = t.values;
  values.resize(program.values.size());
  auto got = run_iteration(program, std::move(values), t.slots);
  EXPECT_TRUE(got) << got.error().message;
  return got ? *std::move(got) : std::vector<graph::Bytes>();
}

TEST(TrainedAttention, IsOneStepForEachDirection) {
  for (const bool is_causal : {false, true}) {
    for (const DType dtype : {DType::kBF16, DType::kF16, DType::kF32}) {
      TestProgram t;
      const Built b = training(t, {.dtype = dtype, .is_causal = is_causal});
      const Prepared made = prepared(t);
      const auto calls = calls_of(made);
      ASSERT_EQ(calls.size(), 2u) << is_causal << static_cast<int>(dtype);
      EXPECT_EQ(calls[0]->library.kind, LibraryKind::kAttentionForward);
      EXPECT_EQ(calls[1]->library.kind, LibraryKind::kAttentionBackward);
      ASSERT_EQ(calls[0]->buffers.size(), 5u);
      ASSERT_EQ(calls[1]->buffers.size(), 9u);
      const graph::ValueId logs = calls[0]->buffers[4].value;
      EXPECT_GE(logs, t.program.values.size());
      EXPECT_EQ(calls[1]->buffers[4].value, logs);
      EXPECT_EQ(calls[0]->buffers[3].value, b.output.value);
      EXPECT_EQ(calls[1]->buffers[3].value, b.output.value);
      EXPECT_EQ(calls[1]->buffers[5].value, b.gradient.value);
      for (std::size_t i = 0; i < 3; ++i) {
        EXPECT_EQ(calls[0]->buffers[i].value, b.packed.value);
        EXPECT_EQ(calls[1]->buffers[i].value, b.packed.value);
        EXPECT_EQ(calls[1]->buffers[6 + i].value, b.gradients[i].value);
      }
      for (const Step* call : calls) {
        EXPECT_EQ(call->library.dtype, dtype);
        EXPECT_EQ(call->library.attributes.alpha, kScale);
        EXPECT_EQ(call->library.is_causal, is_causal);
        EXPECT_EQ(call->library.views[1].offset, kHeads * kWidth);
      }
      EXPECT_GT(calls[1]->flops, 2 * calls[0]->flops) << "two products, and five";
      // Nothing of the size of scores is left, and no kernel of the old softmax.
      for (const graph::ValueId value : {b.scores.value, b.probabilities.value})
        EXPECT_FALSE(made.schedule.materialized[value]);
      EXPECT_LE(made.schedule.steps.size(), 2u + 5u) << "the tanh, and what negates results";
    }
  }
}

TEST(TrainedAttention, ComesToTheSameNumbers) {
  for (const bool is_causal : {false, true}) {
    for (const DType dtype : {DType::kBF16, DType::kF32}) {
      TestProgram t(7);
      const Built b = training(t, {.dtype = dtype, .is_causal = is_causal});
      const auto stated = state_trained_attentions(t.program, takes_attentions);
      ASSERT_TRUE(stated);
      const auto want = run(t, t.program), got = run(t, *stated);
      std::vector<Operand> results = b.gradients;
      results.push_back(b.output);
      for (const Operand& result : results)
        EXPECT_EQ(difference(t.program, result.value, got[result.value], want[result.value]), "")
            << is_causal << static_cast<int>(dtype);
    }
  }
}

TEST(TrainedAttention, IsStatedOnlyWhereBothAreClaimed) {
  for (const LibraryKind declined : {LibraryKind::kAttentionForward, LibraryKind::kAttentionBackward}) {
    TestProgram t;
    (void)training(t, {});
    EXPECT_FALSE(state_trained_attentions(
        t.program, [&](const LibraryCall& call) { return is_attention(call.kind) && call.kind != declined; }));
    EXPECT_TRUE(calls_of(prepared(t, [&](const LibraryCall& call) {
                  return is_attention(call.kind) && call.kind != declined;
                })).empty());
  }
  TestProgram strict;
  (void)training(strict, {});
  EXPECT_TRUE(calls_of(prepared(strict, takes_attentions, Numerics::kStrict)).empty());
}

TEST(TrainedAttention, StaysAsItIsWhereSomethingElseIsMadeOfIt) {
  const auto is_stated = [](const std::function<void(TestProgram&, const Built&)>& change, const Form& form = {}) {
    TestProgram t;
    const Built b = training(t, form);
    change(t, b);
    return state_trained_attentions(t.program, takes_attentions).has_value();
  };
  EXPECT_TRUE(is_stated([](TestProgram&, const Built&) {}));
  EXPECT_FALSE(is_stated([](TestProgram& t, const Built& b) { t.keep(b.scores); }));
  EXPECT_FALSE(is_stated([](TestProgram& t, const Built& b) {
    t.keep(t.op(OpKind::kNegate, {b.probabilities}, b.probabilities.view.sizes));
  }));
  EXPECT_TRUE(is_stated([](TestProgram& t, const Built& b) {  // what reads it is wanted by nobody
    (void)t.op(OpKind::kNegate, {b.probabilities}, b.probabilities.view.sizes);
  }));
  EXPECT_FALSE(is_stated([](TestProgram&, const Built&) {}, {.scale_of_gradient = 0.5}));
  EXPECT_FALSE(is_stated([](TestProgram&, const Built&) {}, {.is_named = false}));
  EXPECT_FALSE(is_stated([](TestProgram&, const Built&) {}, {.dtype = DType::kF64}));
  EXPECT_FALSE(is_stated([](TestProgram& t, const Built& b) {
    for (graph::Meaning& meaning : t.program.meanings) meaning.inputs.push_back({"mask", b.scores});
  }));
  EXPECT_FALSE(is_stated([](TestProgram& t, const Built&) {
    for (graph::Meaning& meaning : t.program.meanings) meaning.attributes.push_back(attribute("left", 2));
  }));
  EXPECT_FALSE(is_stated([](TestProgram& t, const Built&) { t.program.meanings[1].outputs.pop_back(); }));
}

/// A file may say anything: names that no order of ops could keep are none.
TEST(TrainedAttention, IsNoneWhoseNamesCannotBe) {
  for (const std::size_t meaning : {0u, 1u}) {
    for (std::size_t role = 0; role < 3 + 2 * meaning; ++role) {
      TestProgram t;
      const Built b = training(t, {});
      graph::Meaning& named = t.program.meanings[meaning];
      const Operand& old = named.inputs[role].operand;
      const Operand later = t.op(OpKind::kNegate, {old}, old.view.sizes, DType::kBF16);
      t.keep(later);
      for (graph::Meaning& each : t.program.meanings) {
        if (graph::find_input(each, named.inputs[role].name) != nullptr)
          std::ranges::find(each.inputs, named.inputs[role].name, &graph::Role::name)->operand = later;
      }
      EXPECT_FALSE(state_trained_attentions(t.program, takes_attentions)) << meaning << " " << role;
      (void)prepared(t);
    }
  }
  TestProgram itself, twice;
  Built b = training(itself, {});
  itself.program.meanings[1].inputs[3].operand = b.gradients[0];
  EXPECT_FALSE(state_trained_attentions(itself.program, takes_attentions));
  b = training(twice, {});
  const auto meanings = twice.program.meanings;
  twice.program.meanings.insert(twice.program.meanings.end(), meanings.begin(), meanings.end());
  EXPECT_EQ(calls_of(prepared(twice)).size(), 2u);
}

TEST(TrainedAttention, WrongCallsAreFoundByTheChecker) {
  TestProgram t;
  (void)training(t, {.is_causal = true});
  const Prepared good = prepared(t);
  ASSERT_TRUE(good.program);
  const auto is_found = [&](LibraryKind kind, const std::function<void(Step&)>& spoil) {
    Schedule bad = good.schedule;
    spoil(*std::ranges::find_if(
        bad.steps, [&](const Step& step) { return step.kind == StepKind::kLibrary && step.library.kind == kind; }));
    return !check_schedule(*good.program, bad);
  };
  for (const LibraryKind kind : {LibraryKind::kAttentionForward, LibraryKind::kAttentionBackward}) {
    EXPECT_FALSE(is_found(kind, [](Step&) {}));
    EXPECT_TRUE(is_found(kind, [](Step& step) { step.buffers.pop_back(); }));
    EXPECT_TRUE(is_found(kind, [](Step& step) { step.library.more.pop_back(); }));
    EXPECT_TRUE(is_found(kind, [](Step& step) { step.library.more[0].sizes[2] -= 1; }));
    EXPECT_TRUE(is_found(kind, [](Step& step) { step.library.more[0].offset += 1; }));
    EXPECT_TRUE(is_found(kind, [](Step& step) { step.ops.pop_back(); }));
    EXPECT_TRUE(is_found(kind, [](Step& step) { step.buffers.back().written = false; }));
    EXPECT_TRUE(is_found(kind, [](Step& step) { step.library.dtype = DType::kF16; }));
  }
  EXPECT_TRUE(is_found(LibraryKind::kAttentionBackward, [](Step& step) { step.library.more[2].sizes[3] -= 1; }));
  EXPECT_TRUE(
      is_found(LibraryKind::kAttentionBackward, [](Step& step) { std::swap(step.buffers[4], step.buffers[5]); }));
}

}  // namespace
}  // namespace crucible::kernel
