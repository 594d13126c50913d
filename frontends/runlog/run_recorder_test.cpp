// Real replays, by the reference interpreter: what their records hold, and that it is the content alone that counts.
#include "frontends/runlog/run_recorder.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <filesystem>

#include "core/trace/trace_file.hpp"
#include "frontends/aten/testing/trace_builder.hpp"
#include "frontends/runlog/again.hpp"
#include "frontends/runlog/content.hpp"
#include "frontends/runlog/testing/log_samples.hpp"

namespace crucible::runlog {
namespace {

using aten::TraceBuilder;
using ::testing::HasSubstr;

const replay::DeviceChoice kReference = {.backend = "reference"};

struct Changes {
  float weight = 1, input = 2;
  double rate = 0.5;  // of the first iteration
  const char* name = "layer.weight";
};

/// loss = sum(w), w += rate * x, four times with another rate each.
trace::Trace recording(const Changes& changes = {}) {
  TraceBuilder b;
  const trace::TensorId w = b.fresh({4});
  for (int iteration = 0; iteration < 4; ++iteration) {
    const trace::TensorId x = b.fresh({4}), sum = b.fresh({});
    const float shift = iteration == 2 ? changes.input : 2;
    b.external(b.storage_of(x), std::vector<float>{static_cast<float>(iteration), shift, 3, 4}, trace::Role::kInput,
               "x");
    if (iteration == 0)
      b.external(b.storage_of(w), std::vector<float>{1, 1, changes.weight, 1}, trace::Role::kParameter, changes.name);
    b.op(aten::kSum, {b.tensor(w), b.none()}, {b.tensor(sum)});
    const double rate = iteration == 0 ? changes.rate : 0.5 / (1 << iteration);
    b.op(aten::kAddInPlace, {b.tensor(w), b.tensor(x), b.number(rate)}, {b.tensor(w)}, trace::Phase::kOptimizer);
    b.loss(sum, 4);
    b.end_iteration();
  }
  return b.trace();
}

class Recorded : public ::testing::Test {
 protected:
  std::string write(const trace::Trace& trace, const std::string& name = "a.crtrace") {
    const std::string file = (folder_ / name).string();
    EXPECT_TRUE(trace::write_file(trace, file));
    return file;
  }
  /// The run of a file, and what its recorder returned.
  RunData run(const std::string& file, const std::string& numerics = "strict", std::uint32_t every = 0,
              int interrupted_after = -1) {
    replay::Replay replay({.file = file, .device = {.backend = "reference", .numerics = numerics}});
    std::string text;
    ContentHash previous;
    RunRecorder recorder([&](Record record) {
      const std::string line = testing::chained({std::move(record)}, {}, previous);
      previous = hash_of_line(std::string_view(line).substr(0, line.size() - 1));
      text += line;
    });
    const Result<void> begun = recorder.begin(replay, {.file = file, .options = {{"fuse", "true"}}, .every = every});
    EXPECT_TRUE(begun) << begun.error().message;
    int asked = 0;
    const Result<int> ran = recorder.run(replay, [&] { return asked++ == interrupted_after ? SIGINT : 0; });
    EXPECT_TRUE(ran) << ran.error().message;
    EXPECT_TRUE(ran && *ran == (interrupted_after >= 0 ? SIGINT : 0));
    recorder.done(true);
    recorder.failed("too late");  // it was told already
    const Result<Log> log = read_log_text(text, "memory");
    EXPECT_TRUE(log && !log->fault) << text;
    EXPECT_EQ(log->runs.size(), 1u);
    return data_of(*log, log->runs[0]);
  }

  testing::KeyFolder folder_;
};

TEST_F(Recorded, HasEveryIteration) {
  const RunData data = run(write(recording()));
  EXPECT_EQ(data.begin.iterations, 4u);
  EXPECT_EQ(data.begin.numerics, "strict");
  EXPECT_EQ(data.begin.machine.backend, "reference");
  EXPECT_EQ(data.begin.source.file, "a.crtrace");
  EXPECT_EQ(data.begin.program.variants, 1u);
  ASSERT_EQ(data.iterations.size(), 4u);
  EXPECT_NE(data.iterations[0].state, data.begin.state);
  EXPECT_NE(data.iterations[0].state, data.iterations[1].state);
  EXPECT_NE(data.iterations[0].inputs, data.iterations[1].inputs) << "other bytes";
  EXPECT_NE(data.iterations[0].slots, data.iterations[1].slots) << "another rate";
  ASSERT_TRUE(data.iterations[0].losses[0]);
  EXPECT_EQ(*data.iterations[0].losses[0], 4.0);
  ASSERT_TRUE(data.end);
  EXPECT_EQ(data.end->ending, Ending::kDone);
  EXPECT_EQ(data.end->verified, true);
  EXPECT_EQ(data.end->state, data.iterations[3].state);
  ASSERT_EQ(data.end->states.size(), data.begin.states);
  EXPECT_EQ(data.end->states[0].name, "layer.weight");
  EXPECT_EQ(root_of(data.end->states), *data.end->state);
}

TEST_F(Recorded, HashesAreOfTheContentThatTheDocumentationNames) {
  const RunData data = run(write(recording()));
  const float before[] = {1, 1, 1, 1};
  const std::string line = "state 12:layer.weight f32 4 " + sha256(std::as_bytes(std::span(before))).hex() + "\n";
  EXPECT_EQ(data.begin.state, testing::hash_of_text(line));
  const float x[] = {0, 2, 3, 4};
  EXPECT_EQ(data.iterations[0].inputs,
            testing::hash_of_text("input 1:x f32 4 " + sha256(std::as_bytes(std::span(x))).hex() + "\n"));
  const double loss = 4;
  EXPECT_EQ(data.iterations[0].outputs,
            testing::hash_of_text("loss 4:loss " + sha256(std::as_bytes(std::span(&loss, 1))).hex() + "\n"));
}

TEST_F(Recorded, AgainItIsTheSame) {
  const std::string file = write(recording());
  const RunData first = run(file);
  EXPECT_EQ(*fault_of_recording(first, file), "");
  const auto again = run_again(first, file, kReference, {});
  ASSERT_TRUE(again) << again.error().message;
  const Comparison comparison = compare(first, *again);
  EXPECT_TRUE(comparison.is_equal()) << in_words(comparison, first, *again);
  EXPECT_TRUE(is_again(comparison, first));
}

TEST_F(Recorded, EveryDifferenceIsSeenWhereItBegins) {
  const RunData plain = run(write(recording()));
  const auto parting = [&](const Changes& changes) {
    const std::string file = write(recording(changes), "other.crtrace");
    const Comparison comparison = compare(plain, run(file));
    EXPECT_FALSE(comparison.is_equal());
    EXPECT_THAT(*fault_of_recording(plain, file), HasSubstr("is of another recording"));
    return comparison;
  };
  Comparison comparison = parting({.weight = 1.5f});
  EXPECT_FALSE(comparison.same_start);
  EXPECT_TRUE(comparison.same_program);
  comparison = parting({.input = 2.5f});
  EXPECT_TRUE(comparison.same_start);
  EXPECT_EQ(comparison.parting->iteration, 2u);
  EXPECT_EQ(comparison.parting->what, "inputs");
  comparison = parting({.rate = 0.75});
  EXPECT_EQ(comparison.parting->iteration, 0u);
  EXPECT_EQ(comparison.parting->what, "numbers");
  EXPECT_THAT(comparison.states_apart, ::testing::ElementsAre("layer.weight (f32, 4 elements)"));
  EXPECT_FALSE(parting({.name = "another.weight"}).same_start) << "names are part of a state";
}

TEST_F(Recorded, EveryNthAndTheLast) {
  const RunData data = run(write(recording()), "strict", 3);
  ASSERT_EQ(data.iterations.size(), 2u);
  EXPECT_EQ(data.iterations[0].index, 2u);
  EXPECT_EQ(data.iterations[1].index, 3u);
  EXPECT_EQ(data.begin.every, 3u);
}

TEST_F(Recorded, AnInterruptedRunSaysSo) {
  const RunData data = run(write(recording()), "strict", 0, 2);
  ASSERT_TRUE(data.end);
  EXPECT_EQ(data.end->ending, Ending::kInterrupted);
  EXPECT_EQ(data.end->words, "SIGINT");
  EXPECT_EQ(data.end->iterations, 2u);
  EXPECT_EQ(data.end->state, data.iterations[1].state);
  EXPECT_FALSE(data.end->verified);
  const RunData sparse = run(write(recording()), "strict", 4, 1);  // between two that are logged
  EXPECT_TRUE(sparse.iterations.empty());
  EXPECT_EQ(sparse.end->state, data.iterations[0].state);
  const auto again = run_again(sparse, write(recording()), kReference, {});
  ASSERT_TRUE(again) << again.error().message;
  EXPECT_TRUE(is_again(compare(sparse, *again), sparse));
}

TEST_F(Recorded, AFailureEndsIt) {
  const std::string file = write(recording());
  replay::Replay replay({.file = file, .device = {.backend = "reference"}});
  std::vector<Record> records;
  RunRecorder recorder([&](Record record) { records.push_back(std::move(record)); });
  recorder.failed("before it began");
  EXPECT_TRUE(records.empty());
  ASSERT_TRUE(recorder.begin(replay, {.file = file, .options = {}}));
  recorder.failed(std::string(10000, 'a'));
  ASSERT_EQ(records.size(), 2u);
  const auto& end = std::get<RunEnd>(records[1].content);
  EXPECT_EQ(end.ending, Ending::kFailed);
  EXPECT_EQ(end.words.size(), 4000u);
}

TEST_F(Recorded, FastNumericsAreRunAgainWhereTheyRan) {
  const std::string file = write(recording());
  const RunData fast = run(file, "fast");
  const auto again = run_again(fast, file, kReference, {});
  ASSERT_TRUE(again) << again.error().message;
  EXPECT_TRUE(is_again(compare(fast, *again), fast));
  const auto elsewhere = run_again(fast, file, {.backend = "cpu"}, {});
  ASSERT_FALSE(elsewhere);
  EXPECT_EQ(elsewhere.error().code, ErrorCode::kUsage);
  EXPECT_THAT(elsewhere.error().message, HasSubstr("add --backend reference"));
}

TEST_F(Recorded, ARunWithoutIterationsIsNotRunAgain) {
  const std::string file = write(recording());
  RunData killed = run(file);
  killed.end.reset();
  killed.iterations.clear();
  EXPECT_THAT(run_again(killed, file, kReference, {}).error().message, HasSubstr("there is nothing to run again"));
}

TEST(Content, EverythingOfAStateIsInTheHash) {
  const NamedState state{"w", "f32", 4, testing::hash_of_text("bytes")};
  const auto root = [](std::vector<NamedState> states) { return root_of(states); };
  NamedState other = state;
  other.name = "w ";
  EXPECT_NE(root({state}), root({other}));
  other = state;
  other.dtype = "i32";
  EXPECT_NE(root({state}), root({other}));
  other = state;
  other.elements = 5;
  EXPECT_NE(root({state}), root({other}));
  other = state;
  other.hash = testing::hash_of_text("other bytes");
  EXPECT_NE(root({state}), root({other}));
  EXPECT_NE(root({state, other}), root({other, state}));
  EXPECT_NE(root({}), root({state}));
}

}  // namespace
}  // namespace crucible::runlog
