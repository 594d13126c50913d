// Sessions against the real CPU plugin: the reference interpreter records, the session replays, everything must agree.
#include "runtime/run/session.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <filesystem>

#include "plugins/loader/testing/kept.hpp"
#include "runtime/testing/test_programs.hpp"

namespace crucible::runtime {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

std::shared_ptr<backend::Device> open_cpu(const std::string& threads) {
  auto loaded = backend::Backend::load(CRUCIBLE_TEST_CPU_PLUGIN, {{"threads", threads}}, backend::shared_store());
  EXPECT_TRUE(loaded) << loaded.error().message;
  if (!loaded) return nullptr;
  auto opened = (*loaded)->open("");
  EXPECT_TRUE(opened) << opened.error().message;
  return opened ? *opened : nullptr;
}

struct Outcome {
  std::vector<IterationResult> results;
  Verification verification;
  std::string error;  // "" when everything ran
};

Outcome replay(const Recording& recording, const Options& options = {}, const std::string& threads = "2") {
  Outcome outcome;
  const auto program = std::make_shared<const graph::Program>(recording.program);
  auto session = Session::create(program, recording.blobs, open_cpu(threads), options);
  if (!session) return {{}, {}, session.error().message};
  for (std::uint32_t i = 0; i < program->iterations; ++i) {
    auto result = (*session)->run(i);
    if (!result) return {{}, {}, result.error().message};
    auto outputs = (*session)->compare_outputs();
    if (!outputs) return {{}, {}, outputs.error().message};
    result->outputs = *std::move(outputs);
    outcome.results.push_back(*std::move(result));
  }
  auto verified = (*session)->verify(outcome.results);
  if (!verified) return {{}, {}, verified.error().message};
  outcome.verification = *std::move(verified);
  return outcome;
}

std::vector<std::uint64_t> loss_bits(const Outcome& outcome) {
  std::vector<std::uint64_t> bits;
  for (const IterationResult& result : outcome.results) {
    for (const double loss : result.losses) bits.push_back(std::bit_cast<std::uint64_t>(loss));
  }
  return bits;
}

/// Two runs whose states were both compared with the same recording agree when every difference agrees.
std::vector<std::pair<std::string, double>> state_differences(const Outcome& outcome) {
  std::vector<std::pair<std::string, double>> differences;
  for (const StateDifference& state : outcome.verification.states)
    differences.emplace_back(state.name, state.max_rel_diff);
  std::ranges::sort(differences);
  return differences;
}

TEST(Session, ReplaysATrainingStep) {
  const Recording recording = record(training_step(), 5, 1);
  for (const bool fuse : {true, false}) {
    const Outcome outcome = replay(recording, {.fuse = fuse, .poison = false});
    ASSERT_EQ(outcome.error, "");
    EXPECT_TRUE(outcome.verification.verified) << outcome.verification.reason;
    EXPECT_EQ(outcome.verification.states.size(), 4u);
    EXPECT_EQ(outcome.results.size(), 5u);
    EXPECT_NE(outcome.results[0].losses[0], outcome.results[4].losses[0]);
  }
}

/// Inference: what comes back are whole tensors, among them views and what entered from outside.
graph::Program inference() {
  ProgramBuilder b;
  const graph::ValueId x = b.input("x", {8, 6}), w = b.state("w", {6, 4}), offset = b.constant("offset", {8, 4});
  const graph::ValueId cache = b.state("cache", {8, 4});
  const graph::ValueId h = b.op(graph::OpKind::kMatMul, {b.whole(x), b.whole(w)}, {8, 4});
  const graph::ValueId y = b.op(graph::OpKind::kTanh, {b.whole(h)}, {8, 4});
  const graph::ValueId next = b.op(graph::OpKind::kAdd, {b.whole(cache), b.whole(y)}, {8, 4});
  b.end_state(cache, next);
  b.output("y", b.whole(y));
  b.output("transposed", b.transposed(h));
  b.output("column", {h, graph::View{1, {3}, {4}}, {}});
  b.output("spread", {h, graph::View{5, {2, 3}, {0, 4}}, {}});
  b.output("none", {h, graph::View{0, {0, 4}, {4, 1}}, {}});
  b.output("cache", b.whole(next));
  b.output("weight", b.whole(w));
  b.output("offset", b.whole(offset));
  b.output("input", b.whole(x));
  return std::move(b.program);
}

TEST(Session, ComparesEveryTensorThatComesBack) {
  const Recording recording = record(inference(), 3, 21);
  for (const bool poison : {false, true}) {
    for (const bool fuse : {true, false}) {
      const Outcome outcome = replay(recording, {.fuse = fuse, .poison = poison});
      ASSERT_EQ(outcome.error, "");
      EXPECT_TRUE(outcome.verification.verified) << outcome.verification.reason;
      EXPECT_EQ(outcome.verification.outputs_compared, 27u);
      EXPECT_EQ(outcome.verification.losses_compared, 0u);
      for (const OutputDifference& output : outcome.verification.outputs) {
        EXPECT_TRUE(output.name == "y" || output.name == "cache" || output.name == "transposed" ||
                    output.name == "column" || output.name == "spread")
            << output.name << " is only passed on";
      }
    }
  }
}

TEST(Session, OutputsThatShowTheSameElementsAreEachJudged) {
  graph::Program program = inference();
  for (const char* name : {"y again", "y otherwise", "y otherwise too"}) {
    program.outputs.push_back(program.outputs[0]);
    program.outputs.back().name = name;
  }
  Recording recording = record(std::move(program), 2, 24);
  const std::size_t last = recording.program.outputs.size() - 1;
  for (const std::size_t otherwise : {last - 1, last}) {
    recording.program.outputs[otherwise].blobs[1] =
        recording.blobs->add(std::vector<std::byte>(8 * 4 * 4, std::byte{0x40}));
  }
  const Outcome outcome = replay(recording);
  ASSERT_EQ(outcome.error, "");
  EXPECT_EQ(outcome.verification.outputs_compared, 24u);
  std::vector<std::string> bad;
  for (const OutputDifference& output : outcome.results[1].outputs) {
    if (!output.is_within()) bad.push_back(output.name);
    EXPECT_EQ(&output - outcome.results[1].outputs.data(), static_cast<std::ptrdiff_t>(output.place));
  }
  EXPECT_THAT(bad, testing::ElementsAre("y otherwise", "y otherwise too"));
  EXPECT_TRUE(std::ranges::all_of(outcome.results[0].outputs, &OutputDifference::is_within));
}

TEST(Session, VerificationWantsTheOutputsCompared) {
  const Recording recording = record(inference(), 1, 22);
  auto session =
      Session::create(std::make_shared<const graph::Program>(recording.program), recording.blobs, open_cpu("1"), {});
  ASSERT_TRUE(session) << session.error().message;
  EXPECT_THAT((*session)->compare_outputs().error().message, HasSubstr("after an iteration has run"));
  const auto result = (*session)->run(0);
  ASSERT_TRUE(result) << result.error().message;
  EXPECT_THAT((*session)->verify({*result}).error().message, HasSubstr("iteration 0 gave back 9 tensors, 0 of them"));
}

TEST(Session, RefusesOutputsOfTheWrongSize) {
  Recording recording = record(inference(), 1, 23);
  recording.program.outputs[0].blobs[0] = recording.program.outputs[2].blobs[0];
  EXPECT_THAT(replay(recording).error, HasSubstr("output y of iteration 0: cannot compare 128 bytes with 12"));
}

TEST(Session, NothingToCompareIsNotVerified) {
  ProgramBuilder b;
  const graph::ValueId w = b.state("w", {4});
  static_cast<void>(w);
  const Outcome outcome = replay(record(std::move(b.program), 1, 24));
  ASSERT_EQ(outcome.error, "");
  EXPECT_EQ(outcome.verification.states.size(), 1u);
  EXPECT_FALSE(outcome.verification.verified);
  EXPECT_THAT(outcome.verification.reason, HasSubstr("no loss, no output and no changed state"));
}

TEST(Session, PoisonChangesNoBit) {
  const Recording recording = record(training_step(), 5, 2);
  for (const bool fuse : {true, false}) {
    const Outcome clean = replay(recording, {.fuse = fuse, .poison = false});
    const Outcome poisoned = replay(recording, {.fuse = fuse, .poison = true});
    ASSERT_EQ(clean.error + poisoned.error, "");
    EXPECT_EQ(loss_bits(clean), loss_bits(poisoned));
    EXPECT_EQ(state_differences(clean), state_differences(poisoned));
    EXPECT_TRUE(poisoned.verification.verified) << poisoned.verification.reason;
  }
}

TEST(Session, AgreesWithTheReferenceOnRandomPrograms) {
  for (std::uint64_t seed = 0; seed < 12; ++seed) {
    graph::RandomOptions options;
    options.seed = seed;
    options.ops = static_cast<std::uint32_t>(10 + 4 * seed);
    const Recording recording = record(graph::random_program(options), 3);
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    const Outcome fused = replay(recording, {.fuse = true, .poison = false});
    const Outcome poisoned = replay(recording, {.fuse = true, .poison = true});
    const Outcome plain = replay(recording, {.fuse = false, .poison = true}, "1");
    for (const Outcome* outcome : {&fused, &poisoned, &plain}) {
      ASSERT_EQ(outcome->error, "");
      EXPECT_TRUE(outcome->verification.verified) << outcome->verification.reason;
    }
    EXPECT_EQ(loss_bits(fused), loss_bits(poisoned));
  }
}

TEST(Session, TheNumberOfThreadsDoesNotMatterToVerification) {
  const Recording recording = record(training_step(), 3, 3);
  for (const char* threads : {"1", "2", "3"}) {
    const Outcome outcome = replay(recording, {}, threads);
    ASSERT_EQ(outcome.error, "");
    EXPECT_TRUE(outcome.verification.verified) << outcome.verification.reason;
  }
}

TEST(Session, TheArenaIsThePlan) {
  const Recording recording = record(training_step(), 1, 4);
  const auto device = open_cpu("1");
  auto session =
      Session::create(std::make_shared<const graph::Program>(recording.program), recording.blobs, device, {});
  ASSERT_TRUE(session) << session.error().message;
  EXPECT_EQ((*session)->arena_bytes(), (*session)->placement().plan.peak_bytes);
  const auto peak = device->peak_bytes();
  ASSERT_TRUE(peak) << peak.error().message;
  EXPECT_EQ(*peak, (*session)->placement().plan.peak_bytes);
}

TEST(Session, ResetStartsOver) {
  const Recording recording = record(training_step(), 3, 5);
  auto session =
      Session::create(std::make_shared<const graph::Program>(recording.program), recording.blobs, open_cpu("2"), {});
  ASSERT_TRUE(session) << session.error().message;
  std::vector<double> first, second;
  for (std::vector<double>* losses : {&first, &second}) {
    for (std::uint32_t i = 0; i < 3; ++i) {
      const auto result = (*session)->run(i);
      ASSERT_TRUE(result) << result.error().message;
      losses->push_back(result->losses[0]);
    }
    ASSERT_TRUE((*session)->reset());
  }
  EXPECT_EQ(first, second);
}

TEST(Session, ProfileCountsEveryStep) {
  const Recording recording = record(training_step(), 1, 6);
  for (const bool poison : {false, true}) {
    auto session = Session::create(std::make_shared<const graph::Program>(recording.program), recording.blobs,
                                   open_cpu("2"), {.fuse = true, .poison = poison});
    ASSERT_TRUE(session) << session.error().message;
    const auto profile = (*session)->profile();
    ASSERT_TRUE(profile) << profile.error().message;
    EXPECT_EQ(profile->size(), (*session)->schedule().steps.size());
  }
}

TEST(Session, RefusesIterationsOutOfOrder) {
  const Recording recording = record(training_step(), 2, 7);
  auto session =
      Session::create(std::make_shared<const graph::Program>(recording.program), recording.blobs, open_cpu("1"), {});
  ASSERT_TRUE(session) << session.error().message;
  EXPECT_THAT((*session)->run(1).error().message, HasSubstr("iteration 1 cannot run now"));
  const auto first = (*session)->run(0);
  ASSERT_TRUE(first) << first.error().message;
  EXPECT_THAT((*session)->verify({*first}).error().message, HasSubstr("needs all 2 recorded iterations, 1 have run"));
  ASSERT_TRUE((*session)->run(1));
  EXPECT_THAT((*session)->run(2).error().message, HasSubstr("was not recorded: there are 2"));
}

TEST(Session, RefusesABlobOfTheWrongSize) {
  Recording recording = record(training_step(), 1, 8);
  recording.program.states[1].initial_blob = recording.program.states[0].initial_blob;
  EXPECT_THAT(replay(recording).error, AllOf(HasSubstr("starting state: w2 has 400 bytes"), HasSubstr("has 960")));
}

// Planted faults: each must be noticed, and the report must name the iteration and the tensor.

TEST(PlantedFault, AFrozenSlotIsNoticed) {
  Recording recording = record(training_step(), 4, 9);
  for (graph::Number& value : recording.program.slots[0].values) value = recording.program.slots[0].values[0];
  const Outcome outcome = replay(recording);
  ASSERT_EQ(outcome.error, "");
  EXPECT_FALSE(outcome.verification.verified);
  // The first update still has the right rate; the first loss that sees a wrong one is that of iteration 2.
  EXPECT_EQ(outcome.verification.first_bad_iteration, 2u);
  EXPECT_THAT(outcome.verification.reason, AllOf(HasSubstr("iteration 2: loss is"),
                                                 HasSubstr("after iteration 3: 4 of 4 states"), HasSubstr("w2 most")));
}

TEST(PlantedFault, ASwappedOperandIsNoticed) {
  Recording recording = record(training_step(), 3, 10);
  auto& ops = recording.program.ops;
  const auto minus = std::ranges::find_if(ops, [](const graph::Op& op) { return op.kind == graph::OpKind::kSubtract; });
  ASSERT_NE(minus, ops.end());
  const auto slope = std::ranges::find_if(std::next(minus), ops.end(),
                                          [](const graph::Op& op) { return op.kind == graph::OpKind::kSubtract; });
  ASSERT_NE(slope, ops.end());
  std::swap(slope->inputs[0], slope->inputs[1]);  // a * a - 1 instead of 1 - a * a: only the gradient of w1 is wrong
  const Outcome outcome = replay(recording);
  ASSERT_EQ(outcome.error, "");
  EXPECT_FALSE(outcome.verification.verified);
  EXPECT_EQ(outcome.verification.first_bad_iteration, 1u);
  EXPECT_THAT(outcome.verification.reason, AllOf(HasSubstr("iteration 1: loss is"), HasSubstr("w1")));
}

TEST(PlantedFault, ASkippedInPlaceUpdateIsNoticed) {
  Recording recording = record(training_step(), 3, 11);
  graph::State& momentum = recording.program.states[3];
  momentum.end = momentum.start;  // the new momentum is computed and used, but never carried over
  const Outcome outcome = replay(recording);
  ASSERT_EQ(outcome.error, "");
  EXPECT_FALSE(outcome.verification.verified);
  EXPECT_EQ(outcome.verification.states[0].name, "momentum of w2");
  EXPECT_THAT(outcome.verification.reason, AllOf(HasSubstr("iteration 2: loss is"), HasSubstr("momentum of w2 most")));
}

TEST(PlantedFault, AnOutputOfOneIterationIsNoticed) {
  Recording recording = record(inference(), 3, 25);
  auto& blobs = recording.program.outputs[5].blobs;
  blobs[1] = blobs[2];
  const Outcome outcome = replay(recording);
  ASSERT_EQ(outcome.error, "");
  EXPECT_FALSE(outcome.verification.verified);
  EXPECT_EQ(outcome.verification.first_bad_iteration, 1u);
  EXPECT_THAT(outcome.verification.reason, AllOf(HasSubstr("iteration 1: output cache (f32) differs by"),
                                                 HasSubstr("more than 0.0001")));
  ASSERT_FALSE(outcome.verification.outputs.empty());
  EXPECT_EQ(outcome.verification.outputs[0].name, "cache");
  EXPECT_FALSE(outcome.verification.outputs[0].is_within());
}

TEST(PlantedFault, AnotherOperatorIsNoticedInEveryIteration) {
  Recording recording = record(inference(), 2, 26);
  recording.program.ops[1].kind = graph::OpKind::kSigmoid;
  const Outcome outcome = replay(recording);
  ASSERT_EQ(outcome.error, "");
  EXPECT_FALSE(outcome.verification.verified);
  EXPECT_THAT(outcome.verification.reason, AllOf(HasSubstr("iteration 0: output y (f32) differs"),
                                                 HasSubstr("4 of 18 outputs do"), HasSubstr("cache most")));
}

TEST(PlantedFault, AnOverlappingPlanIsRefused) {
  const Recording recording = record(training_step(), 1, 12);
  auto session =
      Session::create(std::make_shared<const graph::Program>(recording.program), recording.blobs, open_cpu("1"), {});
  ASSERT_TRUE(session) << session.error().message;
  Placement placement = (*session)->placement();
  const std::uint32_t w1 = placement.buffer_of[recording.program.states[0].start];
  const std::uint32_t m1 = placement.buffer_of[recording.program.states[2].start];
  placement.plan.offsets[m1] = placement.plan.offsets[w1];
  const auto refused = check_placement(recording.program, (*session)->schedule(), placement);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::kCheckFailed);
  EXPECT_THAT(refused.error().message, AllOf(HasSubstr("reads"), HasSubstr("(w1)"), HasSubstr("(momentum of w1)")));
  EXPECT_FALSE(memory::check(placement.buffers, kAlignment, placement.plan));
}

}  // namespace
}  // namespace crucible::runtime
