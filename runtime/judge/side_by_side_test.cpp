// Two sessions op by op: equal ones are equal in every result, and a planted difference is named by its op.
#include "runtime/judge/side_by_side.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "plugins/loader/testing/kept.hpp"
#include "runtime/testing/test_programs.hpp"

namespace crucible::runtime {
namespace {

std::shared_ptr<backend::Device> open_cpu(const std::string& threads) {
  auto loaded = backend::Backend::load(CRUCIBLE_TEST_CPU_PLUGIN, {{"threads", threads}, {"library", "none"}},
                                       backend::shared_store());
  EXPECT_TRUE(loaded) << loaded.error().message;
  return loaded ? *(*loaded)->open("") : nullptr;
}

std::unique_ptr<Session> session_of(const Recording& recording, const graph::Program& program, bool fuse) {
  auto made = Session::create(std::make_shared<const graph::Program>(with_every_result(program)), recording.blobs,
                              open_cpu("2"), {.fuse = fuse, .numerics = kernel::Numerics::kStrict});
  EXPECT_TRUE(made) << made.error().message;
  return made ? *std::move(made) : nullptr;
}

std::size_t results_of(const graph::Program& program) {
  std::size_t count = 0;
  for (const graph::Op& op : program.ops) count += op.outputs.size();
  return count;
}

TEST(SideBySide, FusedAndUnfusedAreEqualInEveryResult) {
  const Recording recording = record(training_step(), 3, 1);
  const auto fused = session_of(recording, recording.program, true),
             plain = session_of(recording, recording.program, false);
  ASSERT_TRUE(fused && plain);
  const auto report = run_side_by_side(recording.program, *fused, *plain, {});
  ASSERT_TRUE(report) << report.error().message;
  EXPECT_EQ(report->iterations, 3u);
  EXPECT_EQ(report->results, 3 * results_of(recording.program));
  EXPECT_EQ(report->bit_equal, report->results);
  EXPECT_FALSE(report->first);
}

/// Ops of the other program are of another kind where they are named: that one has to be found, in the first iteration.
TEST(SideBySide, NamesTheFirstOpThatDiffers) {
  const Recording recording = record(training_step(), 2, 1);
  graph::Program other = recording.program;
  graph::OpId changed = graph::kNone;
  for (graph::OpId op = 0; op < other.ops.size() && changed == graph::kNone; ++op) {
    if (other.ops[op].kind == graph::OpKind::kTanh) changed = op;
  }
  ASSERT_NE(changed, graph::kNone);
  other.ops[changed].kind = graph::OpKind::kSin;
  const auto a = session_of(recording, recording.program, true), b = session_of(recording, other, true);
  ASSERT_TRUE(a && b);
  const auto report = run_side_by_side(recording.program, *a, *b, {});
  ASSERT_TRUE(report) << report.error().message;
  ASSERT_TRUE(report->first);
  EXPECT_EQ(report->iterations, 1u);
  EXPECT_EQ(report->first->op, changed);
  EXPECT_EQ(report->first->iteration, 0u);
  EXPECT_GT(report->first->different, 0u);
  EXPECT_NE(report->first->first_in_a, report->first->first_in_b);
  // A difference that is small enough is none.
  const auto c = session_of(recording, recording.program, true), d = session_of(recording, other, true);
  const auto tolerant = run_side_by_side(recording.program, *c, *d, {.tolerance = 1e9});
  ASSERT_TRUE(tolerant) << tolerant.error().message;
  EXPECT_FALSE(tolerant->first);
  EXPECT_GT(tolerant->max_rel_diff, 0);
}

TEST(SideBySide, TheInterpreterIsASideToo) {
  const Recording recording = record(training_step(), 2, 3);
  const auto a = session_of(recording, recording.program, true);
  auto b = Session::create_reference(std::make_shared<const graph::Program>(with_every_result(recording.program)),
                                     recording.blobs);
  ASSERT_TRUE(a && b);
  const auto report = run_side_by_side(recording.program, *a, **b, {.tolerance = 1e-4});
  ASSERT_TRUE(report) << report.error().message;
  EXPECT_FALSE(report->first);
  EXPECT_EQ(report->iterations, 2u);
}

/// A list of numbers whose least and largest are watched as indices, doubled: what `ids` are is in the blobs alone.
Recording with_indices(std::vector<std::int64_t> ids) {
  ProgramBuilder build;
  const graph::ValueId list = build.input("ids", {2});
  build.program.values[list].dtype = DType::kI64;
  build.op(graph::OpKind::kCopy, {build.whole(list)}, {2});
  build.program.outputs.push_back(
      {.name = "indices", .operand = build.whole(list), .bounds = {{.low = -4, .high = 3}}});
  build.program.iterations = 1;
  Recording recording{std::move(build.program), std::make_shared<trace::MemoryBlobStore>()};
  const auto bytes = std::as_bytes(std::span(ids));
  recording.program.inputs[0].blobs = {recording.blobs->add(bytes)};
  return recording;
}

TEST(SideBySide, AnIndexOutOfRangeThatOneSideHasIsADifference) {
  const Recording inside = with_indices({-4, 3}), outside = with_indices({-4, 4}), other = with_indices({-5, 3});
  const auto session = [](const Recording& recording) {
    auto made = Session::create_reference(std::make_shared<const graph::Program>(with_every_result(recording.program)),
                                          recording.blobs);
    EXPECT_TRUE(made) << made.error().message;
    return *std::move(made);
  };
  EXPECT_TRUE(session(inside)->run(0));
  const auto refused = session(outside);
  for (int again = 0; again < 2; ++again) {  // and the session stands where it stood
    const auto ran = refused->run(0);
    ASSERT_FALSE(ran);
    EXPECT_EQ(ran.error().code, ErrorCode::kBadInput);
    EXPECT_THAT(ran.error().message, testing::HasSubstr("an index is 4, outside of [-4, 3]"));
  }
  for (const bool is_first : {true, false}) {
    const auto good = session(inside), bad = session(outside);
    const auto report = run_side_by_side(inside.program, is_first ? *bad : *good, is_first ? *good : *bad, {});
    ASSERT_TRUE(report) << report.error().message;
    ASSERT_TRUE(report->first);
    EXPECT_EQ(report->first->op, 0u);
    EXPECT_EQ(report->first->first, 1u);
    // Nothing differs by more than this, so that the index is all there is to tell.
    const auto equal_a = session(inside), equal_b = session(outside);
    const auto silent = run_side_by_side(inside.program, is_first ? *equal_b : *equal_a, is_first ? *equal_a : *equal_b,
                                         {.tolerance = 10});
    ASSERT_FALSE(silent);
    EXPECT_THAT(silent.error().message, testing::HasSubstr("an index is 4"));
  }
  const auto a = session(outside), b = session(other);
  const auto both = run_side_by_side(inside.program, *a, *b, {});
  ASSERT_FALSE(both);
  EXPECT_THAT(both.error().message, testing::HasSubstr("an index is 4"));
}

}  // namespace
}  // namespace crucible::runtime
