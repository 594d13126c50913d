// Bound programs against sessions of the same ones on the real CPU plugin: the same bits, in memory of the caller's
// that moves between the runs, with guards around everything that is bound.
#include "runtime/run/executable.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <latch>
#include <random>
#include <thread>

#include "plugins/loader/testing/kept.hpp"
#include "runtime/testing/test_programs.hpp"

namespace crucible::runtime {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Kind = BoundForm::Kind;

std::shared_ptr<backend::Device> open_cpu() {
  auto loaded = backend::Backend::load(CRUCIBLE_TEST_CPU_PLUGIN, {{"threads", "2"}}, backend::shared_store());
  EXPECT_TRUE(loaded) << loaded.error().message;
  auto opened = (*loaded)->open("");
  EXPECT_TRUE(opened) << opened.error().message;
  return opened ? *opened : nullptr;
}

/// Memory with a zone before and behind that nobody may write.
class Bytes {
 public:
  explicit Bytes(std::size_t size) : size_(size), memory_(size + std::size_t{2} * kZone, std::byte{0xa5}) {}
  Bytes(std::span<const std::byte> from) : Bytes(from.size()) { std::ranges::copy(from, data()); }
  std::byte* data() { return memory_.data() + kZone; }
  std::vector<std::byte> content() const {
    return {memory_.begin() + kZone, memory_.begin() + static_cast<std::ptrdiff_t>(kZone + size_)};
  }
  bool is_whole() const {
    const auto is_zone = [](std::byte byte) { return byte == std::byte{0xa5}; };
    return std::all_of(memory_.begin(), memory_.begin() + kZone, is_zone) &&
           std::all_of(memory_.begin() + static_cast<std::ptrdiff_t>(kZone + size_), memory_.end(), is_zone);
  }

 private:
  static constexpr std::size_t kZone = 64;
  std::size_t size_;
  std::vector<std::byte> memory_;
};

std::vector<std::byte> load(const Recording& recording, std::uint32_t blob, std::size_t size) {
  if (blob == graph::kNone) return std::vector<std::byte>(size);
  auto bytes = recording.blobs->load(blob);
  EXPECT_TRUE(bytes);
  return *bytes;
}

/// The first part of a run, whose results are there then; once as one that does not count, with everything put back.
void run_in_parts(Executable& executable, const std::vector<std::unique_ptr<Bytes>>& memory) {
  std::vector<std::vector<std::byte>> before;
  for (const auto& bytes : memory) before.push_back(bytes->content());
  ASSERT_TRUE(executable.run_first());
  const std::vector<std::size_t>& early = executable.written_first();
  for (std::size_t k = 0; k < memory.size(); ++k) {
    const bool is_state = executable.places()[k].kind == Kind::kState;
    if (is_state && std::ranges::find(early, k) == early.end()) {
      EXPECT_EQ(memory[k]->content(), before[k]) << executable.places()[k].name << " is written and not told";
    }
    if (is_state) std::ranges::copy(before[k], memory[k]->data());
  }
  ASSERT_TRUE(executable.run_first());
  ASSERT_TRUE(executable.run_rest());
}

/// Runs all iterations bound, states in one memory or in another one for each iteration, and compares every state and
/// output with what a session has then. `in_parts`: each run is split behind the first output.
void expect_like_session(const Recording& recording, bool moves, bool in_parts = false) {
  const graph::Program& program = recording.program;
  const auto device = open_cpu();
  auto session = Session::create(std::make_shared<const graph::Program>(program), recording.blobs, device, {});
  ASSERT_TRUE(session) << session.error().message;
  std::vector<std::uint32_t> wanted;
  for (std::uint32_t k = 0; k < program.outputs.size(); ++k) {
    if (!program.outputs[k].is_bounds() && !program.outputs[k].operand.is_scalar()) wanted.push_back(k);
  }
  auto form = bound_form(program, wanted);
  ASSERT_TRUE(form) << form.error().message;
  auto made = Executable::create(*std::move(form), device, {});
  ASSERT_TRUE(made) << made.error().message;
  Executable& executable = **made;
  std::vector<std::unique_ptr<Bytes>> memory;
  for (const BoundForm::Place& place : executable.places()) {
    const std::uint32_t blob = place.kind == Kind::kState      ? program.states[place.index].initial_blob
                               : place.kind == Kind::kConstant ? program.constants[place.index].blob
                                                               : graph::kNone;
    memory.push_back(std::make_unique<Bytes>(load(recording, blob, place.size_bytes)));
  }
  const auto first_output = std::ranges::find(executable.places(), Kind::kOutput, &BoundForm::Place::kind);
  in_parts = in_parts && first_output != executable.places().end();
  if (in_parts) {
    const auto place = static_cast<std::size_t>(first_output - executable.places().begin());
    const auto split = executable.split_after({&place, 1});
    ASSERT_TRUE(split) << split.error().message;
  }
  for (std::uint32_t iteration = 0; iteration < program.iterations; ++iteration) {
    ASSERT_TRUE((*session)->run(iteration));
    for (std::size_t k = 0; k < memory.size(); ++k) {
      const BoundForm::Place& place = executable.places()[k];
      if (place.kind == Kind::kInput) {
        memory[k] =
            std::make_unique<Bytes>(load(recording, program.inputs[place.index].blobs[iteration], place.size_bytes));
      } else if (moves) {
        memory[k] = std::make_unique<Bytes>(memory[k]->content());
      }
      ASSERT_TRUE(executable.bind(k, memory[k]->data()));
    }
    std::vector<std::uint64_t> bits;
    for (const graph::Slot& slot : program.slots) bits.push_back(slot.values[iteration].bits());
    ASSERT_TRUE(executable.set_slots(bits));
    if (in_parts) {
      run_in_parts(executable, memory);
    } else {
      const auto ran = executable.run();
      ASSERT_TRUE(ran) << ran.error().message;
    }
    for (std::size_t k = 0; k < memory.size(); ++k) {
      const BoundForm::Place& place = executable.places()[k];
      EXPECT_TRUE(memory[k]->is_whole()) << place.name << " of iteration " << iteration;
      if (place.kind == Kind::kState) {
        EXPECT_EQ(memory[k]->content(), *(*session)->state_bytes(program.states[place.index]))
            << place.name << " of iteration " << iteration;
      } else if (place.kind == Kind::kOutput) {
        EXPECT_EQ(memory[k]->content(), *(*session)->output_bytes(place.index))
            << place.name << " of iteration " << iteration;
      } else if (place.kind == Kind::kInput) {
        EXPECT_EQ(memory[k]->content(), load(recording, program.inputs[place.index].blobs[iteration], place.size_bytes))
            << "an input was written";
      }
    }
  }
}

TEST(Executable, TrainsLikeASession) {
  const Recording recording = record(training_step(), 5, 1);
  expect_like_session(recording, false);
  expect_like_session(recording, true);
}

class RandomExecutable : public ::testing::TestWithParam<std::uint64_t> {};

TEST_P(RandomExecutable, RunsLikeASession) {
  expect_like_session(record(deep_program(GetParam()), 3), GetParam() % 2 == 0);
}

TEST_P(RandomExecutable, RunsInTwoPartsLikeASession) {
  expect_like_session(record(deep_program(GetParam()), 3), GetParam() % 2 == 0, true);
}

INSTANTIATE_TEST_SUITE_P(Seeds, RandomExecutable, ::testing::Range<std::uint64_t>(0, 24));

/// What places hold after so many turns through all iterations, in memory of the call's own.
std::vector<std::vector<std::byte>> run_bound(const Recording& recording, Executable& executable, int turns) {
  const graph::Program& program = recording.program;
  std::vector<std::unique_ptr<Bytes>> memory;
  for (const BoundForm::Place& place : executable.places()) {
    const std::uint32_t blob = place.kind == Kind::kState      ? program.states[place.index].initial_blob
                               : place.kind == Kind::kConstant ? program.constants[place.index].blob
                                                               : graph::kNone;
    memory.push_back(std::make_unique<Bytes>(load(recording, blob, place.size_bytes)));
  }
  for (int turn = 0; turn < turns; ++turn) {
    for (std::uint32_t iteration = 0; iteration < program.iterations; ++iteration) {
      for (std::size_t k = 0; k < memory.size(); ++k) {
        const BoundForm::Place& place = executable.places()[k];
        if (place.kind == Kind::kInput)
          memory[k] =
              std::make_unique<Bytes>(load(recording, program.inputs[place.index].blobs[iteration], place.size_bytes));
        EXPECT_TRUE(executable.bind(k, memory[k]->data()));
      }
      std::vector<std::uint64_t> bits;
      for (const graph::Slot& slot : program.slots) bits.push_back(slot.values[iteration].bits());
      EXPECT_TRUE(executable.set_slots(bits));
      const auto ran = executable.run();
      EXPECT_TRUE(ran) << ran.error().message;
    }
  }
  std::vector<std::vector<std::byte>> contents;
  for (const auto& bytes : memory) contents.push_back(bytes->content());
  return contents;
}

std::unique_ptr<Executable> make_bound(const Recording& recording, const std::shared_ptr<backend::Device>& device) {
  std::vector<std::uint32_t> wanted;
  for (std::uint32_t k = 0; k < recording.program.outputs.size(); ++k) {
    const graph::Output& output = recording.program.outputs[k];
    if (!output.is_bounds() && !output.operand.is_scalar()) wanted.push_back(k);
  }
  auto form = bound_form(recording.program, wanted);
  EXPECT_TRUE(form) << form.error().message;
  auto made = Executable::create(*std::move(form), device, {});
  EXPECT_TRUE(made) << made.error().message;
  return made ? *std::move(made) : nullptr;
}

/// Each recording by a thread of its own, all of one device, made and run at once; each gives what it gives alone.
void expect_like_alone(const std::vector<Recording>& recordings) {
  constexpr int kTurns = 12;
  const auto device = open_cpu();
  std::vector<std::vector<std::vector<std::byte>>> expected, got(recordings.size());
  for (const Recording& recording : recordings)
    expected.push_back(run_bound(recording, *make_bound(recording, open_cpu()), kTurns));
  std::latch all_made(static_cast<std::ptrdiff_t>(recordings.size()));
  std::vector<std::jthread> threads;
  for (std::size_t k = 0; k < recordings.size(); ++k) {
    threads.emplace_back([&, k] {
      const std::unique_ptr<Executable> executable = make_bound(recordings[k], device);
      all_made.arrive_and_wait();
      if (executable) got[k] = run_bound(recordings[k], *executable, kTurns);
    });
  }
  threads.clear();
  for (std::size_t k = 0; k < recordings.size(); ++k) EXPECT_EQ(got[k], expected[k]) << "thread " << k;
}

TEST(Executable, FourThreadsRunAProgramEachOnOneDevice) {
  std::vector<Recording> recordings;
  for (const std::uint64_t seed : {1, 2, 3}) recordings.push_back(record(deep_program(seed), 3));
  recordings.push_back(record(training_step(), 3, 1));
  expect_like_alone(recordings);
}

TEST(Executable, FourThreadsRunOneProgramOnOneDevice) {
  const Recording recording = record(training_step(), 3, 1);
  expect_like_alone({recording, recording, recording, recording});
}

/// x -> y = x + 1, state s = s + x: small enough to see what each binding does.
graph::Program small_program() {
  ProgramBuilder b;
  const auto state = b.state("s", {4}), input = b.input("x", {4});
  b.end_state(state, b.op(graph::OpKind::kAdd, {b.whole(state), b.whole(input)}, {4}));
  b.output("y", b.whole(b.op(graph::OpKind::kAdd, {b.whole(input), ProgramBuilder::number(1)}, {4})));
  return b.program;
}

class SmallExecutable : public ::testing::Test {
 protected:
  void SetUp() override {
    recording_ = record(small_program(), 2, 3);
    const std::uint32_t output = 0;
    auto form = bound_form(recording_.program, {&output, 1});
    ASSERT_TRUE(form) << form.error().message;
    auto made = Executable::create(*std::move(form), open_cpu(), {});
    ASSERT_TRUE(made) << made.error().message;
    executable_ = *std::move(made);
  }

  Recording recording_;
  std::unique_ptr<Executable> executable_;
  alignas(64) float state_[4] = {10, 20, 30, 40}, input_[4] = {1, 2, 3, 4}, output_[4] = {};
};

TEST_F(SmallExecutable, PlacesAreStatesOutputsConstantsInputs) {
  std::vector<std::string> names;
  for (const BoundForm::Place& place : executable_->places()) names.push_back(place.name);
  EXPECT_THAT(names, ElementsAre("s", "y", "x"));
  EXPECT_TRUE(executable_->places()[0].is_written);
  EXPECT_TRUE(executable_->places()[1].is_written);
  EXPECT_FALSE(executable_->places()[2].is_written);
}

TEST_F(SmallExecutable, ReadsAndWritesWhatIsBound) {
  ASSERT_TRUE(executable_->bind(0, state_));
  ASSERT_TRUE(executable_->bind(1, output_));
  ASSERT_TRUE(executable_->bind(2, input_));
  ASSERT_TRUE(executable_->run());
  EXPECT_THAT(state_, ElementsAre(11, 22, 33, 44));
  EXPECT_THAT(output_, ElementsAre(2, 3, 4, 5));
  state_[0] = 100;  // whoever writes there is seen
  alignas(64) float other[4] = {5, 6, 7, 8};
  ASSERT_TRUE(executable_->bind(2, other));
  ASSERT_TRUE(executable_->run());
  EXPECT_THAT(state_, ElementsAre(105, 28, 40, 52));
  EXPECT_THAT(output_, ElementsAre(6, 7, 8, 9));
  EXPECT_THAT(input_, ElementsAre(1, 2, 3, 4));
}

TEST_F(SmallExecutable, StopsBehindWhatDecides) {
  ASSERT_TRUE(executable_->bind(0, state_));
  ASSERT_TRUE(executable_->bind(1, output_));
  ASSERT_TRUE(executable_->bind(2, input_));
  const std::size_t place = 1;
  ASSERT_TRUE(executable_->split_after({&place, 1}));
  ASSERT_TRUE(executable_->run_first());
  EXPECT_THAT(output_, ElementsAre(2, 3, 4, 5));
  const bool is_early = !executable_->written_first().empty();
  EXPECT_EQ(state_[0], is_early ? 11 : 10);
  ASSERT_TRUE(executable_->run_rest());
  EXPECT_THAT(state_, ElementsAre(11, 22, 33, 44));
  ASSERT_TRUE(executable_->run());
  EXPECT_THAT(state_, ElementsAre(12, 24, 36, 48));
}

TEST_F(SmallExecutable, SaysWhatIsNotBound) {
  ASSERT_TRUE(executable_->bind(0, state_));
  const auto ran = executable_->run();
  ASSERT_FALSE(ran);
  EXPECT_THAT(ran.error().message, HasSubstr("is not bound to memory"));
}

TEST_F(SmallExecutable, RefusesMemoryThatIsNotAligned) {
  const auto bound = executable_->bind(0, reinterpret_cast<std::byte*>(state_) + 4);
  ASSERT_FALSE(bound);
  EXPECT_THAT(bound.error().message, HasSubstr("multiple of 16 bytes"));
  EXPECT_FALSE(executable_->bind(0, nullptr));
}

TEST_F(SmallExecutable, WantsANumberForEachSlot) {
  const std::uint64_t one = 0;
  const auto set = executable_->set_slots({&one, 1});
  ASSERT_FALSE(set);
  EXPECT_EQ(set.error().message, "1 numbers for 0 slots");
}

TEST(BoundForm, RefusesOutputsThatAreNoTensors) {
  const Recording recording = record(small_program(), 2, 3);
  const std::uint32_t missing = 7;
  const auto form = bound_form(recording.program, {&missing, 1});
  ASSERT_FALSE(form);
  EXPECT_THAT(form.error().message, HasSubstr("output 7"));
}

TEST(BoundForm, AResultThatIsAlsoAStateOrAViewIsCopied) {
  ProgramBuilder b;
  const auto state = b.state("s", {2, 3});
  const auto end = b.op(graph::OpKind::kAdd, {b.whole(state), ProgramBuilder::number(1)}, {2, 3});
  b.end_state(state, end);
  b.output("twice", b.whole(end));
  b.output("turned", b.transposed(end));
  const Recording recording = record(b.program, 2, 5);
  expect_like_session(recording, true);
}

}  // namespace
}  // namespace crucible::runtime
