// Iterations in flight: inputs that are written ahead, devices that work at the same time, and what an error or a lost
// device does to all that was submitted. What ran when is told by the order of events, never by how long they took.
#include "runtime/run/submission.hpp"

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

/// w becomes tanh(w + the sum of x); with so many numbers in x that writing them ahead is worth it.
graph::Program wide_inputs(std::int64_t numbers) {
  ProgramBuilder b;
  const graph::ValueId x = b.input("x", {numbers}), w = b.state("w", {numbers});
  const graph::ValueId sum = b.op(graph::OpKind::kAdd, {b.whole(w), b.whole(x)}, {numbers});
  const graph::ValueId next = b.op(graph::OpKind::kTanh, {b.whole(sum)}, {numbers});
  b.loss("loss", next);
  b.end_state(w, next);
  return std::move(b.program);
}

std::unique_ptr<Session> session_of(const Recording& recording, const std::shared_ptr<backend::Device>& device,
                                    const Options& options) {
  auto session =
      Session::create(std::make_shared<const graph::Program>(recording.program), recording.blobs, device, options);
  EXPECT_TRUE(session) << session.error().message;
  return session ? *std::move(session) : nullptr;
}

/// The bits of all losses; "" in `error` where everything ran.
std::vector<std::uint64_t> run_all(Session& session, std::string& error) {
  std::vector<std::uint64_t> bits;
  for (std::uint32_t i = 0; i < session.program().iterations; ++i) {
    const auto result = session.run(i);
    if (!result) return error = result.error().message, bits;
    for (const double loss : result->losses) bits.push_back(std::bit_cast<std::uint64_t>(loss));
  }
  return bits;
}

/// "inputs 0", "run 0", ... in the order in which they were noted.
std::vector<std::string> in_words(const BusyTimes& busy, const std::string& device) {
  static constexpr const char* kWords[] = {"run", "inputs", "copies", "results"};
  std::vector<std::string> words;
  for (const Busy& each : busy.all()) {
    EXPECT_LE(each.begin_ns, each.end_ns);
    if (each.device != device) continue;
    words.push_back(std::string(kWords[static_cast<int>(each.with)]) + " " + std::to_string(each.iteration));
  }
  return words;
}

TEST(Submission, TheNextInputsAreWrittenWhileAnIterationRuns) {
  const Recording recording = record(wide_inputs(8192), 4, 1);
  std::string error;
  for (const bool is_ahead : {true, false}) {
    const auto busy = std::make_shared<BusyTimes>();
    const auto session = session_of(recording, open_cpu(), {.memory = {.inputs_ahead = is_ahead}, .busy = busy});
    ASSERT_NE(session, nullptr);
    run_all(*session, error);
    ASSERT_EQ(error, "");
    // What is noted behind "inputs 1" was waited for behind it: iteration 0 was in flight when they were written.
    const std::vector<std::string> ahead = {"inputs 0",  "inputs 1", "run 0", "results 0", "inputs 2", "run 1",
                                            "results 1", "inputs 3", "run 2", "results 2", "run 3",    "results 3"};
    const std::vector<std::string> between = {"inputs 0", "run 0", "results 0", "inputs 1", "run 1", "results 1",
                                              "inputs 2", "run 2", "results 2", "inputs 3", "run 3", "results 3"};
    EXPECT_EQ(in_words(*busy, "cpu:0"), is_ahead ? ahead : between);
  }
}

TEST(Submission, InputsWrittenAheadGiveTheSameBits) {
  for (const std::int64_t numbers : {std::int64_t{100}, std::int64_t{8192}}) {
    const Recording recording = record(wide_inputs(numbers), 5, 2);
    std::string error;
    std::vector<std::vector<std::uint64_t>> all;
    for (const bool is_ahead : {true, false}) {
      for (const bool poison : {true, false}) {
        const auto session =
            session_of(recording, open_cpu(), {.memory = {.inputs_ahead = is_ahead}, .poison = poison});
        ASSERT_NE(session, nullptr);
        all.push_back(run_all(*session, error));
        ASSERT_TRUE(session->reset());
        EXPECT_EQ(run_all(*session, error), all.back()) << "after reset()";
      }
    }
    ASSERT_EQ(error, "");
    for (const auto& bits : all) EXPECT_EQ(bits, all[0]);
  }
}

TEST(Submission, PlannedMemoryHasBothPlaces) {
  const Recording recording = record(wide_inputs(8192), 2, 3);
  const auto peak = [&](MemoryOptions memory) {
    const auto session = session_of(recording, open_cpu(), {.memory = memory});
    return session == nullptr ? 0 : session->placement().plan.peak_bytes;
  };
  EXPECT_GE(peak({}), peak({.inputs_ahead = false}) + 8192 * 4);
  EXPECT_EQ(peak({.objective = Objective::kLeastMemory}),
            peak({.objective = Objective::kLeastMemory, .inputs_ahead = false}));
}

// Two sessions, two devices: both are started before either is waited for.
TEST(Submission, TwoDevicesWorkAtTheSameTime) {
  const Recording recording = record(wide_inputs(8192), 3, 4);
  const auto busy = std::make_shared<BusyTimes>();
  const auto first = session_of(recording, open_cpu(), {.busy = busy});
  const auto second = session_of(recording, open(CRUCIBLE_TEST_REFUSING_PLUGIN, {}), {.busy = busy});
  ASSERT_TRUE(first && second);
  for (std::uint32_t i = 0; i < 3; ++i) {
    ASSERT_TRUE(first->start(i));
    ASSERT_TRUE(second->start(i));
    const auto of_first = first->finish(), of_second = second->finish();
    ASSERT_TRUE(of_first && of_second);
    EXPECT_EQ(of_first->losses, of_second->losses);
  }
  EXPECT_EQ(in_words(*busy, "cpu:0"), in_words(*busy, "refusing:0"));
}

TEST(Submission, APointIsReachedOrAnswersTheError) {
  const auto device = open(CRUCIBLE_TEST_REFUSING_PLUGIN, {{"lose", "replay#3"}});
  auto memory = backend::Buffer::allocate(device, 64, 64);
  ASSERT_TRUE(memory);
  const std::uint64_t address = memory->address();
  crucible_op op{};
  op.struct_size = sizeof(op);
  op.kind = CRUCIBLE_OP_FILL;
  op.buffers = &address;
  op.buffer_count = 1;
  op.size = 64;
  op.pattern = 7;
  const auto plan = backend::Plan::build(device, {&op, 1}, 0);
  ASSERT_TRUE(plan);
  Submissions submissions(device);
  ASSERT_TRUE(submissions.wait(submissions.last()));  // of nothing
  const auto first = submissions.submit(*plan), second = submissions.submit(*plan);
  ASSERT_TRUE(first && second);
  EXPECT_EQ(*second, *first + 1);
  ASSERT_TRUE(submissions.wait(*second));
  EXPECT_TRUE(submissions.wait(*first));
  const auto times = submissions.times(*second);
  ASSERT_TRUE(times.has_value());
  EXPECT_LE(submissions.times(*first)->end_ns, times->begin_ns);
  const auto lost = submissions.submit(*plan);
  ASSERT_FALSE(lost);
  EXPECT_THAT(lost.error().message, HasSubstr("refusing:0 fell off the bus"));
  EXPECT_NE(device->lost(), nullptr);
  submissions.settle();
}

}  // namespace
}  // namespace crucible::runtime
