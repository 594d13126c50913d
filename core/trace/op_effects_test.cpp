// What ops do to storages, by their schemas.
#include "core/trace/op_effects.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/trace/trace_maker.hpp"

namespace crucible::trace {
namespace {

using samples::list_of;
using samples::tensor_of;
using samples::TraceMaker;
using ::testing::ElementsAre;

TEST(ArgumentDeclarations, SplitsAtCommasOutsideBracketsAndQuotes) {
  EXPECT_THAT(
      argument_declarations("a::b(Tensor(a!)[] self, int[2] k=[1, 2], *, str r=\"x, y)\", (int, int)? t=None) -> ()"),
      ElementsAre("Tensor(a!)[] self", "int[2] k=[1, 2]", "str r=\"x, y)\"", "(int, int)? t=None"));
  EXPECT_THAT(argument_declarations("a::b() -> ()"), ElementsAre());
  EXPECT_THAT(argument_declarations("no schema"), ElementsAre());
  EXPECT_THAT(argument_declarations("a::b(Tensor self"), ElementsAre());
}

/// "w" for a written use, "r" for a read one, "o" for one that overwrites all, in the order of the arguments.
std::string uses_of(TraceMaker& maker, const std::string& schema, std::vector<Arg> args,
                    std::vector<Arg> outputs = {}) {
  if (maker.trace.iterations.empty()) maker.begin_iteration();
  const std::uint32_t index = maker.op(schema, std::move(args), std::move(outputs));
  OpEffects effects(maker.trace);
  std::string text;
  for (const TensorUse& use : effects.uses(maker.trace.ops[index]))
    text += use.is_replaced ? 'o' : use.is_written ? 'w' : 'r';
  return text;
}

TEST(OpEffects, WritesAreTheAnnotatedArguments) {
  TraceMaker maker;
  const Arg a = tensor_of(maker.tensor({4})), b = tensor_of(maker.tensor({4})), c = tensor_of(maker.tensor({4}));
  EXPECT_EQ(uses_of(maker, "aten::add.Tensor(Tensor self, Tensor other) -> Tensor", {a, b}), "rr");
  EXPECT_EQ(uses_of(maker, "aten::add_.Tensor(Tensor(a!) self, Tensor other) -> Tensor(a!)", {a, b}, {a}), "wr");
  EXPECT_EQ(uses_of(maker, "aten::add.out(Tensor self, Tensor other, *, Tensor(a!) out) -> Tensor(a!)", {a, b, c}, {c}),
            "rrw");
  EXPECT_EQ(uses_of(maker, "aten::_foreach_add_.List(Tensor(a!)[] self, Tensor[] other) -> ()",
                    {list_of({a, b}), list_of({c})}),
            "wwr");
  EXPECT_EQ(uses_of(maker, "aten::record_stream(Tensor(a!) self, Stream s) -> ()", {a, samples::integer(0)}), "r")
      << "it tells the allocator";
  EXPECT_EQ(uses_of(maker, "aten::view(Tensor(a) self, int[] size) -> Tensor(a)", {a, list_of({})}, {a}), "r");
  EXPECT_EQ(uses_of(maker, "c10d::broadcast_(Tensor[] tensors, int root) -> Work", {list_of({a}), samples::integer(0)}),
            "w");
}

TEST(OpEffects, AResultThatSharesQuietlyIsAWrite) {
  TraceMaker maker;
  const Arg a = tensor_of(maker.tensor({4}));
  EXPECT_EQ(uses_of(maker, "custom::inplace(Tensor self) -> Tensor", {a}, {a}), "w");
  EXPECT_EQ(uses_of(maker, "not a schema", {a}), "w") << "in doubt it writes";
}

TEST(OpEffects, OverwritingNeedsTheWholeStorage) {
  TraceMaker maker;
  const TensorId whole = maker.tensor({2, 3});
  const char* const zero = "aten::zero_(Tensor(a!) self) -> Tensor(a!)";
  EXPECT_EQ(uses_of(maker, zero, {tensor_of(whole)}), "o");
  maker.trace.tensors.push_back({0, DType::kF32, false, false, 0, {3, 2}, {1, 3}});
  EXPECT_EQ(uses_of(maker, zero, {tensor_of(1)}), "o") << "transposed is whole too";
  maker.trace.tensors.push_back({0, DType::kF32, false, false, 1, {5}, {1}});
  EXPECT_EQ(uses_of(maker, zero, {tensor_of(2)}), "w") << "without the first element";
  maker.trace.tensors.push_back({0, DType::kF32, false, false, 0, {6}, {0}});
  EXPECT_EQ(uses_of(maker, zero, {tensor_of(3)}), "w") << "one element six times";
  maker.trace.tensors.push_back({0, DType::kBF16, false, false, 0, {6}, {1}});
  EXPECT_EQ(uses_of(maker, zero, {tensor_of(4)}), "w") << "half of the bytes";
  EXPECT_EQ(uses_of(maker, "aten::relu_(Tensor(a!) self) -> Tensor(a!)", {tensor_of(whole)}), "w") << "it reads them";
}

}  // namespace
}  // namespace crucible::trace
