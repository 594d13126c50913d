// Lowering of hand-made traces: tensors that iterations give back, and states that change where nothing is recorded.
#include <gmock/gmock.h>
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "frontends/aten/testing/lowered_trace.hpp"

namespace crucible::aten {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using B = TraceBuilder;

/// y = x + w per iteration, given back as "0" and, transposed, as "turned".
void add_inference(TraceBuilder& b, trace::TensorId w, int iteration) {
  const auto x = b.fresh({2, 2}), y = b.fresh({2, 2});
  const auto turned = b.view(b.storage_of(y), {2, 2}, {1, 2});
  const auto shift = static_cast<float>(iteration);
  b.external(b.storage_of(x), {shift, 1, 2, 3}, trace::Role::kInput, "x");
  if (iteration == 0) b.external(b.storage_of(w), {1, 1, 1, 1}, trace::Role::kParameter, "w");
  b.op(kAdd, {B::tensor(x), B::tensor(w), B::integer(1)}, {B::tensor(y)});
  b.output(y, {shift + 1, 2, 3, 4});
  b.output(turned, {shift + 1, 3, 2, 4}, "turned");
}

TEST(Outputs, AreProgramOutputsWithTheRecordedBytes) {
  TraceBuilder b;
  const auto w = b.fresh({2, 2});
  for (int i = 0; i < 3; ++i) {
    add_inference(b, w, i);
    b.end_iteration();
  }
  const auto program = lowered(b);
  EXPECT_THAT(program.left_out, testing::IsEmpty());
  ASSERT_EQ(program.outputs.size(), 2u);
  EXPECT_EQ(program.outputs[1].name, "turned");
  const auto replay = graph::replay_reference(program, *b.trace().blob_store, 3);
  ASSERT_TRUE(replay) << replay.error().message;
  for (std::size_t i = 0; i < 3; ++i) {
    for (std::size_t k = 0; k < 2; ++k) {
      const auto recorded = b.trace().blob_store->load(program.outputs[k].blobs[i]);
      ASSERT_TRUE(recorded) << recorded.error().message;
      EXPECT_EQ(*replay->tensors[i][k], *recorded) << i << " " << k;
    }
  }
}

TEST(Outputs, AreWhatTheIterationEndsWith) {
  TraceBuilder b;
  const auto w = b.fresh({2}), cache = b.fresh({2}), y = b.fresh({2});
  b.external(b.storage_of(w), {1, 2}, trace::Role::kParameter, "w");
  b.external(b.storage_of(cache), {5, 5}, trace::Role::kBuffer, "cache");
  b.op(kAddInPlace, {B::tensor(cache), B::tensor(w), B::integer(1)}, {B::tensor(cache)});
  b.op(kMul, {B::tensor(w), B::tensor(w)}, {B::tensor(y)});
  b.op(kMulInPlace, {B::tensor(y), B::number(10)}, {B::tensor(y)});
  b.output(y, {10, 40}, "y");
  b.output(cache, {6, 7}, "cache");
  b.output(w, {1, 2}, "w");
  b.end_iteration();
  const auto program = lowered(b);
  ASSERT_EQ(program.outputs.size(), 3u);
  const auto replay = graph::replay_reference(program, *b.trace().blob_store, 1);
  ASSERT_TRUE(replay) << replay.error().message;
  EXPECT_THAT(floats(*replay->tensors[0][0]), ElementsAre(10, 40));
  EXPECT_THAT(floats(*replay->tensors[0][1]), ElementsAre(6, 7));
  EXPECT_THAT(floats(*replay->tensors[0][2]), ElementsAre(1, 2));
}

/// A module may return what a state held before: the state's end takes that place, so the output has one of its own.
TEST(Outputs, AStateThatIsReplacedIsCopied) {
  TraceBuilder b;
  const auto x = b.fresh({2});
  auto previous = b.fresh({2});
  for (int i = 0; i < 3; ++i) {
    const float before = static_cast<float>(i);
    if (i == 0) b.external(b.storage_of(x), {1, 1}, trace::Role::kParameter, "x");
    if (i == 0) b.external(b.storage_of(previous), {0, 0}, trace::Role::kUnknown, "");
    const auto next = b.fresh({2});
    b.op(kAdd, {B::tensor(previous), B::tensor(x), B::integer(1)}, {B::tensor(next)});
    b.output(previous, {before, before}, "before");
    b.end_iteration();
    previous = next;
  }
  const auto program = lowered(b);
  ASSERT_EQ(program.outputs.size(), 1u);
  const auto replay = graph::replay_reference(program, *b.trace().blob_store, 3);
  ASSERT_TRUE(replay) << replay.error().message;
  for (std::size_t i = 0; i < 3; ++i) EXPECT_EQ(floats(*replay->tensors[i][0])[1], static_cast<float>(i));
}

TEST(Outputs, SayWhyTheyAreLeftOut) {
  TraceBuilder b;
  const auto w = b.fresh({2, 2});
  for (int i = 0; i < 2; ++i) {
    add_inference(b, w, i);
    const auto untouched = b.fresh({2});
    b.output(untouched, {0, 0}, "untouched");
    const auto bits = b.view(b.storage_of(w), {2}, {1}, 0, DType::kF64);
    b.output(bits, {0, 0, 0, 0}, "bits");
    const auto large = b.view(b.storage_of(w), {5});
    b.output(large, {0, 0, 0, 0, 0}, "large");
    if (i == 0) b.output(w, {1, 1, 1, 1}, "once");
    b.output(i == 0 ? w : b.view(b.storage_of(w), {4}), {1, 1, 1, 1}, "another");
    b.end_iteration();
  }
  const auto program = lowered(b);
  EXPECT_EQ(program.outputs.size(), 3u);  // "bits", f64 in memory that holds f32, is read as it is
  EXPECT_THAT(program.left_out,
              ElementsAre("untouched: no recorded op reads or writes it",
                          "large: it is larger than its memory when the iteration ends",
                          "once: iteration 1 did not give it back", "another: it is another result in iteration 1"));
}

TEST(Outputs, OfOneNameAreToldApartByTheirOrder) {
  TraceBuilder b;
  const auto w = b.fresh({2});
  for (int i = 0; i < 2; ++i) {
    const auto first = b.fresh({2}), second = b.fresh({2});
    if (i == 0) b.external(b.storage_of(w), {1, 2}, trace::Role::kParameter, "w");
    b.op(kAdd, {B::tensor(w), B::tensor(w), B::integer(1)}, {B::tensor(first)});
    b.op(kMul, {B::tensor(w), B::tensor(w)}, {B::tensor(second)});
    b.output(first, {2, 4}, "Linear.0");
    b.output(second, {1, 4}, "Linear.0");
    b.end_iteration();
  }
  const auto program = lowered(b);
  ASSERT_EQ(program.outputs.size(), 2u) << testing::PrintToString(program.left_out);
  EXPECT_NE(program.outputs[0].blobs, program.outputs[1].blobs);
}

/// Five training steps; before those of `changed` the program changes the weight where nothing is recorded.
std::vector<bool> seams_of(const std::vector<int>& changed) {
  TraceBuilder b;
  const auto w = b.fresh({2});
  Floats now = {1, 2};
  for (int i = 0; i < 5; ++i) {
    const bool is_changed = std::ranges::find(changed, i) != changed.end();
    if (is_changed) now = {static_cast<float>(i), 7};
    if (i == 0 || is_changed) b.external(b.storage_of(w), now, trace::Role::kParameter, "layer.weight");
    b.op(kMulInPlace, {B::tensor(w), B::number(2)}, {B::tensor(w)});
    b.end_iteration();
    now = {2 * now[0], 2 * now[1]};
  }
  b.final_state(b.storage_of(w), now, "layer.weight");
  const auto variants = lower_variants(b.trace());
  EXPECT_TRUE(variants) << variants.error().message;
  if (!variants) return {};
  const auto replay = graph::replay_reference(*variants, *b.trace().blob_store, 5);
  EXPECT_TRUE(replay) << replay.error().message;
  if (!replay) return {};
  EXPECT_EQ(floats(replay->states[0]), now);
  std::vector<bool> seams;
  for (const graph::Turn& turn : variants->turns) seams.push_back(!turn.given.empty() && turn.given[0].is_seam);
  return seams;
}

TEST(Unrecorded, AChangeBetweenIterationsIsASeam) {
  EXPECT_THAT(seams_of({}), ElementsAre(false, false, false, false, false));
  EXPECT_THAT(seams_of({2}), ElementsAre(false, false, true, false, false));
  EXPECT_THAT(seams_of({1, 2}), ElementsAre(false, true, true, false, false));
  EXPECT_THAT(seams_of({4}), ElementsAre(false, false, false, false, true));
}

}  // namespace
}  // namespace crucible::aten
