// Attention written as the framework composes it, and what becomes of it: against the program as it was, on the
// interpreter.
#include "frontends/aten/attention/composed_attention.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <functional>
#include <random>

#include "core/graph/passes.hpp"
#include "core/graph/reference.hpp"
#include "frontends/aten/algebra/emitter.hpp"

namespace crucible::aten {
namespace {

using graph::OpKind;
using graph::Program;
using graph::ValueId;
using graph::ValueKind;

constexpr std::int64_t kBatch = 2, kHeads = 3, kQueries = 5, kKeys = 4, kWidth = 6, kValueWidth = 7;

struct Options {
  DType dtype = DType::kF64;
  double query_factor = std::sqrt(0.3), key_factor = std::sqrt(0.3);
  bool is_safe = true, has_mask = false, is_causal = false, has_gradient = true, copies = true;
  bool shows_probabilities = false, reads_slopes = false, scales_slopes = false, is_key_frozen = false;
};

/// Inputs q, k, v (and the gradient of the result) in the layout [batch, rows, heads, width], as projections leave
/// them.
Program composed(const Options& o) {
  Program program;
  program.iterations = 1;
  Emitter e(program);
  const auto input = [&](const char* name, std::int64_t rows, std::int64_t width) {
    const ValueId value = e.outside_value(ValueKind::kInput, o.dtype, kBatch * kHeads * rows * width, name);
    program.inputs.push_back({value, {value}, false});
    const Term flat{{value, graph::View::contiguous({kBatch, rows, kHeads, width}), {}}, o.dtype};
    return e.transpose(flat, 1, 2);
  };
  const auto watch = [&](const char* name, const Term& x) { program.outputs.push_back({name, x.operand, {}, {0}}); };
  const auto batched = [&](const Term& x) {
    const Term dense = o.copies ? e.copy(x) : x;
    return e.reshape(dense, {kBatch * kHeads, x.size(2), x.size(3)});
  };
  const auto planes = [&](const Term& x) { return e.reshape(x, {kBatch, kHeads, x.size(1), x.size(2)}); };
  const Term q = input("q", kQueries, kWidth), k = input("k", kKeys, kWidth), v = input("v", kKeys, kValueWidth),
             g = input("g", kQueries, kValueWidth);
  const Term a = batched(e.binary(OpKind::kMultiply, q, Term::number(o.query_factor)));
  const Term b = batched(e.binary(OpKind::kMultiply, e.transpose(k, 2, 3), Term::number(o.key_factor)));
  Term scores = planes(e.matmul(a, b));
  if (o.has_mask) {
    const ValueId mask = e.outside_value(ValueKind::kInput, o.dtype, kQueries * kKeys, "mask");
    program.inputs.push_back({mask, {mask}, false});
    scores = e.binary(OpKind::kAdd, scores, {{mask, graph::View::contiguous({kQueries, kKeys}), {}}, o.dtype});
  }
  if (o.is_causal) {
    const Sizes plane{kQueries, kKeys};
    const Term row = e.binary(OpKind::kAdd, e.coordinate(0, plane, DType::kI64), Term::integer(0));
    const Term seen = e.binary(OpKind::kLessEqual, e.coordinate(1, plane, DType::kI64), row);
    const Term zero = e.fill(Term::number(0), {}, o.dtype), never = e.fill(Term::number(-INFINITY), {}, o.dtype);
    scores = e.binary(OpKind::kAdd, scores, e.select(seen, zero, never));
  }
  const Term top = e.max(scores, {3}), powers = e.unary(OpKind::kExp, e.binary(OpKind::kSubtract, scores, top));
  Term p = e.binary(OpKind::kDivide, powers, e.sum(powers, {3}));
  if (o.is_safe)
    p = e.select(e.binary(OpKind::kEqual, top, Term::number(-INFINITY)), e.fill(Term::number(0), {}, o.dtype), p);
  const Term flat_p = e.reshape(p, {kBatch * kHeads, kQueries, kKeys}), values = batched(v);
  watch("y", e.copy(e.transpose(planes(e.matmul(flat_p, values)), 1, 2)));
  if (o.shows_probabilities) watch("p", p);
  if (!o.has_gradient) return program;
  const Term gradient = batched(g);
  watch("dv", planes(e.matmul(e.transpose(flat_p, 1, 2), gradient)));
  const Term dp = planes(e.matmul(gradient, e.transpose(values, 1, 2)));
  const Term inner = e.sum(e.binary(OpKind::kMultiply, dp, p), {3});
  const Term ds = e.binary(OpKind::kMultiply, p, e.binary(OpKind::kSubtract, dp, inner));
  const Term slopes = e.reshape(ds, {kBatch * kHeads, kQueries, kKeys});
  const Term dk = o.is_key_frozen ? slopes : planes(e.matmul(e.transpose(a, 1, 2), slopes)),
             dq = planes(e.matmul(slopes, e.transpose(b, 1, 2)));
  const double back = o.scales_slopes ? 0.5 : o.key_factor;
  if (!o.is_key_frozen)
    watch("dk", e.copy(e.transpose(e.binary(OpKind::kMultiply, dk, Term::number(o.key_factor)), 2, 3)));
  watch("dq", e.unary(OpKind::kNegate, e.binary(OpKind::kMultiply, dq, Term::number(back))));
  if (o.reads_slopes) watch("dmask", e.sum(ds, {0, 1}));
  EXPECT_EQ(e.failure(), "");
  return program;
}

/// All outputs after one iteration with inputs that depend on their names alone.
std::vector<std::vector<double>> outputs_of(const Program& program) {
  std::vector<graph::Bytes> values(program.values.size());
  for (const graph::Input& input : program.inputs) {
    const graph::Value& value = program.values[input.value];
    std::mt19937 random(static_cast<unsigned>(value.name.size() * 31 + static_cast<unsigned char>(value.name[0])));
    values[input.value].resize(static_cast<std::size_t>(value.elements) * size_bytes(value.dtype));
    for (std::int64_t i = 0; i < value.elements; ++i) {
      graph::store_real(value.dtype, std::uniform_real_distribution<>(-2, 2)(random),
                        values[input.value].data() + static_cast<std::size_t>(i) * size_bytes(value.dtype));
    }
  }
  auto after = graph::run_iteration(program, std::move(values), {});
  EXPECT_TRUE(after) << after.error().message;
  std::vector<std::vector<double>> results;
  for (const graph::Output& output : program.outputs) {
    const DType dtype = program.values[output.operand.value].dtype;
    results.push_back(graph::load((*after)[output.operand.value], dtype, output.operand.view).real);
  }
  return results;
}

struct Form {
  const char* name;
  Options options;
};
void PrintTo(const Form& form, std::ostream* out) { *out << form.name; }

class Recognized : public testing::TestWithParam<Form> {};

TEST_P(Recognized, ComputesWhatItDid) {
  const Program before = composed(GetParam().options);
  ASSERT_TRUE(graph::verify(before)) << graph::verify(before).error().message;
  Program after = before;
  ASSERT_EQ(recognize_composed_attention(after), 1) << graph::to_text(before);
  ASSERT_TRUE(graph::verify(after)) << graph::verify(after).error().message;
  ASSERT_TRUE(graph::run_passes(after));
  const auto expected = outputs_of(before), found = outputs_of(after);
  ASSERT_EQ(expected.size(), found.size());
  for (std::size_t k = 0; k < expected.size(); ++k) {
    ASSERT_EQ(expected[k].size(), found[k].size());
    for (std::size_t i = 0; i < expected[k].size(); ++i) {
      ASSERT_NEAR(expected[k][i], found[k][i], GetParam().options.dtype == DType::kF64 ? 1e-13 : 2e-5)
          << before.outputs[k].name << " " << i;
    }
  }
  Program plain = before;
  ASSERT_TRUE(graph::run_passes(plain));
  EXPECT_LT(after.ops.size(), plain.ops.size());
}

INSTANTIATE_TEST_SUITE_P(ComposedAttention, Recognized,
                         testing::Values(Form{"plain", Options{}}, Form{"f32", Options{.dtype = DType::kF32}},
                                         Form{"unsafe", Options{.is_safe = false}},
                                         Form{"mask", Options{.has_mask = true}},
                                         Form{"causal", Options{.is_causal = true}},
                                         Form{"forward", Options{.has_gradient = false}},
                                         Form{"causal_forward", Options{.is_causal = true, .has_gradient = false}}),
                         [](const auto& info) { return std::string(info.param.name); });

/// What was found is a composite each, which the interpreter runs by itself.
TEST_P(Recognized, IsACompositeEach) {
  const Options& options = GetParam().options;
  const Program before = composed(options);
  Program whole = before;
  std::vector<graph::Outline> outlines;
  ASSERT_EQ(recognize_composed_attention(whole, &outlines), 1);
  Program decomposed = whole;
  const std::size_t wanted = options.has_gradient ? 2 : 1;
  ASSERT_EQ(outlines.size(), wanted);
  ASSERT_EQ(graph::outline(whole, outlines), wanted);
  ASSERT_TRUE(graph::verify(whole)) << graph::verify(whole).error().message;
  std::vector<std::string> names;
  for (const graph::Op& op : whole.ops) {
    if (op.kind == OpKind::kComposite) names.push_back(graph::op_name(whole, op));
  }
  EXPECT_EQ(names, options.has_gradient ? (std::vector<std::string>{"attention", "attention_backward"})
                                        : std::vector<std::string>{"attention"});
  const auto expected = outputs_of(decomposed), found = outputs_of(whole);
  ASSERT_EQ(expected.size(), found.size());
  for (std::size_t k = 0; k < expected.size(); ++k) {
    for (std::size_t i = 0; i < expected[k].size(); ++i) {
      ASSERT_NEAR(expected[k][i], found[k][i], options.dtype == DType::kF64 ? 1e-13 : 2e-5)
          << before.outputs[k].name << " " << i;
    }
  }
  graph::expand_composites(whole);
  ASSERT_EQ(whole.meanings.size(), names.size());
  for (std::size_t i = 0; i < names.size(); ++i) EXPECT_EQ(whole.meanings[i].name, names[i]);
  whole.meanings.clear();
  EXPECT_EQ(graph::to_text(whole), graph::to_text(decomposed));
}

class LeftAlone : public testing::TestWithParam<Form> {};

TEST_P(LeftAlone, NothingChanges) {
  Program program = composed(GetParam().options);
  ASSERT_TRUE(graph::verify(program)) << graph::verify(program).error().message;
  const std::string before = graph::to_text(program);
  EXPECT_EQ(recognize_composed_attention(program), 0);
  EXPECT_EQ(graph::to_text(program), before);
}

INSTANTIATE_TEST_SUITE_P(
    ComposedAttention, LeftAlone,
    testing::Values(Form{"other_factor", Options{.key_factor = std::sqrt(0.2)}},
                    Form{"other_factor_forward", Options{.key_factor = std::sqrt(0.2), .has_gradient = false}},
                    Form{"keys_frozen", Options{.is_key_frozen = true}},
                    Form{"negative_factor", Options{.query_factor = -std::sqrt(0.3), .key_factor = -std::sqrt(0.3)}},
                    Form{"probabilities_shown", Options{.shows_probabilities = true}},
                    Form{"slopes_read", Options{.reads_slopes = true}},
                    Form{"gradient_scaled_otherwise", Options{.scales_slopes = true}},
                    Form{"bf16", Options{.dtype = DType::kBF16}}),
    [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace crucible::aten
