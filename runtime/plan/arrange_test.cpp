// Sessions within a budget, on the real CPU plugin: the same bits as without one, in no more bytes than asked for.
#include "runtime/plan/arrange.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <random>

#include "plugins/loader/testing/kept.hpp"
#include "runtime/testing/test_programs.hpp"

namespace crucible::runtime {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

std::shared_ptr<backend::Device> open(const char* path, backend::Options options = {}) {
  options["threads"] = "2";
  auto loaded = backend::Backend::load(path, options, backend::shared_store());
  EXPECT_TRUE(loaded) << loaded.error().message;
  if (!loaded) return nullptr;
  auto opened = (*loaded)->open("");
  EXPECT_TRUE(opened) << opened.error().message;
  return opened ? *opened : nullptr;
}

struct Outcome {
  std::vector<double> losses;
  std::vector<std::string> states;  // their bytes after the last iteration
  std::uint64_t arena_bytes = 0, peak_bytes = 0;
  ArrangeReport report;
  std::string error;
};

Outcome replay(const Recording& recording, const Options& options, const std::shared_ptr<backend::Device>& device) {
  Outcome outcome;
  const auto program = std::make_shared<const graph::Program>(recording.program);
  auto session = Session::create(program, recording.blobs, device, options);
  if (!session) return outcome.error = session.error().message, outcome;
  for (std::uint32_t i = 0; i < program->iterations; ++i) {
    const auto result = (*session)->run(i);
    if (!result) return outcome.error = result.error().message, outcome;
    outcome.losses.insert(outcome.losses.end(), result->losses.begin(), result->losses.end());
  }
  for (const graph::State& state : program->states) {
    const auto bytes = (*session)->state_bytes(state);
    if (!bytes) return outcome.error = bytes.error().message, outcome;
    outcome.states.emplace_back(reinterpret_cast<const char*>(bytes->data()), bytes->size());
  }
  outcome.arena_bytes = (*session)->arena_bytes();
  const auto peak = device->peak_bytes();
  outcome.peak_bytes = peak ? *peak : 0;
  outcome.report = (*session)->arrange_report();
  return outcome;
}

Outcome replay(const Recording& recording, const Options& options) {
  return replay(recording, options, open(CRUCIBLE_TEST_CPU_PLUGIN));
}

Options with(std::uint64_t budget_bytes, const budget::Costs& costs = {}, bool poison = false) {
  return {.memory = {.budget_bytes = budget_bytes, .costs = costs}, .poison = poison};
}

void expect_same_bits(const Outcome& a, const Outcome& b) {
  ASSERT_EQ(a.error + b.error, "");
  ASSERT_EQ(a.losses.size(), b.losses.size());
  EXPECT_EQ(std::memcmp(a.losses.data(), b.losses.data(), a.losses.size() * sizeof(double)), 0);
  EXPECT_EQ(a.states, b.states);
}

/// The number behind "the smallest that works is".
std::uint64_t smallest_of(const std::string& error) {
  const std::string words = "the smallest that works is ";
  const std::size_t at = error.find(words);
  return at == std::string::npos ? 0 : std::stoull(error.substr(at + words.size()));
}

TEST(Budget, IsMetWithTheSameBits) {
  for (const std::uint64_t seed : {5u, 7u, 12u, 31u}) {
    const Recording recording = record(deep_program(seed), 3);
    const Outcome free = replay(recording, {});
    ASSERT_EQ(free.error, "");
    const std::uint64_t smallest = smallest_of(replay(recording, with(1)).error);
    ASSERT_GT(smallest, 0u);
    ASSERT_LT(smallest, free.arena_bytes) << "seed " << seed;
    for (const std::uint64_t budget : {free.arena_bytes, (free.arena_bytes + smallest) / 2, smallest}) {
      for (const bool poison : {false, true}) {
        SCOPED_TRACE(testing::Message() << "seed " << seed << ", " << budget << " of " << free.arena_bytes
                                        << " bytes, poison " << poison);
        const Outcome tight = replay(recording, with(budget, {}, poison));
        expect_same_bits(free, tight);
        if (poison) continue;  // red zones take more
        EXPECT_LE(tight.arena_bytes, budget);
        EXPECT_EQ(tight.peak_bytes, tight.arena_bytes);  // what the plugin counted
        EXPECT_EQ(tight.report.repeats + tight.report.transfers > 0, budget < free.arena_bytes);
      }
    }
    EXPECT_EQ(smallest_of(replay(recording, with(smallest - 1)).error), smallest);
  }
}

TEST(Budget, LetsTensorsWaitOnTheHostWhereThatIsCheaper) {
  const budget::Costs fast_link{.flops_per_ns = 1e-3, .host_bytes_per_ns = 100};  // computing is what costs
  for (const std::uint64_t seed : {7u, 12u, 31u}) {
    SCOPED_TRACE(seed);
    const Recording recording = record(deep_program(seed), 3);
    const Outcome free = replay(recording, {});
    const std::uint64_t smallest = smallest_of(replay(recording, with(1, fast_link)).error);
    EXPECT_LT(smallest, smallest_of(replay(recording, with(1)).error));
    for (const bool poison : {false, true}) {
      const Outcome tight = replay(recording, with(smallest, fast_link, poison));
      expect_same_bits(free, tight);
      EXPECT_GT(tight.report.transfers, tight.report.repeats);
      EXPECT_GT(tight.report.transfer_bytes, 0u);
    }
  }
}

/// States of one iteration are read in the next one, so three of them show whether the host has the new ones.
TEST(Budget, LetsStatesLiveOnTheHost) {
  const budget::Costs link{.host_bytes_per_ns = 20};
  for (const std::uint64_t seed : {7u, 12u, 31u}) {
    const Recording recording = record(deep_program(seed), 3);
    std::uint64_t carried = 0;
    for (const graph::State& state : recording.program.states) {
      carried += 4 * static_cast<std::uint64_t>(recording.program.values[state.start].elements);
    }
    const Outcome free = replay(recording, {});
    const std::string refusal = replay(recording, with(1, link)).error;
    EXPECT_THAT(refusal, HasSubstr("more wait on the host"));
    const std::uint64_t smallest = smallest_of(refusal);
    EXPECT_LT(smallest, carried);
    for (const std::uint64_t budget : {(free.arena_bytes + smallest) / 2, smallest}) {
      for (const bool poison : {false, true}) {
        SCOPED_TRACE(testing::Message() << "seed " << seed << ", " << budget << " of " << free.arena_bytes
                                        << " bytes, poison " << poison);
        const Outcome tight = replay(recording, with(budget, link, poison));
        expect_same_bits(free, tight);
        EXPECT_LE(poison ? 0 : tight.peak_bytes, budget);  // red zones take more
      }
    }
  }
}

TEST(Budget, ThatCannotBeMetIsRefusedWithWhatWorks) {
  const Recording recording = record(deep_program(7), 1);
  const Outcome refused = replay(recording, with(1000));
  EXPECT_THAT(refused.error, AllOf(HasSubstr("memory plan: the memory budget of 1000 bytes cannot be met"),
                                   HasSubstr("the smallest that works is"), HasSubstr("states and constants")));
}

TEST(Objective, DecidesHowFarTheSearchGoes) {
  const Recording recording = record(deep_program(12), 2);
  const auto run = [&](Objective objective) { return replay(recording, {.memory = {.objective = objective}}); };
  const Outcome fastest = run(Objective::kFastest), balanced = run(Objective::kBalanced),
                least = run(Objective::kLeastMemory);
  expect_same_bits(fastest, balanced);
  expect_same_bits(fastest, least);
  EXPECT_EQ(fastest.report.moved, 0u);
  EXPECT_EQ(fastest.report.bound_ordered, fastest.report.bound_as_recorded);
  EXPECT_EQ(balanced.report.repeats, 0u);
  EXPECT_LT(least.arena_bytes, balanced.arena_bytes);
  EXPECT_EQ(least.arena_bytes, smallest_of(replay(recording, with(1)).error));
}

TEST(Objective, BalancedPutsStepsWhereLessIsAlive) {
  ProgramBuilder b;
  const graph::ValueId x = b.input("x", {64, 64});
  std::vector<graph::ValueId> all;
  for (int i = 0; i < 8; ++i) all.push_back(b.op(graph::OpKind::kMultiply, {b.whole(x), b.number(i)}, {64, 64}));
  for (const graph::ValueId value : all) b.loss("loss", value);
  const Recording recording = record(std::move(b.program), 2, 9);
  const Outcome fastest =
      replay(recording, {.fuse = false, .memory = {.objective = Objective::kFastest, .inputs_ahead = false}});
  const Outcome balanced = replay(recording, {.fuse = false, .memory = {.inputs_ahead = false}});
  expect_same_bits(fastest, balanced);
  EXPECT_GT(balanced.report.moved, 0u);
  EXPECT_GE(fastest.arena_bytes, 9u * 64 * 64 * 4);
  EXPECT_LT(balanced.arena_bytes, 3u * 64 * 64 * 4);  // x and one product at a time
  EXPECT_EQ(balanced.report.bound_ordered, balanced.arena_bytes);
}

TEST(Certificate, OfAnotherPlacementIsRefused) {
  const graph::Program program = training_step();
  const kernel::Schedule schedule = naive_schedule(program, true);
  Result<Placement> placed = place(program, schedule, std::vector<std::uint64_t>(schedule.steps.size(), 0));
  ASSERT_TRUE(placed);
  EXPECT_TRUE(placed->certificate.is_valid);
  EXPECT_TRUE(check_certificate(*placed));
  Placement moved = *placed, longer = *placed, judged = *placed, smaller = *placed;
  moved.plan.offsets[0] += kAlignment;
  ++longer.buffers[1].end;
  judged.certificate.is_valid = false;
  judged.certificate.verdict = "the sweep said no";
  smaller.certificate.spaces[0].peak_bytes -= kAlignment;
  for (const Placement& forged : {moved, longer, judged, smaller}) {
    const Result<void> refused = check_certificate(forged);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, ErrorCode::kCheckFailed);
    EXPECT_THAT(refused.error().message, HasSubstr("certificate"));
  }
}

TEST(RedZone, NamesTheStepThatWritesBehindABuffer) {
  const Recording recording = record(training_step(), 2, 3);
  const auto device = open(CRUCIBLE_TEST_REFUSING_PLUGIN, {{"words", ""}, {"overrun", "true"}});
  const TrialOptions untried{.is_on = false};  // which finds it too
  EXPECT_EQ(replay(recording, {.trial = untried}, device).error, "");  // nobody looks
  const Outcome caught =
      replay(recording, {.memory = {.inputs_ahead = false}, .poison = true, .trial = untried}, device);
  EXPECT_THAT(caught.error, AllOf(HasSubstr("iteration 0: step 0 ("),
                                  HasSubstr("wrote 3 bytes behind the end of a buffer of "), HasSubstr("that holds ")));
}

std::uint64_t resident_bytes() {
  std::ifstream statm("/proc/self/statm");
  std::uint64_t all = 0, resident = 0;
  statm >> all >> resident;
  return resident * static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
}

/// A chain over large tensors, so that the arena is all that counts in the process.
TEST(Budget, IsWhatTheProcessTakes) {
  ProgramBuilder b;
  constexpr std::int64_t kSide = 2048;  // 16 MiB each
  const graph::ValueId x = b.input("x", {4});
  std::vector<graph::ValueId> waiting;
  for (int layer = 0; layer < 6; ++layer) {
    graph::Operand spread =
        layer == 0 ? graph::Operand{x, graph::View{0, {kSide, kSide}, {0, 0}}, {}} : b.whole(waiting.back());
    waiting.push_back(b.op(graph::OpKind::kSin, {std::move(spread)}, {kSide, kSide}));
  }
  graph::ValueId sum = waiting.back();
  for (std::size_t layer = waiting.size() - 1; layer-- > 0;) {
    sum = b.op(graph::OpKind::kMultiply, {b.whole(sum), b.whole(waiting[layer])}, {kSide, kSide});
  }
  b.loss("loss", sum);
  const Recording recording = record(std::move(b.program), 1, 5);
  const auto device = open(CRUCIBLE_TEST_CPU_PLUGIN);
  const auto program = std::make_shared<const graph::Program>(recording.program);
  Options options{.fuse = false, .memory = {.budget_bytes = std::uint64_t{70} << 20}};
  const std::uint64_t before = resident_bytes();
  auto session = Session::create(program, recording.blobs, device, options);
  ASSERT_TRUE(session) << session.error().message;
  ASSERT_TRUE((*session)->run(0));
  const std::uint64_t grown = resident_bytes() - before, planned = (*session)->arena_bytes();
  EXPECT_LE(planned, options.memory.budget_bytes);
  EXPECT_GT((*session)->arrange_report().repeats, 0u);
  EXPECT_GE(grown + 4096, planned);
  EXPECT_LE(grown, planned + (std::uint64_t{12} << 20)) << "beside the arena: kernels, the plan and the loader's own";
}

}  // namespace
}  // namespace crucible::runtime
