// What is said of an op that is known and has no lowering; that each is named is asked by
// tests/aten/dispatcher_test.py.
#include "frontends/aten/call/refusals.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/graph/opaque.hpp"
#include "frontends/aten/testing/lowered_trace.hpp"

namespace crucible::aten {
namespace {

using testing::HasSubstr;
using B = TraceBuilder;

TEST(Refusals, SayWhyAndWhatToDo) {
  TraceBuilder b;
  const auto x = b.fresh({2, 2}), y = b.fresh({2, 2});
  b.external(b.storage_of(x), {1, 2, 3, 4}, trace::Role::kParameter, "x");
  b.op("aten::_scaled_mm(Tensor self, Tensor mat2) -> Tensor", {B::tensor(x), B::tensor(x)}, {B::tensor(y)});
  b.op(kAddInPlace, {B::tensor(x), B::tensor(y), B::integer(1)}, {B::tensor(x)});
  b.end_iteration();
  const std::string wanted =
      "aten::_scaled_mm: 1 per iteration, first at train.py:1 (it computes with 8-bit floats, a dtype that recordings "
      "do "
      "not have; record the model in bf16, without its layers of 8-bit floats)";
  EXPECT_THAT(refusal(b), HasSubstr(wanted));
  const auto opaque = lower(b.trace(), Opaques::kMissing);
  ASSERT_TRUE(opaque) << opaque.error().message;
  EXPECT_THAT(graph::opaque_list(*opaque), HasSubstr(wanted));
}

TEST(Refusals, NamesAndPatterns) {
  EXPECT_NE(find_refusal("aten::hash_tensor.out"), nullptr) << "a name is one of all its overloads";
  EXPECT_EQ(find_refusal("aten::hash_tensors"), nullptr);
  EXPECT_NE(find_refusal("aten::_cslt_compress"), nullptr) << "a beginning";
  EXPECT_NE(find_refusal("aten::values_copy"), nullptr) << "an end";
  EXPECT_EQ(refusal_text("aten::no_such_op"), "");
}

}  // namespace
}  // namespace crucible::aten
