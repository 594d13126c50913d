// States whose home is the host's memory: which may leave, where the copies stand, and until when the host has the old
// content.
#include "core/budget/transfer.hpp"

#include <gtest/gtest.h>

#include "core/budget/chain.hpp"
#include "runtime/testing/test_programs.hpp"

namespace crucible::budget {
namespace {

using graph::OpKind;
using graph::ValueId;

Line line_of(const graph::Program& program) {
  const kernel::Schedule schedule = runtime::naive_schedule(program, true);
  return make_line(program, schedule, std::vector<std::uint64_t>(schedule.steps.size(), 0), 8,
                   {.host_bytes_per_ns = 10});
}

TEST(LiveOnHost, IsForStatesWhoseEndIsTheirsAlone) {
  runtime::ProgramBuilder b;
  const ValueId plain = b.state("plain", {4}), idle = b.state("idle", {4}), shown = b.state("shown", {4});
  const ValueId one = b.state("one", {4}), other = b.state("other", {4});
  const ValueId next = b.op(OpKind::kNegate, {b.whole(plain)}, {4});
  const ValueId next_shown = b.op(OpKind::kNegate, {b.whole(shown)}, {4});
  const ValueId both = b.op(OpKind::kAdd, {b.whole(one), b.whole(other)}, {4});
  b.end_state(plain, next);
  b.end_state(shown, next_shown);
  b.end_state(one, both);
  b.end_state(other, both);
  b.program.outputs.push_back({.name = "shown", .operand = b.whole(next_shown), .recorded = {}});
  const Line line = line_of(b.program);
  EXPECT_TRUE(line.tensors[plain].may_leave);
  EXPECT_TRUE(line.tensors[idle].may_leave);
  EXPECT_FALSE(line.tensors[shown].may_leave) << "the host reads the new one of the device";
  EXPECT_FALSE(line.tensors[one].may_leave);
  EXPECT_FALSE(line.tensors[other].may_leave);
  EXPECT_FALSE(line.tensors[next].may_leave);
}

TEST(LiveOnHost, LoadsBeforeReadersAndStoresBehindTheUpdate) {
  runtime::ProgramBuilder b;
  const ValueId w = b.state("w", {4}), x = b.input("x", {4});
  const ValueId y = b.op(OpKind::kMultiply, {b.whole(x), b.whole(w)}, {4});       // node 0
  const ValueId z = b.op(OpKind::kSin, {b.whole(y)}, {4});                       // node 1
  const ValueId next = b.op(OpKind::kSubtract, {b.whole(w), b.whole(z)}, {4});   // node 2
  const ValueId last = b.op(OpKind::kAdd, {b.whole(next), b.whole(y)}, {4});     // node 3
  b.end_state(w, next);
  b.loss("loss", last);
  Line line = line_of(b.program);
  live_on_host(line, {{.carried = w, .end = next, .readers = {{0, true}, {2, true}}}});
  const NodeId loss = 4, first_load = 5, second_load = 6, store = 7;
  EXPECT_EQ(line.order, (std::vector<NodeId>{first_load, 0, 1, second_load, 2, store, 3, loss}));
  const TensorId first = line.nodes[first_load].arguments[1].tensor,
                 second = line.nodes[second_load].arguments[1].tensor;
  const TensorId home = line.nodes[store].arguments[1].tensor;
  EXPECT_EQ(line.nodes[0].arguments[1].tensor, first);
  EXPECT_EQ(line.nodes[2].arguments[0].tensor, second);
  EXPECT_EQ(line.nodes[second_load].arguments[0].tensor, w);
  EXPECT_EQ(line.nodes[store].arguments[0].tensor, next);
  EXPECT_EQ(line.tensors[home].home, w);
  EXPECT_TRUE(line.tensors[home].is_kept && line.tensors[home].is_on_host && line.tensors[w].is_on_host);
  EXPECT_EQ(line.tensors[next].home, kNone);
  EXPECT_FALSE(line.tensors[next].is_kept);
  const Live live = measure(line);
  EXPECT_EQ(live.last[first], 1u);
  EXPECT_EQ(live.bytes[2], 2u * 16) << "y and z are alive, no weight is";
}

TEST(LiveOnHost, OldContentIsThereUntilTheNewOneComesHome) {
  runtime::ProgramBuilder b;
  const ValueId w = b.state("w", {4});
  const ValueId y = b.op(OpKind::kSin, {b.whole(w)}, {4});
  const ValueId next = b.op(OpKind::kNegate, {b.whole(w)}, {4});
  b.end_state(w, next);
  b.loss("loss", b.op(OpKind::kAdd, {b.whole(y), b.whole(next)}, {4}));
  Line line = line_of(b.program);
  live_on_host(
      line, {{.carried = w, .end = next, .readers = {{0, true}, {1, false}}}});  // load, sin, negate, store, add, loss
  const TensorId loaded = line.nodes[line.order[0]].arguments[1].tensor;
  const Live live = measure(line);
  const Chains chains(line, live);
  for (const std::uint32_t position : {1u, 2u, 3u}) EXPECT_EQ(chains.host_twin(loaded, position), w) << position;
  EXPECT_EQ(chains.host_twin(loaded, 4), kNone) << "the store has written over it";
  EXPECT_NE(chains.host_twin(next, 4), kNone);
  EXPECT_EQ(chains.host_twin(next, 3), kNone);
}

}  // namespace
}  // namespace crucible::budget
