// Opaque ops in a program: rules, text, identity, passes, the interpreter's refusal, and the text that a plugin gets.
#include "core/graph/opaque.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <cstdlib>
#include <functional>
#include <limits>
#include <nlohmann/json.hpp>

#include "core/graph/passes.hpp"
#include "core/graph/print.hpp"
#include "core/graph/program_hash.hpp"
#include "core/graph/reference.hpp"

namespace crucible::graph {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using Kind = OpaqueArg::Kind;

OpaqueArg operand(Kind kind, std::uint32_t index) {
  OpaqueArg arg;
  arg.kind = kind;
  arg.operand = index;
  return arg;
}

OpaqueArg integer(std::int64_t number) {
  OpaqueArg arg;
  arg.kind = Kind::kInteger;
  arg.integer = number;
  return arg;
}

Opaque frobnicate() {
  Opaque opaque;
  opaque.schema = "aten::frobnicate_(Tensor(a!) self, Tensor other, Scalar rate, int[] dims) -> (Tensor(a!), Tensor)";
  OpaqueArg list;
  list.kind = Kind::kList;
  list.items = {integer(0), integer(-1)};
  opaque.args = {operand(Kind::kTensor, 0), operand(Kind::kTensor, 1), operand(Kind::kNumber, 2), list};
  opaque.results = {{0, kNone}, {kNone, 1}};
  return opaque;
}

ValueId add_value(Program& program, ValueKind kind, std::int64_t elements, OpId producer = kNone) {
  program.values.push_back({kind, DType::kF32, elements, "", producer});
  return static_cast<ValueId>(program.values.size() - 1);
}

Operand whole(const Program& program, ValueId value) {
  return {value, View::contiguous({program.values[value].elements}), {}};
}

/// w, y = frobnicate_(w, x, slot 0, [0, -1]); y[0] is the loss.
Program program_of(Opaque opaque, int copies = 1) {
  Program program;
  program.iterations = 1;
  program.slots.push_back({"rate", {0.5}});
  const ValueId w = add_value(program, ValueKind::kState, 4), x = add_value(program, ValueKind::kInput, 3);
  program.inputs.push_back({x, {0}, false});
  program.sources.push_back({"aten::frobnicate_", "layer", "train.py:7", Phase::kForward, 0});
  for (int copy = 0; copy < copies; ++copy) {
    const auto id = static_cast<OpId>(program.ops.size());
    const ValueId after = add_value(program, ValueKind::kTemporary, 4, id);
    const ValueId y = add_value(program, ValueKind::kTemporary, 2, id);
    Op op;
    op.kind = OpKind::kOpaque;
    op.source = 0;
    Operand slot;
    slot.scalar.slot = 0;
    op.inputs = {whole(program, w), whole(program, x), slot};
    op.outputs = {whole(program, after), whole(program, y)};
    op.attributes.index = static_cast<std::int64_t>(program.opaques.size());
    program.opaques.push_back(std::make_shared<const Opaque>(opaque));
    program.ops.push_back(std::move(op));
    if (copy == 0) program.states.push_back({w, after, kNone, kNone});
    program.outputs.push_back({"loss", {y, View{0, {}, {}}, {}}, {1.0}, {}});
  }
  return program;
}

TEST(Opaque, AValidOneIsVerified) {
  const auto verified = verify(program_of(frobnicate()));
  EXPECT_TRUE(verified) << verified.error().message;
}

TEST(Opaque, EveryRuleRefuses) {
  const std::pair<const char*, std::function<void(Opaque&)>> entries[] = {
      {"names no op", [](Opaque& o) { o.schema = ""; }},
      {"unknown effect", [](Opaque& o) { o.effect = static_cast<OpaqueEffect>(9); }},
      {"unknown kind", [](Opaque& o) { o.args[3].kind = static_cast<Kind>(40); }},
      {"names operand 3 of 3", [](Opaque& o) { o.args[1].operand = 3; }},
      {"operand 0: two arguments name it", [](Opaque& o) { o.args[1].operand = 0; }},
      {"operand 1: no argument names it", [](Opaque& o) { o.args.erase(o.args.begin() + 1); }},
      {"operand 1: is a tensor where the argument is a number", [](Opaque& o) { o.args[1].kind = Kind::kNumber; }},
      {"an argument that is no operand names operand", [](Opaque& o) { o.args[3].items[0].operand = 0; }},
      {"no list has items", [](Opaque& o) { o.args[3].items[0].items = {integer(1)}; }},
      {"has 2 results, its entry 1", [](Opaque& o) { o.results.pop_back(); }},
      {"must be either an argument", [](Opaque& o) { o.results[1].returned = kNone; }},
      {"must be either an argument", [](Opaque& o) { o.results[1].written = 1; }},
      {"come from one place", [](Opaque& o) { o.results[1] = o.results[0]; }},
      {"which it overwrites, is no tensor argument", [](Opaque& o) { o.results[0].written = 2; }},
      {"has other sizes or another dtype than operand 1", [](Opaque& o) { o.results[0].written = 1; }},
  };
  for (const auto& [words, change] : entries) {
    Opaque opaque = frobnicate();
    change(opaque);
    const auto verified = verify(program_of(opaque));
    ASSERT_FALSE(verified) << words;
    EXPECT_THAT(verified.error().message, HasSubstr(words));
  }
  Program without = program_of(frobnicate());
  without.opaques.clear();
  EXPECT_THAT(verify(without).error().message, HasSubstr("names opaque op 0; there are 0"));
  Program empty = program_of(frobnicate());
  empty.opaques[0] = nullptr;
  EXPECT_THAT(verify(empty).error().message, HasSubstr("opaque op 0 is empty"));
}

TEST(Opaque, TextAndJsonShowIt) {
  Program program = program_of(frobnicate());
  EXPECT_THAT(to_text(program),
              HasSubstr("opaque(%0[4], %1[3], slot 0, aten::frobnicate_(operand 0, operand 1, operand 2, [0, -1]))"));
  EXPECT_THAT(module_text(program, {}), HasSubstr("aten::frobnicate_(operand 0"));
  const auto json = nlohmann::json::parse(to_json(program));
  EXPECT_EQ(json["opaques"][0]["args"][3], nlohmann::json({0, -1}));
  EXPECT_EQ(json["opaques"][0]["effect"], "pure");
  EXPECT_THAT(to_dot(program), HasSubstr("aten::frobnicate_"));
  Opaque random = frobnicate();
  random.effect = OpaqueEffect::kRandom;
  EXPECT_THAT(to_text(program_of(random)), HasSubstr("[0, -1]), random)"));
}

TEST(Opaque, TheHashSaysWhatItIsAndNotWhereItsEntryStands) {
  const Program program = program_of(frobnicate());
  const ContentHash hash = program_hash(program, {});
  Program moved = program;
  moved.opaques.insert(moved.opaques.begin(), std::make_shared<const Opaque>(frobnicate()));
  moved.ops[0].attributes.index = 1;
  EXPECT_EQ(program_hash(moved, {}), hash);
  Opaque explained = frobnicate();
  explained.reason = "a mode that is not lowered";
  EXPECT_EQ(program_hash(program_of(explained), {}), hash);
  const std::function<void(Opaque&)> changes[] = {[](Opaque& o) { o.schema[6] = 'g'; },
                                                  [](Opaque& o) { o.args[3].items[1].integer = 1; },
                                                  [](Opaque& o) { o.effect = OpaqueEffect::kRandom; }};
  for (const auto& change : changes) {
    Opaque other = frobnicate();
    change(other);
    EXPECT_NE(program_hash(program_of(other), {}), hash);
  }
}

/// Writes nothing in place: two of it can be one.
Opaque plain() {
  Opaque opaque = frobnicate();
  opaque.results[0] = {kNone, 0};
  return opaque;
}

TEST(Opaque, EqualOnesAreMergedUnlessTheyAreRandom) {
  for (const OpaqueEffect effect : {OpaqueEffect::kPure, OpaqueEffect::kRandom, OpaqueEffect::kUnknown}) {
    Opaque opaque = plain();
    opaque.effect = effect;
    Program program = program_of(opaque, 2);
    const auto ran = run_passes(program, {});
    ASSERT_TRUE(ran) << ran.error().message;
    EXPECT_EQ(program.ops.size(), effect == OpaqueEffect::kPure ? 1u : 2u);
    EXPECT_EQ(program.outputs[0].operand.value == program.outputs[1].operand.value, effect == OpaqueEffect::kPure);
    EXPECT_EQ(program.opaques.size(), 1u) << "equal entries become one";
  }
  Program different = program_of(plain(), 2);
  Opaque other = plain();
  other.args[3].items[0].integer = 1;
  different.opaques[1] = std::make_shared<const Opaque>(other);
  ASSERT_TRUE(run_passes(different, {}));
  EXPECT_EQ(different.ops.size(), 2u);
  EXPECT_EQ(different.opaques.size(), 2u);
}

TEST(Opaque, DeadOnesGoIfTheyArePure) {
  for (const OpaqueEffect effect : {OpaqueEffect::kPure, OpaqueEffect::kRandom, OpaqueEffect::kUnknown}) {
    Opaque opaque = plain();
    opaque.effect = effect;
    Program program = program_of(opaque);
    program.states[0].end = program.states[0].start;
    program.outputs.clear();
    ASSERT_TRUE(run_passes(program, {}));
    EXPECT_EQ(program.ops.size(), effect == OpaqueEffect::kPure ? 0u : 1u);
    EXPECT_EQ(program.opaques.size(), program.ops.size());
  }
}

TEST(Opaque, TheInterpreterListsThemAll) {
  Program program = program_of(plain(), 2);
  Opaque other = plain();
  other.schema = "acme::spin(Tensor self, Tensor other, Scalar rate, int[] dims) -> (Tensor, Tensor)";
  other.reason = "too fast";
  program.opaques[1] = std::make_shared<const Opaque>(other);
  const auto ran = run_iteration(program, std::vector<Bytes>(program.values.size()), std::vector<Number>{0.5});
  ASSERT_FALSE(ran);
  EXPECT_EQ(ran.error().code, ErrorCode::kBadInput);
  EXPECT_THAT(ran.error().message,
              AllOf(HasSubstr("2 ops have no lowering:"),
                    HasSubstr("acme::spin: 1 per iteration, first in layer at train.py:7 (too fast)"),
                    HasSubstr("aten::frobnicate_: 1 per iteration")));
}

TEST(Opaque, AKernelTextSaysWhereEverythingLies) {
  Program program = program_of(frobnicate());
  program.ops[0].inputs[1].view = View{1, {2, 2}, {0, 1}};
  const auto json = nlohmann::json::parse(opaque_kernel(program, program.ops[0]));
  EXPECT_EQ(json["schema"], frobnicate().schema);
  EXPECT_EQ(json["operands"][1],
            nlohmann::json({{"dtype", "f32"}, {"sizes", {2, 2}}, {"strides", {0, 1}}, {"offset", 1}, {"buffer", 1}}));
  EXPECT_EQ(json["operands"][2], nlohmann::json({{"scalar", 0}, {"is_integer", false}}));
  EXPECT_EQ(json["results"][0]["written"], 0);
  EXPECT_EQ(json["results"][0]["buffer"], 2);
  EXPECT_EQ(json["results"][1]["returned"], 1);
  EXPECT_EQ(json["results"][1]["buffer"], 3);
}

TEST(Opaque, NumbersAreExact) {
  Opaque opaque = frobnicate();
  opaque.args[3] = {};
  opaque.args[3].kind = Kind::kReal;
  for (const double number : {0.1, -0.0, 1e308, std::numeric_limits<double>::infinity()}) {
    opaque.args[3].real = number;
    const auto json = nlohmann::json::parse(to_json(opaque));
    const double read = std::strtod(json["args"][3]["real"].get<std::string>().c_str(), nullptr);
    EXPECT_EQ(std::bit_cast<std::uint64_t>(read), std::bit_cast<std::uint64_t>(number));
  }
}

}  // namespace
}  // namespace crucible::graph
