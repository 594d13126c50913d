// Sessions on a device that refuses kernels: what the second device takes gives the same bits as a run on one device.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <filesystem>

#include "plugins/loader/testing/kept.hpp"
#include "runtime/run/session.hpp"
#include "runtime/testing/test_programs.hpp"

namespace crucible::runtime {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

std::shared_ptr<backend::Device> open(const char* path, backend::Options options) {
  options["threads"] = "2";
  auto loaded = backend::Backend::load(path, options, backend::shared_store());
  EXPECT_TRUE(loaded) << loaded.error().message;
  if (!loaded) return nullptr;
  auto opened = (*loaded)->open("");
  EXPECT_TRUE(opened) << opened.error().message;
  return opened ? *opened : nullptr;
}

std::shared_ptr<backend::Device> open_cpu() { return open(CRUCIBLE_TEST_CPU_PLUGIN, {}); }

struct Outcome {
  std::vector<std::uint64_t> losses;  // their bits
  std::vector<std::pair<std::string, double>> states;
  bool verified = false;
  std::string error, reason;
  FallbackReport fallback;
  std::size_t profiled = 0, steps = 0;
  int opened = 0;  // how often the second device was asked for
};

Outcome replay(const Recording& recording, const std::shared_ptr<backend::Device>& device, Options options) {
  Outcome outcome;
  options.open_second = [&outcome]() -> Result<std::shared_ptr<backend::Device>> {
    return ++outcome.opened, open_cpu();
  };
  const auto program = std::make_shared<const graph::Program>(recording.program);
  auto session = Session::create(program, recording.blobs, device, options);
  if (!session) return outcome.error = session.error().message, outcome;
  std::vector<IterationResult> results;
  for (int round = 0; round < 2; ++round) {  // twice: reset() must bring both arenas back
    if (round == 1 && !(*session)->reset()) return outcome.error = "reset failed", outcome;
    results.clear();
    for (std::uint32_t i = 0; i < program->iterations; ++i) {
      auto result = (*session)->run(i);
      if (!result) return outcome.error = result.error().message, outcome;
      results.push_back(*std::move(result));
    }
  }
  for (const IterationResult& result : results) {
    for (const double loss : result.losses) outcome.losses.push_back(std::bit_cast<std::uint64_t>(loss));
  }
  auto verified = (*session)->verify(results);
  if (!verified) return outcome.error = verified.error().message, outcome;
  outcome.verified = verified->verified;
  outcome.reason = verified->reason;
  for (const StateDifference& state : verified->states) outcome.states.emplace_back(state.name, state.max_rel_diff);
  std::ranges::sort(outcome.states);
  outcome.fallback = (*session)->fallback();
  outcome.steps = (*session)->schedule().steps.size();
  if (const auto profile = (*session)->profile()) outcome.profiled = profile->size();
  return outcome;
}

Outcome on_refusing(const Recording& recording, const std::string& words, const Options& options, bool silent = false) {
  return replay(recording,
                open(CRUCIBLE_TEST_REFUSING_PLUGIN, {{"words", words}, {"silent", silent ? "true" : "false"}}),
                options);
}

Options with(Fallback fallback, bool fuse = true, bool poison = false) {
  Options options;
  options.fallback = fallback;
  options.fuse = fuse;
  options.poison = poison;
  return options;
}

TEST(Fallback, TheSecondDeviceGivesTheSameBits) {
  const Recording recording = record(training_step(), 4, 1);
  for (const bool fuse : {true, false}) {
    for (const bool poison : {true, false}) {
      for (const bool silent : {true, false}) {
        const Outcome alone = replay(recording, open_cpu(), with(Fallback::kForbid, fuse, poison));
        const Outcome split = on_refusing(recording, "tanh", with(Fallback::kAllow, fuse, poison), silent);
        ASSERT_EQ(alone.error + split.error, "");
        EXPECT_TRUE(split.verified) << split.reason;
        EXPECT_EQ(split.losses, alone.losses);
        EXPECT_EQ(split.states, alone.states);
        EXPECT_EQ(split.profiled, split.steps);
        ASSERT_NE(split.fallback.device, nullptr);
        EXPECT_EQ(split.fallback.device->info().id, "cpu:0");
        EXPECT_FALSE(split.fallback.steps.empty());
        EXPECT_GT(split.fallback.copies_per_iteration, 0u);
        EXPECT_GT(split.fallback.bytes_per_iteration, 0u);
        EXPECT_GE(split.fallback.segments, 2u);
      }
    }
  }
}

/// Steps that run again, tensors that wait and states that live on the host, while two devices take turns.
TEST(Fallback, TheSecondDeviceWorksWithinABudget) {
  for (const std::uint64_t seed : {7u, 12u}) {
    const Recording recording = record(deep_program(seed), 3);
    const Outcome alone = replay(recording, open_cpu(), with(Fallback::kForbid, false));
    for (const double link : {0.0, 20.0}) {
      for (const bool poison : {true, false}) {
        SCOPED_TRACE(testing::Message() << "seed " << seed << ", link " << link << ", poison " << poison);
        Options options = with(Fallback::kAllow, false, poison);
        options.memory = {.budget_bytes = 1, .or_smallest = true, .costs = {.host_bytes_per_ns = link}};
        for (const char* words : {"tanh", "sin"}) {
          const Outcome split = on_refusing(recording, words, options);
          ASSERT_EQ(alone.error + split.error, "");
          EXPECT_EQ(split.losses, alone.losses) << words;
          EXPECT_EQ(split.states, alone.states) << words;
          EXPECT_FALSE(split.fallback.steps.empty()) << words;
        }
      }
    }
  }
}

TEST(Fallback, EveryKernelMayBeRefused) {
  const Recording recording = record(training_step(), 3, 2);
  const Outcome alone = replay(recording, open_cpu(), with(Fallback::kForbid));
  const Outcome split = on_refusing(recording, "void", with(Fallback::kAllow, true, true));
  ASSERT_EQ(alone.error + split.error, "");
  EXPECT_EQ(split.losses, alone.losses);
  EXPECT_EQ(split.states, alone.states);
}

TEST(Fallback, RandomProgramsGiveTheSameBits) {
  std::size_t with_copies = 0;
  for (std::uint64_t seed = 100; seed < 112; ++seed) {
    graph::RandomOptions options;
    options.seed = seed;
    options.ops = static_cast<std::uint32_t>(12 + 2 * (seed % 12));
    const Recording recording = record(graph::random_program(options), 2);
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    // Digits of loop bounds and names: an arbitrary half of the kernels.
    const Outcome alone = replay(recording, open_cpu(), with(Fallback::kForbid, false, true));
    const Outcome split =
        on_refusing(recording, "exp,tanh,sqrt,b3,64", with(Fallback::kAllow, false, true), seed % 2 == 0);
    ASSERT_EQ(alone.error + split.error, "");
    EXPECT_EQ(split.losses, alone.losses);
    EXPECT_EQ(split.states, alone.states);
    with_copies += split.fallback.copies_per_iteration > 0;
  }
  EXPECT_GT(with_copies, 3u);
}

TEST(Fallback, ForbidNamesTheOpAndItsPlace) {
  Recording recording = record(training_step(), 1, 3);
  recording.program.sources.push_back({"aten::tanh", "layers.1", "train.py:12", graph::Phase::kForward, 0});
  for (graph::Op& op : recording.program.ops) {
    if (op.kind == graph::OpKind::kTanh) op.source = static_cast<std::uint32_t>(recording.program.sources.size() - 1);
  }
  for (const bool silent : {true, false}) {
    const Outcome outcome = on_refusing(recording, "tanh", with(Fallback::kForbid, false), silent);
    EXPECT_THAT(outcome.error,
                AllOf(HasSubstr("device refusing:0 refuses 1 of"), HasSubstr("tanh at train.py:12 (layers.1): "),
                      HasSubstr("this device has no such word"), HasSubstr("--fallback allow")));
    EXPECT_EQ(outcome.opened, 0);
  }
}

TEST(Fallback, NothingRefusedMeansNoSecondDevice) {
  const Recording recording = record(training_step(), 1, 4);
  const Outcome outcome = on_refusing(recording, "a word that no kernel has", with(Fallback::kAllow));
  ASSERT_EQ(outcome.error, "");
  EXPECT_EQ(outcome.opened, 0);
  EXPECT_EQ(outcome.fallback.device, nullptr);
  EXPECT_EQ(outcome.fallback.segments, 1u);
  EXPECT_EQ(outcome.fallback.copies_per_iteration, 0u);
}

TEST(Fallback, AMissingSecondDeviceIsNamed) {
  const Recording recording = record(training_step(), 1, 5);
  Options options = with(Fallback::kAllow);
  options.open_second = []() -> Result<std::shared_ptr<backend::Device>> {
    return Error{ErrorCode::kUnavailable, "no CPU plugin in /nowhere"};
  };
  const auto session = Session::create(std::make_shared<const graph::Program>(recording.program), recording.blobs,
                                       open(CRUCIBLE_TEST_REFUSING_PLUGIN, {{"words", "tanh"}}), options);
  ASSERT_FALSE(session);
  EXPECT_EQ(session.error().code, ErrorCode::kUnavailable);
  EXPECT_THAT(session.error().message, HasSubstr("device for refused kernels: no CPU plugin in /nowhere"));
}

TEST(Fallback, AFailingCompilerIsNoRefusal) {
  const Recording recording = record(training_step(), 1, 6);
  const Outcome outcome =
      replay(recording, open(CRUCIBLE_TEST_REFUSING_PLUGIN, {{"words", ""}, {"compiler", "/nonexistent/cc"}}),
             with(Fallback::kAllow));
  EXPECT_THAT(outcome.error, AllOf(HasSubstr("compile: "), HasSubstr("/nonexistent/cc")));
  EXPECT_EQ(outcome.opened, 0);
}

}  // namespace
}  // namespace crucible::runtime
