// Sparse tensors: their parts as terms, and what is refused about them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "frontends/aten/lower.hpp"
#include "frontends/aten/testing/trace_builder.hpp"

namespace crucible::aten {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using B = TraceBuilder;

constexpr const char* kMake =
    "aten::_sparse_coo_tensor_with_dims_and_tensors(int sparse_dim, int dense_dim, SymInt[] size, Tensor indices, "
    "Tensor values, *, "
    "ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=False, bool? "
    "is_coalesced=None) -> Tensor";
constexpr const char* kMultiply = "aten::mul.Tensor(Tensor self, Tensor other) -> Tensor";
constexpr const char* kExp = "aten::exp(Tensor self) -> Tensor";

/// A step that adds a sparse tensor, made of places and values from outside, to rows.
struct Step {
  B b;
  trace::TensorId rows, places, values;

  Step() : rows(b.fresh({3, 2})), places(b.fresh({1, 3}, DType::kI64)), values(b.fresh({3, 2})) {
    b.external(b.storage_of(rows), {1, 2, 3, 4, 5, 6}, trace::Role::kParameter, "rows");
  }

  trace::TensorId made(const std::vector<std::int64_t>& where, std::int64_t sparse_dims = 1) {
    std::vector<std::byte> bytes(where.size() * sizeof(std::int64_t));
    std::memcpy(bytes.data(), where.data(), bytes.size());
    b.external_bytes(b.storage_of(places), bytes, trace::Role::kInput, "places");
    std::vector<float> numbers(2 * where.size());
    for (std::size_t i = 0; i < numbers.size(); ++i) numbers[i] = 10 * static_cast<float>(i + 1);
    b.external(b.storage_of(values), numbers, trace::Role::kInput, "values");
    const auto sparse = b.sparse({3, 2}, places, values, sparse_dims);
    b.op(kMake,
         {B::integer(1), B::integer(1), B::integers({3, 2}), B::tensor(places), B::tensor(values), B::none(), B::none(),
          B::none(), B::none(), B::none()},
         {B::tensor(sparse)});
    return sparse;
  }

  void add(trace::TensorId sparse) {
    b.op(kAddInPlace, {B::tensor(rows), B::tensor(sparse), B::number(-1)}, {B::tensor(rows)});
  }

  std::string refusal() {
    const auto program = lower(b.trace(), Opaques::kRefuse);
    EXPECT_FALSE(program);
    return program ? "" : program.error().message;
  }
};

TEST(SparseTensors, AreAddedPlaceByPlace) {
  Step step;
  for (const auto& where : {std::vector<std::int64_t>{2, 0, 2}, {1, 1, 1}}) {
    step.add(step.made(where));
    step.b.end_iteration();
  }
  const auto program = lower(step.b.trace());
  ASSERT_TRUE(program) << program.error().message;
  auto replay = graph::replay_reference(*program, *step.b.trace().blob_store, 2);
  ASSERT_TRUE(replay) << replay.error().message;
  EXPECT_THAT(floats(replay->states[0]), ElementsAre(1 - 30, 2 - 40, 3 - 90, 4 - 120, 5 - 60, 6 - 80));
}

TEST(SparseTensors, OpsWithoutALoweringForThemAreNamed) {
  Step step;
  step.b.op(kExp, {B::tensor(step.made({0, 1, 2}))}, {B::tensor(step.b.fresh({3, 2}))});
  step.b.end_iteration();
  EXPECT_THAT(step.refusal(), HasSubstr("aten::exp on sparse tensors"));
}

TEST(SparseTensors, ProductsOfTwoAreRefused) {
  Step step;
  const auto sparse = step.made({0, 1, 2});
  step.b.op(kMultiply, {B::tensor(sparse), B::tensor(sparse)}, {B::tensor(sparse)});
  step.b.end_iteration();
  EXPECT_THAT(step.refusal(), HasSubstr("a product of two sparse tensors is not supported"));
}

TEST(SparseTensors, PartsThatDoNotFitAreRefused) {
  Step step;
  step.add(step.made({0, 1, 2}, 2));
  step.b.end_iteration();
  EXPECT_THAT(step.refusal(), HasSubstr("is no sparse tensor"));
}

TEST(SparseTensors, AnotherNumberOfPlacesIsAnotherVariant) {
  Step step;
  step.add(step.made({0, 1, 2}));
  step.b.end_iteration();
  step.places = step.b.fresh({1, 2}, DType::kI64);
  step.values = step.b.fresh({2, 2});
  step.add(step.made({0, 1}));
  step.b.end_iteration();
  const auto variants = lower_variants(step.b.trace());
  ASSERT_TRUE(variants) << variants.error().message;
  ASSERT_EQ(variants->programs.size(), 2u);
  EXPECT_THAT(variants->differences[1], HasSubstr("iterations 0 and 1 differ at op 0"));
  auto replay = graph::replay_reference(*variants, *step.b.trace().blob_store, 2);
  ASSERT_TRUE(replay) << replay.error().message;
  EXPECT_THAT(floats(replay->states[0]), ElementsAre(1 - 20, 2 - 40, 3 - 60, 4 - 80, 5 - 50, 6 - 60));
}

}  // namespace
}  // namespace crucible::aten
