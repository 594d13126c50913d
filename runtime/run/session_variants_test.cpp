// Sessions of several programs over the same states: random turns and seams, recorded by the reference interpreter and
// replayed by it, by the interpreter of kernels and by the CPU plugin.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <random>

#include "core/graph/reference.hpp"
#include "core/graph/variants.hpp"
#include "runtime/run/session.hpp"
#include "runtime/testing/test_programs.hpp"

namespace crucible::runtime {
namespace {

using ::testing::HasSubstr;
using graph::OpKind;
using graph::ValueId;

constexpr std::int64_t kSize = 40;

struct VariantRecording {
  std::shared_ptr<graph::Variants> variants = std::make_shared<graph::Variants>();
  std::shared_ptr<trace::MemoryBlobStore> blobs = std::make_shared<trace::MemoryBlobStore>();
};

/// Three programs over the states a, b and c. The first moves a by an input, the second b by a, and neither touches c;
/// the third changes nothing and gives back what it makes of all.
std::vector<graph::Program> programs() {
  std::vector<graph::Program> all;
  for (int kind = 0; kind < 3; ++kind) {
    ProgramBuilder p;
    const ValueId a = p.state("a", {kSize}), b = p.state("b", {kSize}), c = p.state("c", {kSize});
    if (kind == 0) {
      const ValueId x = p.input("x", {kSize}), factor = p.constant("factor", {kSize});
      const ValueId step = p.op(OpKind::kMultiply, {p.whole(x), p.whole(factor)}, {kSize});
      const ValueId moved = p.op(OpKind::kAdd, {p.whole(a), p.whole(step)}, {kSize});
      p.end_state(a, moved);
      p.loss("loss", moved);
    } else if (kind == 1) {
      const ValueId product = p.op(OpKind::kMultiply, {p.whole(a), p.from_slot(p.slot("rate"))}, {kSize});
      const ValueId moved = p.op(OpKind::kSubtract, {p.whole(b), p.whole(product)}, {kSize});
      p.end_state(b, moved);
      p.loss("loss", product);
    } else {
      const ValueId sum = p.op(OpKind::kAdd, {p.whole(a), p.whole(b)}, {kSize});
      const ValueId all_of_it =
          p.op(OpKind::kTanh, {p.whole(p.op(OpKind::kMaximum, {p.whole(sum), p.whole(c)}, {kSize}))}, {kSize});
      p.output("logits", p.whole(all_of_it));
    }
    p.program.is_variant = true;
    all.push_back(std::move(p.program));
  }
  return all;
}

/// Turns at random, some of them with states given anew; what they compute is recorded by the reference interpreter.
VariantRecording recorded(std::uint32_t seed, std::uint32_t turns) {
  VariantRecording recording;
  std::mt19937 random(seed);
  const auto fresh = [&] {
    std::vector<float> numbers(kSize);
    for (float& number : numbers) number = std::normal_distribution<float>()(random);
    const auto bytes = std::as_bytes(std::span(numbers));
    return recording.blobs->add(std::vector<std::byte>(bytes.begin(), bytes.end()));
  };
  std::vector<graph::Program> all = programs();
  for (std::size_t k = 0; k < 3; ++k) {
    const std::uint32_t initial = fresh();
    for (graph::Program& program : all) program.states[k].initial_blob = initial;
  }
  all[0].constants[0].blob = fresh();
  for (std::uint32_t i = 0; i < turns; ++i) {
    const auto v = static_cast<std::uint32_t>(random() % 3);
    graph::Turn turn{.variant = v, .index = all[v].iterations++, .iteration = i, .given = {}};
    if (random() % 3 == 0) turn.given.push_back({static_cast<std::uint32_t>(random() % 3), fresh(), true});
    if (random() % 3 == 0) {  // what two states held changes places, or one takes over another's
      const auto a = static_cast<std::uint32_t>(random() % 3), b = static_cast<std::uint32_t>(random() % 3);
      turn.given.push_back({.state = a, .from = b});
      if (random() % 2 == 0 && a != b) turn.given.push_back({.state = b, .from = a});
    }
    recording.variants->turns.push_back(std::move(turn));
    if (v == 0) all[0].inputs[0].blobs.push_back(fresh());
    if (v == 1) all[1].slots[0].values.push_back(0.25 + 0.5 * static_cast<double>(random() % 8));
  }
  const auto publish = [&] {
    recording.variants->programs.clear();
    for (const graph::Program& program : all)
      recording.variants->programs.push_back(std::make_shared<const graph::Program>(program));
  };
  recording.variants->differences.resize(all.size());
  publish();
  const auto replay = graph::replay_reference(*recording.variants, *recording.blobs, turns);
  EXPECT_TRUE(replay) << replay.error().message;
  if (!replay) return recording;
  for (graph::Output& output : all[2].outputs) output.blobs.clear();  // what made it a tensor before it was recorded
  for (std::uint32_t i = 0; i < turns; ++i) {
    graph::Program& program = all[recording.variants->turns[i].variant];
    for (graph::Output& output : program.outputs) {
      if (&program == &all[2]) {
        output.blobs.push_back(recording.blobs->add(*replay->tensors[i][0]));
      } else {
        output.recorded.push_back(replay->outputs[i][0]);
      }
    }
  }
  for (std::size_t k = 0; k < 3; ++k) {
    const std::uint32_t last = recording.blobs->add(replay->states[k]);
    for (graph::Program& program : all) program.states[k].final_blob = last;
  }
  publish();
  EXPECT_TRUE(graph::verify(*recording.variants));
  return recording;
}

std::shared_ptr<backend::Device> open_cpu() {
  const std::string cache = (std::filesystem::temp_directory_path() / "crucible_runtime_test_cache").string();
  auto loaded = backend::Backend::load(CRUCIBLE_TEST_CPU_PLUGIN, {{"threads", "2"}, {"cache_dir", cache}});
  EXPECT_TRUE(loaded) << loaded.error().message;
  if (!loaded) return nullptr;
  auto opened = (*loaded)->open("");
  EXPECT_TRUE(opened) << opened.error().message;
  return opened ? *opened : nullptr;
}

enum class Where : std::uint8_t { kReference, kStrictReference, kCpu, kCpuWithPoison };

std::unique_ptr<Session> open(const VariantRecording& recording, Where where) {
  Result<std::unique_ptr<Session>> session =
      where == Where::kReference || where == Where::kStrictReference
          ? Session::create_reference(recording.variants, recording.blobs,
                                      where == Where::kReference ? kernel::Numerics::kFast : kernel::Numerics::kStrict)
          : Session::create(recording.variants, recording.blobs, open_cpu(),
                            {.poison = where == Where::kCpuWithPoison});
  EXPECT_TRUE(session) << session.error().message;
  return session ? *std::move(session) : nullptr;
}

std::vector<IterationResult> run(Session& session, std::uint32_t from, std::uint32_t to) {
  std::vector<IterationResult> results;
  for (std::uint32_t i = from; i < to; ++i) {
    auto result = session.run(i);
    EXPECT_TRUE(result) << result.error().message;
    if (!result) return results;
    auto outputs = session.compare_outputs();
    EXPECT_TRUE(outputs) << outputs.error().message;
    if (outputs) result->outputs = *std::move(outputs);
    results.push_back(*std::move(result));
  }
  return results;
}

class SessionOfVariants : public testing::TestWithParam<Where> {};

TEST_P(SessionOfVariants, EndsAsTheReferenceInterpreterDoes) {
  for (std::uint32_t seed = 0; seed < 12; ++seed) {
    SCOPED_TRACE(seed);
    const VariantRecording recording = recorded(seed, 1 + seed);
    const auto session = open(recording, GetParam());
    ASSERT_NE(session, nullptr);
    EXPECT_EQ(session->iterations(), 1 + seed);
    for (int round = 0; round < 2; ++round) {
      const auto results = run(*session, 0, session->iterations());
      const auto verdict = session->verify(results);
      ASSERT_TRUE(verdict) << verdict.error().message;
      EXPECT_TRUE(verdict->verified) << verdict->reason;
      EXPECT_EQ(verdict->states.size(), 3u);
      ASSERT_TRUE(session->reset());
    }
  }
}

TEST_P(SessionOfVariants, GoesOnFromACheckpoint) {
  const VariantRecording recording = recorded(3, 20);
  for (const std::uint32_t at : {1u, 7u, 13u, 20u}) {
    SCOPED_TRACE(at);
    const auto first = open(recording, GetParam()), second = open(recording, GetParam());
    ASSERT_TRUE(first && second);
    std::vector<IterationResult> results = run(*first, 0, at);
    Checkpoint checkpoint;
    ASSERT_TRUE(first->save(checkpoint));
    ASSERT_TRUE(second->restore(checkpoint));
    for (IterationResult& result : run(*second, at, 20)) results.push_back(std::move(result));
    const auto verdict = second->verify(results);
    ASSERT_TRUE(verdict) << verdict.error().message;
    EXPECT_TRUE(verdict->verified) << verdict->reason;
  }
}

TEST_P(SessionOfVariants, ASeamThatIsLeftOutIsSeen) {
  int seen = 0, left_out = 0;
  for (std::uint32_t seed = 20; seed < 26; ++seed) {
    VariantRecording recording = recorded(seed, 12);
    for (graph::Turn& turn : recording.variants->turns) {
      left_out += !turn.given.empty();
      turn.given.clear();
    }
    const auto session = open(recording, GetParam());
    ASSERT_NE(session, nullptr);
    const auto verdict = session->verify(run(*session, 0, 12));
    ASSERT_TRUE(verdict) << verdict.error().message;
    seen += !verdict->verified;
  }
  EXPECT_GT(left_out, 6);
  EXPECT_EQ(seen, 6);
}

std::string name_of(const testing::TestParamInfo<Where>& info) {
  constexpr const char* kNames[] = {"Reference", "StrictReference", "Cpu", "CpuWithPoison"};
  return kNames[static_cast<std::size_t>(info.param)];
}

INSTANTIATE_TEST_SUITE_P(Everywhere, SessionOfVariants,
                         testing::Values(Where::kReference, Where::kStrictReference, Where::kCpu,
                                         Where::kCpuWithPoison),
                         name_of);

TEST(SessionTurns, RunInTheOrderOfTheRecordingAlone) {
  const VariantRecording recording = recorded(1, 3);
  const auto session = open(recording, Where::kReference);
  ASSERT_NE(session, nullptr);
  const auto later = session->run(1);
  ASSERT_FALSE(later);
  EXPECT_THAT(later.error().message, HasSubstr("iteration 1 cannot run now"));
  run(*session, 0, 3);
  const auto beyond = session->run(3);
  ASSERT_FALSE(beyond);
  EXPECT_THAT(beyond.error().message, HasSubstr("iteration 3 was not recorded: there are 3"));
}

}  // namespace
}  // namespace crucible::runtime
