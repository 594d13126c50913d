// The text forms of ops and arguments.
#include "core/trace/text.hpp"

#include <gtest/gtest.h>

#include <cstdlib>
#include <limits>

#include "core/trace/trace_samples.hpp"

namespace crucible::trace {
namespace {

TEST(TraceText, OpWithNamedArguments) {
  const Trace trace = samples::scalar_trace({0.1});
  EXPECT_EQ(op_text(Compounds(trace), trace.ops[0]),
            "aten::add.Scalar(self=f32[4, 32]@0, other=0.1, alpha=1) -> f32[4, 32]@1");
}

TEST(TraceText, EveryKindOfArgument) {
  const Trace trace = samples::small_trace();
  std::string all;
  for (const Arg& arg : trace.ops[0].args) all += arg_text(Compounds(trace), arg) + "\n";
  EXPECT_EQ(
      all,
      "none\ntrue\nfalse\n-9223372036854775808\n9223372036854775807\n-1\n-0.0\n1e-310\nnan\n-nan\n-inf\n(0.1, -0.0i)\n"
      "\"größe 尺寸 \xF0\x9F\x94\xA5 \\xff not UTF-8\"\n\"a\\x00b\"\nf32\ncuda:0\nlayout(2)\nmemory_format(3)\n"
      "generator(default cpu)\ni64[]@1-3\nundefined\n[]\n[f32[2, 2]@0, undefined, [7, [[0.1]]]]\n"
      "<__torch__.torch.classes.c10d.ProcessGroup>\n");
}

TEST(TraceText, TensorThatIsNotRowMajorShowsStrides) {
  Trace trace;
  trace.tensors = {{3, DType::kF32, false, false, 8, {4, 128}, {1, 4}},
                   {3, DType::kF32, false, false, 0, {1, 4}, {99, 1}},
                   {kNone, DType::kBF16, false, false, 0, {2, 2}, {0, 0}}};
  EXPECT_EQ(tensor_text(Compounds(trace), 0), "f32[4, 128]{1, 4}@3+8");
  EXPECT_EQ(tensor_text(Compounds(trace), 1), "f32[1, 4]@3");
  EXPECT_EQ(tensor_text(Compounds(trace), 2), "bf16[2, 2]{0, 0}@none");
  EXPECT_EQ(tensor_text(Compounds(trace), 3), "?");
}

TEST(TraceText, CompoundTensorShowsKindAndParts) {
  Trace trace = samples::small_trace();
  EXPECT_EQ(tensor_text(Compounds(trace), 2),
            "other[0, 5]{5, -1}@sparse_coo(indices=i64[]@1-3, values=[f32[2, 2]@0])+1");
  trace.tensors.push_back(trace.tensors[2]);
  Arg inner;
  inner.kind = Arg::Kind::kTensor;
  inner.tensor = 2;
  trace.compounds.push_back({3, "nes\nted", {{"of", inner}}});
  EXPECT_EQ(tensor_text(Compounds(trace), 3), "other[0, 5]{5, -1}@\"nes\\nted\"(of=other[0, 5]{5, -1}@sparse_coo+1)+1");
}

TEST(TraceText, ArgumentNamesOfSchemas) {
  using Names = std::vector<std::string>;
  EXPECT_EQ(argument_names("aten::add_.Tensor(Tensor(a!) self, Tensor other, *, Scalar alpha=1) -> Tensor(a!)"),
            (Names{"self", "other", "alpha"}));
  EXPECT_EQ(argument_names("x::y(float[2] beta=[0.9, 0.99], str mode=\"a=b\", Tensor?[] indices) -> ()"),
            (Names{"beta", "mode", "indices"}));
  EXPECT_EQ(argument_names("aten::empty() -> Tensor"), Names{});
  EXPECT_EQ(argument_names("no schema"), Names{});
  EXPECT_EQ(argument_names("broken(Tensor self"), Names{});
}

TEST(TraceText, DoublesReadBackAsTheSameNumber) {
  for (const double number : {0.1, 1.0, 1e300, 5e-324, -2.5, 0.99999999999999989, std::numeric_limits<double>::max()}) {
    EXPECT_EQ(std::strtod(double_text(number).c_str(), nullptr), number) << double_text(number);
  }
  EXPECT_EQ(double_text(1.0), "1.0");
}

TEST(Text, ANameOfAFileStaysInItsLine) {
  Trace trace;
  trace.sites = {{"folder/two\nlines.py", 9, "step"}};
  EXPECT_EQ(trace.site_text(0), "\"two\\nlines.py\":9");
}

}  // namespace
}  // namespace crucible::trace
