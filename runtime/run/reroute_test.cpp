// Runs whose device is lost: whatever was going on, another device ends them with the bits of a run that lost none.
#include "runtime/run/reroute.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <filesystem>

#include "plugins/loader/testing/kept.hpp"
#include "runtime/judge/result_hash.hpp"
#include "runtime/testing/test_programs.hpp"

namespace crucible::runtime {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

using Device = Result<std::shared_ptr<backend::Device>>;

Device open(const char* path, backend::Options options, const char* id = "") {
  options["threads"] = "2";
  auto loaded = backend::Backend::load(path, options, backend::shared_store());
  if (!loaded) return loaded.error();
  return (*loaded)->open(id);
}

Device open_cpu() { return open(CRUCIBLE_TEST_CPU_PLUGIN, {}); }
/// A device that is lost at the n-th call of a site; "" is never lost.
Device open_losing(const std::string& rule, const char* id = "") {
  return open(CRUCIBLE_TEST_REFUSING_PLUGIN, {{"lose", rule}, {"devices", "2"}}, id);
}

struct Outcome {
  std::string error;
  ErrorCode code = ErrorCode::kCheckFailed;
  std::string sha256;  // of all losses and the states at the end
  bool verified = false;
  std::vector<DeviceLoss> losses;
  KeptStates kept;
  std::vector<IterationResult> results;
};

Outcome fail(Outcome outcome, const Error& error) {
  outcome.error = error.message;
  outcome.code = error.code;
  return outcome;
}

/// `devices` take over one after the other; without any, a loss is an error.
Outcome replay(const Recording& recording, const Device& first, std::vector<std::function<Device()>> devices,
               Options options = {}, std::uint32_t keep_every = 1) {
  Outcome outcome;
  if (!first) return fail(outcome, first.error());
  options.numerics = kernel::Numerics::kStrict;
  options.trial.is_on = false;  // devices are lost in a launch that is counted: it is to be one of an iteration
  const auto program = std::make_shared<const graph::Program>(recording.program);
  auto session = Session::create(program, recording.blobs, *first, options);
  if (!session) return fail(outcome, session.error());
  RerouteOptions reroute{.keep_every = keep_every, .compare_outputs = true};
  std::size_t used = 0;
  if (!devices.empty()) {
    reroute.next = [&](const DeviceLoss&) -> Result<std::unique_ptr<Session>> {
      if (used == devices.size()) return Error{ErrorCode::kUnavailable, "no more devices"};
      CRUCIBLE_TRY(const std::shared_ptr<backend::Device> device, devices[used++]());
      return Session::create(program, recording.blobs, device, options);
    };
  }
  ReroutedRun run(*std::move(session), reroute);
  if (const auto ran = run.run(program->iterations); !ran) return fail(outcome, ran.error());
  const auto verdict = run.ask([&](Session& of) { return of.verify(run.results()); });
  if (!verdict) return fail(outcome, verdict.error());
  const auto sha256 = run.ask([&](Session& of) { return result_sha256(of, *program, run.results()); });
  if (!sha256) return fail(outcome, sha256.error());
  outcome.verified = verdict->verified;
  outcome.sha256 = sha256->value_or("");
  outcome.losses = run.losses();
  outcome.kept = run.kept();
  outcome.results = run.results();
  return outcome;
}

TEST(ReroutedRun, GoesOnFromTheLastIterationWithTheSameBits) {
  const Recording recording = record(training_step(), 5, 1);
  const Outcome alone = replay(recording, open_cpu(), {});
  ASSERT_EQ(alone.error, "");
  for (std::uint32_t lost_in = 0; lost_in < 5; ++lost_in) {
    for (const bool poison : {true, false}) {
      SCOPED_TRACE(testing::Message() << "iteration " << lost_in << ", poison " << poison);
      const Outcome moved =
          replay(recording, open_losing("replay#" + std::to_string(lost_in + 1)), {open_cpu}, {.poison = poison});
      ASSERT_EQ(moved.error, "");
      EXPECT_TRUE(moved.verified);
      EXPECT_EQ(moved.sha256, alone.sha256);
      ASSERT_EQ(moved.losses.size(), 1u);
      EXPECT_EQ(moved.losses[0].device, "refusing:0");
      EXPECT_EQ(moved.losses[0].went_on, "cpu:0");
      if (!poison) {  // poisoned, an iteration is many plans
        EXPECT_EQ(moved.losses[0].iteration, lost_in);
      }
      EXPECT_EQ(moved.losses[0].from_iteration, moved.losses[0].iteration);
      EXPECT_EQ(moved.losses[0].repeated, 0u);
      EXPECT_THAT(moved.losses[0].reason, AllOf(HasSubstr("step"), HasSubstr("refusing:0 fell off the bus")));
      EXPECT_EQ(moved.kept.times, 5u);
      EXPECT_GT(moved.kept.bytes, 0u);
    }
  }
}

/// While states, inputs and constants are loaded, a plan is built, outputs and states are read: at every call of the
/// device there is.
TEST(ReroutedRun, ALossAtAnyCallIsSurvived) {
  const Recording recording = record(training_step(), 3, 2);
  const Outcome alone = replay(recording, open_cpu(), {});
  ASSERT_EQ(alone.error, "");
  for (const char* site : {"write", "read"}) {
    int survived = 0;
    for (int call = 1; call < 60; ++call) {
      const std::string rule = std::string(site) + "#" + std::to_string(call);
      SCOPED_TRACE(rule);
      const Outcome moved = replay(recording, open_losing(rule), {open_cpu});
      if (!moved.error.empty()) {  // before there was a session: the caller's affair
        EXPECT_THAT(moved.error, HasSubstr("fell off the bus"));
        EXPECT_EQ(survived, 0);
        continue;
      }
      EXPECT_EQ(moved.sha256, alone.sha256);
      EXPECT_EQ(moved.results.size(), 3u);
      if (moved.losses.empty()) break;
      ++survived;
    }
    EXPECT_GT(survived, 5) << site;
  }
}

TEST(ReroutedRun, StatesThatWereNotKeptAreComputedAgain) {
  const Recording recording = record(training_step(), 6, 3);
  const Outcome alone = replay(recording, open_cpu(), {});
  const struct {
    std::uint32_t keep_every, from, times;
  } cases[] = {{0, 0, 0}, {1, 4, 6}, {2, 4, 3}, {3, 3, 2}, {100, 0, 0}};
  for (const auto& expected : cases) {
    SCOPED_TRACE(expected.keep_every);
    const Outcome moved = replay(recording, open_losing("replay#5"), {open_cpu}, {}, expected.keep_every);
    ASSERT_EQ(moved.error, "");
    EXPECT_EQ(moved.sha256, alone.sha256);
    EXPECT_EQ(moved.losses[0].from_iteration, expected.from);
    EXPECT_EQ(moved.losses[0].repeated, 4 - expected.from);
    EXPECT_EQ(moved.kept.times, expected.times);
  }
}

TEST(ReroutedRun, ASecondLossIsSurvivedToo) {
  const Recording recording = record(training_step(), 6, 4);
  const Outcome alone = replay(recording, open_cpu(), {});
  for (const std::uint32_t keep_every : {1u, 0u}) {
    // The neighbour has no losses of its own; the device that is opened again does.
    const auto again = [] { return open_losing("replay#2"); };
    const auto neighbour = [] { return open_losing("replay#2", "refusing:1"); };
    const Outcome moved = replay(recording, open_losing("replay#2"), {again, again, neighbour}, {}, keep_every);
    ASSERT_EQ(moved.error, "");
    EXPECT_EQ(moved.sha256, alone.sha256);
    ASSERT_EQ(moved.losses.size(), 3u);
    EXPECT_EQ(moved.losses[2].went_on, "refusing:1");
    EXPECT_EQ(moved.losses[2].from_iteration, keep_every == 1 ? 3u : 0u);
  }
}

/// States that wait on the host, tensors that are computed twice.
TEST(ReroutedRun, WithinAMemoryBudget) {
  for (const std::uint64_t seed : {7u, 12u}) {
    const Recording recording = record(deep_program(seed), 3);
    Options options;
    options.fuse = false;
    options.memory = {.budget_bytes = 1, .or_smallest = true, .costs = {.host_bytes_per_ns = 20}};
    const Outcome alone = replay(recording, open_cpu(), {}, options);
    const Outcome moved = replay(recording, open_losing("replay#20"), {open_cpu}, options);
    ASSERT_EQ(alone.error + moved.error, "");
    EXPECT_EQ(moved.sha256, alone.sha256);
    EXPECT_EQ(moved.losses.size(), 1u);
  }
}

/// Refused kernels run on a second device beside the one that is lost.
TEST(ReroutedRun, ADeviceThatRefusedKernels) {
  const Recording recording = record(training_step(), 4, 5);
  Options options;
  options.fallback = Fallback::kAllow;
  options.open_second = open_cpu;
  const Outcome alone = replay(recording, open_cpu(), {}, options);
  const auto refusing = open(CRUCIBLE_TEST_REFUSING_PLUGIN, {{"lose", "replay#4"}, {"words", "tanh"}});
  const Outcome moved = replay(recording, refusing, {open_cpu}, options);
  ASSERT_EQ(alone.error + moved.error, "");
  EXPECT_EQ(moved.sha256, alone.sha256);
  EXPECT_EQ(moved.losses.size(), 1u);
}

TEST(ReroutedRun, ForbiddenNamesDeviceIterationStepAndWhatToDo) {
  const Recording recording = record(training_step(), 4, 6);
  const Outcome lost = replay(recording, open_losing("replay#3"), {});
  EXPECT_EQ(lost.code, ErrorCode::kUnavailable);
  EXPECT_THAT(
      lost.error,
      AllOf(HasSubstr("device refusing:0 (a device that refuses) was lost in iteration 2 (of 0 to 3): in step 1 of "),
            HasSubstr("fell off the bus"), HasSubstr("--fallback warn or allow")));
}

TEST(ReroutedRun, NobodyTakesOver) {
  const Recording recording = record(training_step(), 4, 7);
  const auto none = []() -> Device {
    return Error{ErrorCode::kUnavailable, "none of these:\n  acme:0: it is switched off"};
  };
  const Outcome lost = replay(recording, open_losing("replay#2"), {none});
  EXPECT_EQ(lost.code, ErrorCode::kUnavailable);
  EXPECT_THAT(lost.error,
              AllOf(HasSubstr("refusing:0"), HasSubstr("in iteration 1"),
                    HasSubstr("no other device takes over: none of these:"), HasSubstr("acme:0: it is switched off")));
}

/// What is no loss stays an error, and nobody is asked for another device.
TEST(ReroutedRun, AnotherErrorIsNotALoss) {
  Recording recording = record(training_step(), 3, 8);
  ASSERT_FALSE(recording.program.inputs.empty());
  recording.program.inputs[0].blobs.pop_back();
  int asked = 0;
  const auto count = [&]() -> Device { return ++asked, open_cpu(); };
  const Outcome wrong = replay(recording, open_losing(""), {count});
  EXPECT_EQ(wrong.code, ErrorCode::kBadInput);
  EXPECT_EQ(asked, 0);
}

TEST(ReroutedRun, WithoutNextNothingIsKept) {
  const Recording recording = record(training_step(), 3, 9);
  const Outcome alone = replay(recording, open_losing(""), {});
  ASSERT_EQ(alone.error, "");
  EXPECT_EQ(alone.kept.times, 0u);
}

TEST(Checkpoint, IsOfOneProgramAlone) {
  const Recording recording = record(training_step(), 2, 10), other = record(deep_program(3), 2);
  const auto device = open_cpu();
  ASSERT_TRUE(device);
  auto one = Session::create(std::make_shared<const graph::Program>(recording.program), recording.blobs, *device, {});
  auto two = Session::create(std::make_shared<const graph::Program>(other.program), other.blobs, *device, {});
  ASSERT_TRUE(one && two);
  Checkpoint checkpoint;
  ASSERT_TRUE((*one)->run(0));
  ASSERT_TRUE((*one)->save(checkpoint));
  EXPECT_EQ(checkpoint.next_iteration, 1u);
  const auto restored = (*two)->restore(checkpoint);
  ASSERT_FALSE(restored);
  EXPECT_EQ(restored.error().code, ErrorCode::kInternal);
}

}  // namespace
}  // namespace crucible::runtime
