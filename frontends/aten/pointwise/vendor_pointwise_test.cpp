// Element-wise ops and sums that only a device's build of the framework runs: dropout with a mask of bytes, sums of
// powers of lists, and what tells the allocator of a stream.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "frontends/aten/testing/lowered_trace.hpp"
#include "frontends/aten/testing/vendor_case.hpp"

namespace crucible::aten {
namespace {

using testing::ElementsAre;
using testing::FloatEq;

TEST(Vendors, TheGradientOfDropoutWithAMask) {
  const Case scale{"aten::_masked_scale(Tensor self, Tensor mask, float scale) -> Tensor",
                   {{2, 3}, {2, 3}},
                   [](const Ids& in) { return Args{t(in[0]), t(in[1]), B::number(1.25)}; },
                   {{2, 3}}};
  std::vector<float> wanted;
  for (std::size_t k = 0; k < 6; ++k) wanted.push_back(content_of(0, k) * content_of(1, k) * 1.25f);
  expect_near(numbers_of(scale).at("result 0"), wanted);
}

TEST(Vendors, DropoutKeepsTheShareThatItIsGiven) {
  TraceBuilder b;
  const auto x = b.fresh({4}), dropped = b.fresh({4}), mask = b.fresh({4});
  b.external(b.storage_of(x), {1, 2, 3, 4}, trace::Role::kParameter, "x");
  const auto op = b.op("aten::_fused_dropout(Tensor self, float p, Generator? generator=None) -> (Tensor, Tensor)",
                       {B::tensor(x), B::number(0.8), B::none()}, {B::tensor(dropped), B::tensor(mask)});
  b.draw(op, 1, {1, 0, 0, 1});
  b.op("aten::copy_(Tensor(a!) self, Tensor src, bool non_blocking=False) -> Tensor(a!)",
       {B::tensor(x), B::tensor(dropped), B::boolean(false)}, {B::tensor(x)});
  b.end_iteration();
  EXPECT_THAT(final_state(b, lowered(b)), ElementsAre(FloatEq(1.25), 0, 0, FloatEq(5)));
}

TEST(Vendors, SumsOfPowersOfAList) {
  for (const double order : {1.0, 2.0, 3.0}) {
    SCOPED_TRACE(order);
    TraceBuilder b;
    const auto x = b.fresh({2}), y = b.fresh({1}), of_x = b.fresh({}), of_y = b.fresh({});
    b.external(b.storage_of(x), {-1, 2}, trace::Role::kParameter, "x");
    b.external(b.storage_of(y), {3}, trace::Role::kParameter, "y");
    b.op("aten::_foreach_powsum.Scalar(Tensor[] self, Scalar ord=2, ScalarType? dtype=None) -> Tensor[]",
         {B::list({B::tensor(x), B::tensor(y)}), B::number(order), B::none()},
         {B::list({B::tensor(of_x), B::tensor(of_y)})});
    b.op(kAddInPlace, {B::tensor(x), B::tensor(of_x), B::integer(1)}, {B::tensor(x)});
    b.op(kAddInPlace, {B::tensor(y), B::tensor(of_y), B::integer(1)}, {B::tensor(y)});
    b.end_iteration();
    const auto program = lowered(b);
    const auto sum = static_cast<float>(1 + std::pow(2, order));
    EXPECT_THAT(final_state(b, program, 0), ElementsAre(FloatEq(sum - 1), FloatEq(sum + 2)));
    EXPECT_THAT(final_state(b, program, 1), ElementsAre(FloatEq(3 + static_cast<float>(std::pow(3, order)))));
  }
}

/// Prefetchers call it for each batch: the recording is whole without it.
TEST(Vendors, TellingTheAllocatorOfAStreamWritesNothing) {
  TraceBuilder b;
  const auto x = b.fresh({3}), y = b.fresh({3});
  b.external(b.storage_of(x), {1, 2, 3}, trace::Role::kParameter, "x");
  b.op("aten::neg(Tensor self) -> Tensor", {B::tensor(x)}, {B::tensor(y)});
  b.op("aten::record_stream(Tensor(a!) self, Stream s) -> ()", {B::tensor(y), B::integer(0)}, {});
  b.op("aten::copy_(Tensor(a!) self, Tensor src, bool non_blocking=False) -> Tensor(a!)",
       {B::tensor(x), B::tensor(y), B::boolean(false)}, {B::tensor(x)});
  b.end_iteration();
  EXPECT_THAT(final_state(b, lowered(b)), ElementsAre(-1, -2, -3));
}

/// Which of a recording's numbers were rounded to TF32 is known from its device and from what its switches were.
TEST(Vendors, ProductsOfARecordingThatRoundedThem) {
  const auto was_tf32 = [](const std::string& device, const std::string& precision) {
    TraceBuilder b;
    const auto x = b.fresh({2, 2}), y = b.fresh({2, 2});
    b.external(b.storage_of(x), {1, 2, 3, 4}, trace::Role::kParameter, "x");
    b.op("aten::mm(Tensor self, Tensor mat2) -> Tensor", {B::tensor(x), B::tensor(x)}, {B::tensor(y)});
    b.op("aten::copy_(Tensor(a!) self, Tensor src, bool non_blocking=False) -> Tensor(a!)",
         {B::tensor(x), B::tensor(y), B::boolean(false)}, {B::tensor(x)});
    b.end_iteration();
    trace::Trace recorded = b.trace();
    recorded.metadata.device = device;
    recorded.metadata.precision = precision;
    const auto program = lower(recorded);
    EXPECT_TRUE(program) << program.error().message;
    return program && program->was_tf32;
  };
  EXPECT_TRUE(was_tf32("cuda:0", "cuda.matmul=tf32, cuda.conv=none"));
  EXPECT_FALSE(was_tf32("cuda:0", "cuda.matmul=none, cuda.conv=tf32")) << "it has no convolution";
  EXPECT_FALSE(was_tf32("cpu", "cuda.matmul=tf32, cuda.conv=tf32"));
  EXPECT_FALSE(was_tf32("cuda:0", ""));
}

}  // namespace
}  // namespace crucible::aten
