// Text, JSON and Graphviz forms: the exact text of one program, and that every field shows.
#include "core/graph/print.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <nlohmann/json.hpp>

#include "core/graph/random_program.hpp"

namespace crucible::graph {
namespace {

using testing::HasSubstr;

Program example() {
  Program p;
  p.iterations = 2;
  p.values = {{ValueKind::kState, DType::kF32, 6, "w", kNone},
              {ValueKind::kTemporary, DType::kF32, 6, "", 0},
              {ValueKind::kTemporary, DType::kF32, 1, "", 1}};
  p.slots = {{"rate", {0.5, 0.25}}};
  p.states = {{0, 1, 3, kNone}};
  p.sources = {{"aten::mul_.Tensor", "blocks.0", "train.py:31", Phase::kOptimizer, 7}};
  Operand rate;
  rate.scalar.slot = 0;
  Op scale{OpKind::kMultiply, {{0, {0, {3, 2}, {1, 3}}, {}}, rate}, {{1, {0, {3, 2}, {1, 3}}, {}}}, {}, 0};
  Op sum{OpKind::kReduceSum, {{1, {3, {3}, {1}}, {}}}, {{2, {0, {1}, {0}}, {}}}, {}, kNone};
  sum.attributes.dims = {0};
  p.ops = {scale, sum};
  p.outputs = {{"loss", {2, View::contiguous({}), {}}, {1.5, 2}}};
  return p;
}

TEST(Print, Text) {
  ASSERT_TRUE(verify(example()));
  EXPECT_EQ(to_text(example()),
            "crucible program 2: 2 ops, 3 values, 2 iterations\n"
            "slot 0 \"rate\": [0.5, 0.25]\n"
            "state %0 \"w\": f32[6] -> %1 (blob 3, final blob none)\n"
            "  %1: f32[3, 2]{1, 3} = multiply(%0[3, 2]{1, 3}, slot 0)  @0 ; aten::mul_.Tensor blocks.0 train.py:31\n"
            "  %2: f32[1]{0} = reduce_sum(%1[3]+3, dims=[0])\n"
            "output \"loss\" %2[] (recorded [1.5, 2.0])\n"
            "source 0: optimizer 7 \"aten::mul_.Tensor\" \"blocks.0\" \"train.py:31\"\n");
}

TEST(Print, TensorsAndWhatIsLeftOut) {
  Program p = example();
  p.outputs.push_back({"logits", {1, View::contiguous({6}), {}}, {}, {4, 5}});
  p.left_out = {"past: no recorded op reads or writes it"};
  ASSERT_TRUE(verify(p));
  EXPECT_THAT(
      to_text(p),
      HasSubstr("output \"logits\" %1[6] (blobs [4, 5])\nleft out \"past: no recorded op reads or writes it\"\n"));
  const auto json = nlohmann::json::parse(to_json(p));
  EXPECT_EQ(json["outputs"][1]["blobs"][1], 5);
  EXPECT_EQ(json["left_out"][0], p.left_out[0]);
}

TEST(Print, Scalars) {
  EXPECT_EQ(to_text(Scalar{kNone, false, 0.1, 0}), "0.1");
  EXPECT_EQ(to_text(Scalar{kNone, false, 2, 0}), "2.0");
  EXPECT_EQ(to_text(Scalar{kNone, true, 0, 2}), "2");
  EXPECT_EQ(to_text(Scalar{kNone, false, -std::numeric_limits<double>::infinity(), 0}), "-inf");
  EXPECT_EQ(to_text(Scalar{3, true, 0, 0}), "slot 3i");
}

TEST(Print, JsonHoldsEverything) {
  const auto json = nlohmann::json::parse(to_json(example()));
  EXPECT_EQ(json["ops"].size(), 2u);
  EXPECT_EQ(json["ops"][0]["kind"], "multiply");
  EXPECT_EQ(json["ops"][0]["inputs"][1]["slot"], 0);
  EXPECT_EQ(json["ops"][0]["source"]["phase"], "optimizer");
  EXPECT_EQ(json["ops"][1]["attributes"]["dims"][0], 0);
  EXPECT_EQ(json["states"][0]["final_blob"], nullptr);
  EXPECT_EQ(json["outputs"][0]["recorded"][0], 1.5);
}

TEST(Print, DotNamesEveryUse) {
  const auto dot = to_dot(example());
  EXPECT_THAT(dot, HasSubstr("v0 -> o0"));
  EXPECT_THAT(dot, HasSubstr("o0 -> o1"));
}

TEST(Print, SvgDrawsEveryOpAndHasNoByteThatXmlForbids) {
  Program p = example();
  p.values[0].name = "\x01<\xff&\xed\xa0\x80\"ü";
  p.sources[0].module = "a\n<b>";
  const std::string svg = to_svg(p);
  EXPECT_THAT(svg, HasSubstr(">multiply</text>"));
  EXPECT_THAT(svg, HasSubstr(">reduce_sum</text>"));
  EXPECT_THAT(svg, HasSubstr("\xef\xbf\xbd&lt;\xef\xbf\xbd&amp;\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd&quot;ü"));
  EXPECT_THAT(svg, testing::Not(HasSubstr("<b>")));
  EXPECT_EQ(svg.find_first_of(std::string("\x01\xff\0", 3)), std::string::npos);
  // Two ops, one value from outside that both edges of the drawing begin at or lead to.
  const auto count = [&](std::string_view what) {
    std::size_t found = 0;
    for (std::size_t at = svg.find(what); at != std::string::npos; at = svg.find(what, at + 1)) ++found;
    return found;
  };
  EXPECT_EQ(count("<g><title>"), 3u);
  EXPECT_EQ(count("<path "), 2u);
}

TEST(Print, SvgOfAPartAndOfNothing) {
  const std::string part = to_svg(example(), {"blocks", Phase::kOptimizer});
  EXPECT_THAT(part, HasSubstr(">multiply</text>"));
  EXPECT_THAT(part, testing::Not(HasSubstr(">reduce_sum</text>")));
  EXPECT_THAT(to_svg({}), testing::EndsWith("</svg>\n"));
  EXPECT_EQ(to_svg({}).find('-', to_svg({}).find("viewBox")), to_svg({}).find("-family")) << "no negative size";
}

TEST(Print, DifferentProgramsHaveDifferentTexts) {
  Program p = random_program({.seed = 3}).program;
  const std::string text = to_text(p);
  p.ops[2].attributes.alpha += p.ops[2].kind == OpKind::kMatMul ? 1 : 0;
  p.values[0].dtype = DType::kF64;
  EXPECT_NE(to_text(p), text);
}

}  // namespace
}  // namespace crucible::graph
