// Composites in a program: made and taken apart, their rules, texts and identity, and what passes do with those that a
// backend keeps.
#include "core/graph/composite.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <nlohmann/json.hpp>

#include "core/graph/awkward_program.hpp"
#include "core/graph/binary.hpp"
#include "core/graph/outline.hpp"
#include "core/graph/parse.hpp"
#include "core/graph/passes.hpp"
#include "core/graph/print.hpp"
#include "core/graph/program_hash.hpp"
#include "core/graph/queries.hpp"
#include "core/graph/random_outline.hpp"
#include "core/graph/reference.hpp"
#include "core/graph/reference_composite.hpp"

namespace crucible::graph {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

/// y = softmax(x [2, 3]) * slot 0, twice; the first's y is shown as a tensor, of the second nothing where `second` is
/// not read.
constexpr const char* kTwice = R"(crucible program 2: 2 ops, 3 values, 1 iterations
slot 0 "rate": [0.5]
input %0 "x": f32[6] (blobs [0])
  %1: f32[2, 3] = scaled_softmax(%0[2, 3], slot 0, dims=[1], eps=0.5, body=0)  @0 ; aten::_softmax head model.py:3
  %2: f32[2, 3] = scaled_softmax(%0[2, 3], slot 0, dims=[1], eps=0.5, body=0)
output "y" %1[2, 3] (blobs [0])
output "z" %2[2, 3] (blobs [0])
composite 0: scaled_softmax(dims=[1], eps=0.5)
  | crucible program 2: 6 ops, 7 values, 1 iterations
  | slot 0 "rate": [0.0]
  | input %0 "self": f32[6] (blobs [none])
  |   %1: f32[2, 1]{1, 0} = reduce_max(%0[2, 3], dims=[1])
  |   %2: f32[2, 3] = subtract(%0[2, 3], %1[2, 3]{1, 0})
  |   %3: f32[2, 3] = exp(%2[2, 3])
  |   %4: f32[2, 1]{1, 0} = reduce_sum(%3[2, 3], dims=[1])
  |   %5: f32[2, 3] = divide(%3[2, 3], %4[2, 3]{1, 0})
  |   %6: f32[2, 3] = multiply(%5[2, 3], slot 0)
  | output "output" %6[2, 3] (blobs [none])
source 0: forward 7 "aten::_softmax" "head" "model.py:3"
)";

Program twice() {
  auto program = parse_program(kTwice);
  EXPECT_TRUE(program) << program.error().message;
  return program ? *std::move(program) : Program{};
}

Program changed(const std::function<void(Composite&)>& change) {
  Program program = twice();
  Composite composite = *program.composites[0];
  change(composite);
  program.composites[0] = std::make_shared<const Composite>(std::move(composite));
  return program;
}

TEST(Composite, EveryRuleRefuses) {
  using Change = std::function<void(Composite&)>;
  const std::pair<const char*, Change> entries[] = {
      {"composite 0: '' cannot be its name", [](Composite& c) { c.name = ""; }},
      {"'Soft max' cannot be its name", [](Composite& c) { c.name = "Soft max"; }},
      {"'add' cannot be its name", [](Composite& c) { c.name = "add"; }},
      {"'opaque' cannot be its name", [](Composite& c) { c.name = "opaque"; }},
      {"'body' cannot be the name of an attribute", [](Composite& c) { c.attributes[0].name = "body"; }},
      {"'1st' cannot be the name of an attribute", [](Composite& c) { c.attributes[0].name = "1st"; }},
      {"two attributes are called eps", [](Composite& c) { c.attributes[0].name = "eps"; }},
      {"attribute eps has 0 numbers and is no list", [](Composite& c) { c.attributes[1].numbers.clear(); }},
      {"attribute eps names a slot", [](Composite& c) { c.attributes[1].numbers[0].slot = 0; }},
      {"attribute eps holds two numbers", [](Composite& c) { c.attributes[1].numbers[0].integer = 2; }},
      {"its body has 2 iterations, needs 1", [](Composite& c) { c.body.iterations = 2; }},
      {"its body has states", [](Composite& c) { c.body.states.push_back({}); }},
      {"its body has constants", [](Composite& c) { c.body.constants.push_back({}); }},
      {"its body has sources", [](Composite& c) { c.body.sources.push_back({}); }},
      {"its body leaves outputs out", [](Composite& c) { c.body.left_out.push_back("why"); }},
      {"its body has entries of other ops", [](Composite& c) { c.body.opaques.push_back(nullptr); }},
      {"its body has entries of other ops", [](Composite& c) { c.body.composites.push_back(nullptr); }},
      {"its body has no outputs", [](Composite& c) { c.body.outputs.clear(); }},
      {"an op that is not neutral (opaque)", [](Composite& c) { c.body.ops[0].kind = OpKind::kOpaque; }},
      {"an op that is not neutral (composite)", [](Composite& c) { c.body.ops[0].kind = OpKind::kComposite; }},
      {"an input with recorded data", [](Composite& c) { c.body.inputs[0].blobs[0] = 3; }},
      {"an input with recorded data", [](Composite& c) { c.body.inputs[0].is_draw = true; }},
      {"a slot with a recorded number", [](Composite& c) { c.body.slots[0].values[0] = 3.0; }},
      {"an output with recorded data", [](Composite& c) { c.body.outputs[0].blobs[0] = 3; }},
      {"an output %0 that none of its ops makes", [](Composite& c) { c.body.outputs[0].operand.value = 0; }},
      {"has %6 as two outputs", [](Composite& c) { c.body.outputs.push_back(c.body.outputs[0]); }},
      {"body: op 0 (reduce_max)", [](Composite& c) { c.body.ops[0].attributes.dims = {5}; }},
      {"is of f32[6], its body reads f64[6]",
       [](Composite& c) {
         for (Value& value : c.body.values) value.dtype = DType::kF64;
       }},
      {"has 1 tensors and 1 numbers, its body reads 1 and 2",
       [](Composite& c) { c.body.slots.push_back({"", {0.0}}); }},
      {"has 1 results, its body 2",
       [](Composite& c) { c.body.outputs.push_back({"", {5, c.body.outputs[0].operand.view, {}}, {}, {kNone}}); }},
      {"result 0: differs in dtype, elements or view",
       [](Composite& c) { c.body.outputs[0].operand.view = View::contiguous({6}); }},
  };
  for (const auto& [words, change] : entries) {
    const auto verified = verify(changed(change));
    ASSERT_FALSE(verified) << words;
    EXPECT_THAT(verified.error().message, HasSubstr(words));
  }
  Program without = twice();
  without.composites.clear();
  EXPECT_THAT(verify(without).error().message, HasSubstr("names composite 0; there are 0"));
  Program empty = twice();
  empty.composites[0] = nullptr;
  EXPECT_THAT(verify(empty).error().message, HasSubstr("composite 0 is empty"));
  Program number = twice();
  number.ops[0].inputs[1].scalar = {kNone, false, 0.5, 0};
  EXPECT_THAT(verify(number).error().message, HasSubstr("operand 1: is a fixed number, which belongs into the body"));
}

TEST(Composite, TextReadsBackExactly) {
  const Program program = twice();
  EXPECT_EQ(to_text(program), kTwice);
  EXPECT_THAT(module_text(program, {}), HasSubstr("scaled_softmax(x, slot 0, dims=[1], eps=0.5)\n"));
  EXPECT_THAT(to_dot(program), HasSubstr("label=\"scaled_softmax"));
  EXPECT_THAT(to_svg(program), HasSubstr(">scaled_softmax<"));
  const auto json = nlohmann::json::parse(to_json(program));
  EXPECT_EQ(json["composites"][0]["name"], "scaled_softmax");
  EXPECT_EQ(json["composites"][0]["attributes"][0]["numbers"][0]["scalar"], 1);
  EXPECT_EQ(json["composites"][0]["body"]["ops"].size(), 6u);
}

TEST(Composite, TextsThatAreRefused) {
  const auto message = [](std::string from, const std::string& to) {
    std::string text = kTwice;
    const auto at = text.find(from);
    EXPECT_NE(at, std::string::npos) << from;
    const auto program = parse_program(text.replace(at, from.size(), to));
    EXPECT_FALSE(program) << to;
    return program ? "" : program.error().message;
  };
  EXPECT_THAT(message("body=0", "body=4"), HasSubstr("line 4, column 19: composite 4 does not exist; there are 1"));
  EXPECT_THAT(message("eps=0.5", "eps=0.25"),
              HasSubstr("line 4, column 19: composite 0 is scaled_softmax(dims=[1], eps=0.5)"));
  EXPECT_THAT(message("= scaled_softmax", "= softmax"), HasSubstr("composite 0 is scaled_softmax"));
  EXPECT_THAT(message(", body=0)", ")"), HasSubstr("expected an op such as add or matmul, found 'scaled_softmax("));
  EXPECT_THAT(message("composite 0:", "composite 1:"), HasSubstr("a composite's number must be 0 here, is 1"));
  EXPECT_THAT(message("eps=0.5)\n  |", "eps=0.5, 3)\n  |"), HasSubstr("expected an attribute such as eps=1e-05"));
  EXPECT_THAT(message("= exp(", "= frob("),
              HasSubstr("composite 0, body: line 14, column 23: expected an op such as add or matmul"));
  EXPECT_THAT(message("  | output \"output\" %6[2, 3] (blobs [none])\n", "  | composite 0: inner()\n"),
              HasSubstr("a body has no composites of its own"));
  EXPECT_THAT(message("  | crucible program 2: 6 ops, 7 values, 1 iterations\n", ""),
              HasSubstr("composite 0, body: line 9"));
}

TEST(Composite, RandomOnesComeBackFromBothForms) {
  std::size_t composites = 0;
  for (std::uint64_t seed = 0; seed < 400; ++seed) {
    Program p = random_program({.seed = seed, .ops = 20}).program;
    composites += outline_randomly(p, seed);
    ASSERT_TRUE(verify(p)) << verify(p).error().message << "\n" << to_text(p);
    const auto parsed = parse_program(to_text(p));
    ASSERT_TRUE(parsed) << parsed.error().message << "\n" << to_text(p);
    ASSERT_EQ(difference(p, *parsed), "");
    const auto bytes = to_binary(p);
    const auto read = from_binary(bytes);
    ASSERT_TRUE(read) << read.error().message;
    ASSERT_EQ(difference(p, *read), "");
    ASSERT_TRUE(to_binary(*read) == bytes);
    ASSERT_TRUE(program_hash(p, {}) == program_hash(*parsed, {}));
  }
  EXPECT_GT(composites, 400u);
}

/// Values from outside first, then results, each in their order.
Program in_order(Program p) {
  std::vector<ValueId> order;
  for (ValueId v = 0; v < p.values.size(); ++v) {
    if (p.values[v].kind != ValueKind::kTemporary) order.push_back(v);
  }
  for (const Op& op : p.ops) {
    for (const Operand& out : op.outputs) order.push_back(out.value);
  }
  std::vector<ValueId> renamed(p.values.size());
  std::vector<Value> values;
  for (const ValueId v : order) {
    renamed[v] = static_cast<ValueId>(values.size());
    values.push_back(p.values[v]);
  }
  p.values = std::move(values);
  for (Op& op : p.ops) {
    for (Operand& input : op.inputs) {
      if (!input.is_scalar()) input.value = renamed[input.value];
    }
    for (Operand& out : op.outputs) out.value = renamed[out.value];
  }
  for (State& state : p.states) state.start = renamed[state.start], state.end = renamed[state.end];
  for (Input& input : p.inputs) input.value = renamed[input.value];
  for (Constant& constant : p.constants) constant.value = renamed[constant.value];
  for (Output& output : p.outputs) output.operand.value = renamed[output.operand.value];
  return p;
}

TEST(Composite, ExpandingGivesTheProgramThatWasOutlined) {
  std::size_t composites = 0, same = 0;
  for (std::uint64_t seed = 0; seed < 400; ++seed) {
    const Program before = random_program({.seed = seed, .ops = 20}).program;
    Program p = before;
    composites += outline_randomly(p, seed);
    expand_composites(p);
    ASSERT_EQ(difference(in_order(before), in_order(p)), "") << to_text(before) << to_text(p);
    same += difference(before, p).empty();
  }
  EXPECT_GT(composites, 400u);
  EXPECT_GT(same, 200u) << "numbers of values change only where values from outside were numbered among a composite's";
}

TEST(Composite, ExpandsThoseAloneThatAreDeclined) {
  Program p = random_program({.seed = 3, .ops = 40}).program;
  ASSERT_GT(outline_randomly(p, 3), 3u);
  const auto count = [](const Program& program, std::string_view name) {
    return std::ranges::count_if(program.ops, [&](const Op& op) {
      return op.kind == OpKind::kComposite && composite_of(program, op).name == name;
    });
  };
  const auto kept = count(p, "swirl");
  ASSERT_GT(kept, 0);
  expand_composites(p, [](const Composite& composite, const Op&) { return composite.name == "swirl"; });
  ASSERT_TRUE(verify(p)) << verify(p).error().message;
  EXPECT_EQ(count(p, "swirl"), kept);
  EXPECT_EQ(count(p, "mix3") + count(p, "fold_twice"), 0);
  for (const auto& composite : p.composites) EXPECT_EQ(composite->name, "swirl");
}

/// The interpreter has no implementation of such names, and runs their bodies.
TEST(Composite, KeptOnesComputeTheSameThroughAllPasses) {
  std::size_t kept = 0;
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    const RandomProgram random = random_program({.seed = seed, .ops = 20});
    const auto results = [](const Program& program, const RandomProgram& data) {
      // Passes renumber values: what comes from outside stands in the same order.
      std::vector<Bytes> values(program.values.size());
      const auto fill = [&](auto visit) {
        std::size_t next = 0;
        for (ValueId v = 0; v < data.program.values.size(); ++v) {
          if (data.program.values[v].kind == ValueKind::kTemporary) continue;
          for (; next < program.values.size() && program.values[next].kind == ValueKind::kTemporary;) ++next;
          visit(next, v);
          ++next;
        }
      };
      fill([&](std::size_t to, ValueId from) {
        if (to < values.size()) values[to] = data.values[from];
      });
      auto ran = run_iteration(program, std::move(values), data.slots);
      EXPECT_TRUE(ran) << ran.error().message;
      std::vector<Bytes> all;
      for (const Output& output : program.outputs) all.push_back(read_tensor(program, output, *ran));
      for (const State& state : program.states) all.push_back((*ran)[state.end]);
      return all;
    };
    RandomProgram outlined = random;
    outline_randomly(outlined, seed);
    ASSERT_EQ(results(outlined.program, outlined), results(random.program, random)) << "seed " << seed;
    RandomProgram passed = outlined;
    // Slots and values from outside must stay to be filled: the last pass alone takes them away.
    for (const Pass& pass : passes()) {
      if (pass.name == "eliminate_dead") continue;
      ASSERT_TRUE(pass.run(passed.program, {.keeps = reference_keeps})) << pass.name;
      ASSERT_TRUE(verify(passed.program)) << pass.name << ": " << verify(passed.program).error().message;
    }
    for (const Op& op : passed.program.ops) kept += op.kind == OpKind::kComposite;
    ASSERT_EQ(passed.program.slots.size(), random.program.slots.size());
    ASSERT_EQ(results(passed.program, passed), results(random.program, random)) << "seed " << seed << "\n"
                                                                                << to_text(outlined.program);
    ASSERT_TRUE(run_passes(passed.program, {.keeps = reference_keeps}));
  }
  EXPECT_GT(kept, 200u);
}

TEST(Composite, EqualOnesAreMergedAndUnreadOnesGo) {
  Program program = twice();
  program.composites.push_back(std::make_shared<const Composite>(*program.composites[0]));  // another entry, and equal
  program.ops[1].attributes.index = 1;
  const KeepsComposite all = reference_keeps;
  ASSERT_TRUE(run_passes(program, {.keeps = all}));
  EXPECT_EQ(program.ops.size(), 1u);
  EXPECT_EQ(program.composites.size(), 1u);
  EXPECT_EQ(program.outputs[0].operand.value, program.outputs[1].operand.value);

  Program different = twice();
  Composite other = *different.composites[0];
  other.attributes[1].numbers[0].real = 0.25;
  different.composites.push_back(std::make_shared<const Composite>(std::move(other)));
  different.ops[1].attributes.index = 1;
  ASSERT_TRUE(run_passes(different, {.keeps = all}));
  EXPECT_EQ(different.ops.size(), 2u);

  different.outputs.pop_back();
  ASSERT_TRUE(run_passes(different, {.keeps = all}));
  EXPECT_EQ(different.ops.size(), 1u);
  EXPECT_EQ(different.composites.size(), 1u);
}

TEST(Composite, TheHashIsOfNameAttributesAndBody) {
  const auto hash = [](const Program& program) { return program_hash(program, {}); };
  const auto plain = hash(twice());
  EXPECT_FALSE(plain == hash(changed([](Composite& c) { c.name = "softmax"; })));
  EXPECT_FALSE(plain == hash(changed([](Composite& c) { c.attributes[1].numbers[0].real = -0.5; })));
  EXPECT_FALSE(plain == hash(changed([](Composite& c) { c.attributes.pop_back(); })));
  EXPECT_FALSE(plain == hash(changed([](Composite& c) { c.body.ops[5].kind = OpKind::kAdd; })));
  Program moved = twice();
  moved.composites.insert(moved.composites.begin(), moved.composites[0]);
  for (Op& op : moved.ops) op.attributes.index = 1;
  EXPECT_TRUE(plain == hash(moved)) << "the entry's number says nothing";
}

TEST(Composite, WorkIsThatOfTheBody) {
  const Program program = twice();
  EXPECT_EQ(work(program, 0).bytes_read, 24u);
  EXPECT_EQ(work(program, 0).bytes_written, 24u);
  EXPECT_EQ(work(program, 0).flops, 6u * 6u);
}

/// a = exp(x), b = a + w, c = b * 2, d = a - c: d is shown.
Program chain() {
  auto program = parse_program(R"(crucible program 2: 4 ops, 6 values, 1 iterations
input %0 "x": f32[4] (blobs [0])
constant %2 "w": f32[4] (blob 1)
  %1: f32[4] = exp(%0[4])
  %3: f32[4] = add(%1[4], %2[4])
  %4: f32[4] = multiply(%3[4], 2.0)
  %5: f32[2, 2] = subtract(%1[2, 2], %4[2, 2])
output "d" %5[4] (blobs [0])
)");
  EXPECT_TRUE(program) << program.error().message;
  return program ? *std::move(program) : Program{};
}

Role role(const char* name, ValueId value, const Sizes& sizes) { return {name, {value, View::contiguous(sizes), {}}}; }

TEST(Outline, ResultsAreWhatSomebodyReadsOutside) {
  Program p = chain();
  ASSERT_EQ(outline(p, {{0,
                         3,
                         "piece",
                         {},
                         {role("w", 2, {2, 2}), role("unread", 2, {1}), role("x", 0, {2, 2})},
                         {role("c", 4, {2, 2}), role("a", 1, {4})}}}),
            1u);
  ASSERT_TRUE(verify(p)) << verify(p).error().message;
  ASSERT_EQ(p.ops.size(), 2u);
  EXPECT_THAT(to_text(p), HasSubstr("%3: f32[2, 2], %1: f32[4] = piece(%2[2, 2], %0[2, 2], body=0)"));
  EXPECT_THAT(to_text(p),
              HasSubstr("  | output \"c\" %4[2, 2] (blobs [none])\n  | output \"a\" %1[4] (blobs [none])\n"));
  expand_composites(p);
  EXPECT_EQ(difference(p, chain()), "");
}

TEST(Outline, WhatCannotBecomeOneStaysAsItIs) {
  const auto stays = [](const Outline& outline, const std::function<void(Program&)>& change = [](Program&) {}) {
    Program p = chain();
    change(p);
    const std::string before = to_text(p);
    const bool is_same = graph::outline(p, {outline}) == 0 && to_text(p) == before;
    return is_same && p.composites.empty();
  };
  const Role x = role("x", 0, {4}), w = role("w", 2, {4});
  EXPECT_FALSE(stays({0, 3, "piece", {}, {x, w}, {}}));
  EXPECT_TRUE(stays({0, 3, "piece", {}, {x}, {}})) << "w is no role";
  EXPECT_TRUE(stays({2, 2, "piece", {}, {x, w}, {}})) << "nothing";
  EXPECT_TRUE(stays({2, 9, "piece", {}, {x, w}, {}})) << "ops that do not exist";
  EXPECT_TRUE(stays({0, 3, "piece", {}, {x, w}, {}}, [](Program& p) { p.values[3].name = "b"; }))
      << "an inner value has a name";
  EXPECT_TRUE(stays({0, 3, "piece", {}, {x, w}, {}}, [](Program& p) {
    p.sources.push_back({});
    p.ops[1].source = 0;
  })) << "ops of two sources";
  EXPECT_TRUE(stays({0, 4, "piece", {}, {x, w}, {}}, [](Program& p) { p.outputs.clear(); })) << "nobody reads a result";
}

TEST(Outline, RolesOfOneValueAreToldApartByTheirElements) {
  auto program = parse_program(R"(crucible program 2: 2 ops, 3 values, 1 iterations
input %0 "qk": f32[8] (blobs [0])
  %1: f32[4] = exp(%0[4]+4)
  %2: f32[2] = add(%0[2]+1, %1[2])
output "d" %2[2] (blobs [0])
)");
  ASSERT_TRUE(program) << program.error().message;
  const Role q{"q", {0, {0, {4}, {1}}, {}}}, k{"k", {0, {4, {4}, {1}}, {}}}, both{"both", {0, {0, {8}, {1}}, {}}};
  Program p = *program;
  ASSERT_EQ(outline(p, {{0, 2, "piece", {}, {q, k}, {}}}), 1u);
  EXPECT_THAT(to_text(p), HasSubstr("= piece(%0[4], %0[4]+4, body=0)"));
  EXPECT_THAT(to_text(p), HasSubstr("exp(%1[4]+4)"));
  EXPECT_THAT(to_text(p), HasSubstr("add(%0[2]+1, %2[2])"));
  Program unclear = *program;
  EXPECT_EQ(outline(unclear, {{0, 2, "piece", {}, {q, k, both}, {}}}), 0u) << "%0[2]+1 is of q and of both";
}

}  // namespace
}  // namespace crucible::graph
