// Indices that come from data: which ranges are expected of them, which are proven, and what a run says of those
// outside.
#include "frontends/aten/algebra/index_bounds.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <span>
#include <utility>
#include <vector>

#include "core/graph/bounds.hpp"
#include "frontends/aten/algebra/emitter.hpp"
#include "frontends/aten/testing/lowered_trace.hpp"

namespace crucible::aten {
namespace {

using graph::OpKind;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using B = TraceBuilder;

constexpr const char* kEmbedding =
    "aten::embedding(Tensor weight, Tensor indices, SymInt padding_idx=-1, bool scale_grad_by_freq=False, bool "
    "sparse=False) -> Tensor";
constexpr const char* kEmbeddingBackward =
    "aten::embedding_dense_backward(Tensor grad_output, Tensor indices, SymInt num_weights, SymInt padding_idx, bool "
    "scale_grad_by_freq) -> Tensor";
constexpr const char* kIndex = "aten::index.Tensor(Tensor self, Tensor?[] indices) -> Tensor";
constexpr const char* kGather = "aten::gather(Tensor self, int dim, Tensor index, *, bool sparse_grad=False) -> Tensor";
constexpr const char* kScatterAdd = "aten::scatter_add(Tensor self, int dim, Tensor index, Tensor src) -> Tensor";
constexpr const char* kTake = "aten::take(Tensor self, Tensor index) -> Tensor";
constexpr const char* kArgmax = "aten::argmax(Tensor self, int? dim=None, bool keepdim=False) -> Tensor";
constexpr const char* kNll =
    "aten::nll_loss_forward(Tensor self, Tensor target, Tensor? weight, int reduction, SymInt ignore_index) -> (Tensor "
    "output, Tensor total_weight)";

std::vector<graph::Bound> bounds_of(const graph::Program& program) {
  for (const graph::Output& output : program.outputs) {
    if (output.is_bounds()) return output.bounds;
  }
  return {};
}

using Range = std::pair<std::int64_t, std::int64_t>;

std::vector<Range> ranges_of(const graph::Program& program) {
  std::vector<Range> ranges;
  for (const graph::Bound& bound : bounds_of(program)) ranges.emplace_back(bound.low, bound.high);
  return ranges;
}

/// Ids that are another batch in each of two iterations, so that they are an input.
trace::TensorId ids_of(TraceBuilder& b, int iteration, trace::TensorId ids, std::vector<std::int64_t> values) {
  values[0] += iteration;
  b.external_bytes(b.storage_of(ids), std::as_bytes(std::span(values)), trace::Role::kInput, "ids");
  return ids;
}

/// Two iterations of one op on a table of 4 rows and 3 ids.
template <class Record>
graph::Program program_of(Record record) {
  TraceBuilder b;
  const auto table = b.fresh({4, 2});
  const auto ids = b.fresh({3}, DType::kI64);
  for (int i = 0; i < 2; ++i) {
    if (i == 0) b.external(b.storage_of(table), {0, 1, 2, 3, 4, 5, 6, 7}, trace::Role::kParameter, "table");
    ids_of(b, i, ids, {0, 1, 3});
    record(b, table, ids);
    b.end_iteration();
  }
  return lowered(b);
}

void add_to(TraceBuilder& b, trace::TensorId table, trace::TensorId sum) {
  b.op(kAddInPlace, {B::tensor(table), B::tensor(sum), B::integer(1)}, {B::tensor(table)});
}

TEST(IndexBounds, AreThoseOfTheFramework) {
  EXPECT_THAT(ranges_of(program_of([](TraceBuilder& b, auto table, auto ids) {
                const auto rows = b.fresh({3, 2}), sum = b.fresh({});
                b.op(kEmbedding,
                     {B::tensor(table), B::tensor(ids), B::integer(-1), B::boolean(false), B::boolean(false)},
                     {B::tensor(rows)});
                b.op(kSum, {B::tensor(rows), B::none()}, {B::tensor(sum)});
                add_to(b, table, sum);
              })),
              ElementsAre(Range(0, 3)));
  EXPECT_THAT(ranges_of(program_of([](TraceBuilder& b, auto table, auto ids) {
                const auto rows = b.fresh({3, 2}), sum = b.fresh({});
                b.op(kIndex, {B::tensor(table), B::list({B::tensor(ids)})}, {B::tensor(rows)});
                b.op(kSum, {B::tensor(rows), B::none()}, {B::tensor(sum)});
                add_to(b, table, sum);
              })),
              ElementsAre(Range(-4, 3)))
      << "negative ones count from the end";
  EXPECT_THAT(ranges_of(program_of([](TraceBuilder& b, auto table, auto ids) {
                const auto taken = b.fresh({3}), sum = b.fresh({});
                b.op(kTake, {B::tensor(table), B::tensor(ids)}, {B::tensor(taken)});
                b.op(kSum, {B::tensor(taken), B::none()}, {B::tensor(sum)});
                add_to(b, table, sum);
              })),
              ElementsAre(Range(-8, 7)));
}

TEST(IndexBounds, OfTheSameIdsAreOne) {
  const auto program = program_of([](TraceBuilder& b, auto table, auto ids) {
    const auto rows = b.fresh({3, 2}), gradient = b.fresh({4, 2});
    b.op(kEmbedding, {B::tensor(table), B::tensor(ids), B::integer(-1), B::boolean(false), B::boolean(false)},
         {B::tensor(rows)});
    b.op(kEmbeddingBackward, {B::tensor(rows), B::tensor(ids), B::integer(4), B::integer(-1), B::boolean(false)},
         {B::tensor(gradient)});
    add_to(b, table, gradient);
  });
  EXPECT_THAT(ranges_of(program), ElementsAre(Range(0, 3)));
  EXPECT_EQ(program.sources[bounds_of(program)[0].source].op, "aten::embedding");
}

TEST(IndexBounds, OfWhatAnOpFoundAreProven) {
  const auto program = program_of([](TraceBuilder& b, auto table, auto ids) {
    const auto best = b.fresh({1, 2}, DType::kI64), found = b.fresh({1, 2}), sum = b.fresh({});
    b.op(kArgmax, {B::tensor(table), B::integer(0), B::boolean(true)}, {B::tensor(best)});
    b.op(kGather, {B::tensor(table), B::integer(0), B::tensor(best), B::boolean(false)}, {B::tensor(found)});
    b.op(kSum, {B::tensor(found), B::none()}, {B::tensor(sum)});
    add_to(b, table, sum);
    (void)ids;
  });
  EXPECT_THAT(ranges_of(program), IsEmpty());
}

TEST(IndexBounds, LetTheIgnoredClassPass) {
  TraceBuilder b;
  const auto scores = b.fresh({2, 3});
  const auto classes = b.fresh({2}, DType::kI64);
  const auto loss = b.fresh({}), weight = b.fresh({});
  for (int i = 0; i < 2; ++i) {
    if (i == 0) b.external(b.storage_of(scores), {0, 1, 2, 3, 4, 5}, trace::Role::kParameter, "scores");
    ids_of(b, i, classes, {1, -100});
    b.op(kNll, {B::tensor(scores), B::tensor(classes), B::none(), B::integer(1), B::integer(-100)},
         {B::tensor(loss), B::tensor(weight)});
    add_to(b, scores, loss);
    b.end_iteration();
  }
  const auto program = lowered(b);
  EXPECT_THAT(ranges_of(program), ElementsAre(Range(0, 2)));
  EXPECT_TRUE(graph::replay_reference(program, *b.trace().blob_store, 2));
}

/// A table of 4 rows that never change, and ids that never change either.
std::string constant_ids(std::vector<std::int64_t> ids) {
  TraceBuilder b;
  const auto table = b.fresh({4, 2}), w = b.fresh({4, 2});
  const auto where = b.fresh({2, 2}, DType::kI64);
  for (int i = 0; i < 2; ++i) {
    if (i == 0) {
      b.external(b.storage_of(table), {0, 1, 2, 3, 4, 5, 6, 7}, trace::Role::kUnknown);
      b.external(b.storage_of(w), {0, 1, 2, 3, 4, 5, 6, 7}, trace::Role::kParameter, "w");
      b.external_bytes(b.storage_of(where), std::as_bytes(std::span(ids)), trace::Role::kUnknown, "");
    }
    const auto sum = b.fresh({4, 2});
    b.op(kScatterAdd, {B::tensor(w), B::integer(0), B::tensor(where), B::tensor(table)}, {B::tensor(sum)});
    add_to(b, w, sum);
    b.end_iteration();
  }
  auto program = lower(b.trace());
  return program ? fmt::format("{} bounds", bounds_of(*program).size()) : program.error().message;
}

TEST(IndexBounds, OfConstantsAreLookedAtOnce) {
  EXPECT_EQ(constant_ids({0, 3, 1, 2}), "0 bounds");
  EXPECT_THAT(constant_ids({0, 3, 4, 2}), HasSubstr("aten::scatter_add"));
  EXPECT_THAT(constant_ids({0, 3, 4, 2}), HasSubstr("an index is 4, outside of [0, 3]"));
  EXPECT_THAT(constant_ids({0, 3, -1, 2}), HasSubstr("an index is -1, outside of [0, 3]"));
}

TEST(ProvenIntervals, FollowWhatChoosesMovesAndClamps) {
  graph::Program program;
  program.iterations = 1;
  Emitter e(program);
  const auto of = [&](const Term& term) {
    const auto found = proven_interval(program, term.operand);
    return found ? Range(found->low, found->high) : Range(1, 0);
  };
  const Range kNothing(1, 0);
  Term data;
  data.dtype = DType::kI64;
  data.operand.value = e.outside_value(graph::ValueKind::kInput, DType::kI64, 6, "ids");
  data.operand.view = graph::View::contiguous({6});
  EXPECT_EQ(of(data), kNothing);
  const Term held = e.held_in(data, 2, 9);
  EXPECT_EQ(of(held), Range(2, 9));
  EXPECT_EQ(of(e.reshape(held, {2, 3})), Range(2, 9));
  EXPECT_EQ(of(e.binary(OpKind::kAdd, held, Term::integer(-2))), Range(0, 7));
  EXPECT_EQ(of(e.binary(OpKind::kMultiply, held, Term::integer(-3))), Range(-27, -6));
  EXPECT_EQ(of(e.binary(OpKind::kAdd, data, Term::integer(-2))), kNothing);
  EXPECT_EQ(of(e.position(1, {3, 5})), Range(0, 4));
  EXPECT_EQ(of(e.select(e.binary(OpKind::kLess, data, Term::integer(0)), held, Term::integer(-1))), Range(-1, 9));
  EXPECT_EQ(of(e.select(e.binary(OpKind::kLess, data, Term::integer(0)), held, data)), kNothing);
  EXPECT_EQ(of(e.cast(held, DType::kI32)), Range(2, 9));
  EXPECT_EQ(of(e.cast(e.cast(held, DType::kF32), DType::kI64)), kNothing) << "floats are not followed";
  const Term huge = e.held_in(data, 0, std::int64_t{1} << 62);
  EXPECT_EQ(of(e.binary(OpKind::kAdd, huge, huge)), kNothing) << "might wrap";
  EXPECT_EQ(of(e.binary(OpKind::kMaximum, data, Term::integer(5))), Range(5, std::numeric_limits<std::int64_t>::max()));
}

TEST(Bounds, AreJudgedByTheirEnds) {
  graph::Program program;
  program.sources.push_back({"aten::embedding", "wte", "gpt.py:41", graph::Phase::kForward, 0});
  graph::Output output;
  output.bounds = {{0, 9, 0}, {-4, 3, graph::kNone}};
  const auto said = [&](std::vector<std::int64_t> extrema) {
    const auto checked = graph::check_bounds(program, output, extrema);
    return checked ? std::string() : checked.error().message;
  };
  EXPECT_EQ(said({0, 9, -4, 3}), "");
  EXPECT_THAT(said({0, 10, -4, 3}),
              HasSubstr("aten::embedding (in wte at gpt.py:41): an index is 10, outside of [0, 9];"));
  EXPECT_THAT(said({-1, 9, -4, 3}), HasSubstr("an index is -1"));
  EXPECT_THAT(said({0, 9, -5, 3}), HasSubstr("an op: an index is -5, outside of [-4, 3]"));
  EXPECT_THAT(said({-7, 9, -5, 4}), HasSubstr("an index is -7, outside of [0, 9] (1 more ops have such indices)"));
  output.bounds = {{graph::kSettled, graph::kSettled, 0}};
  EXPECT_EQ(said({-1, -1}), "");
  EXPECT_THAT(said({-1, 0}), testing::AllOf(HasSubstr("than the program has rounds"), Not(HasSubstr("an index"))));
}

}  // namespace
}  // namespace crucible::aten
