// Cutting a schedule for two devices, judged by a walk through two arenas that knows nothing of how it was cut: every
// read must find its value whole in the arena of its device, and no copy may be one too many.
#include "runtime/plan/split.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <random>

#include "runtime/testing/test_programs.hpp"

namespace crucible::runtime {
namespace {

/// What every 256 bytes of the two arenas hold: the value last written there.
class Arenas {
 public:
  Arenas(const graph::Program& program, const Placement& placement) : program_(program), placement_(placement) {
    for (auto& arena : owner_) arena.assign(placement.plan.peak_bytes / kAlignment + 1, graph::kNone);
  }
  void put(bool second, graph::ValueId value) { fill(second, value, value); }
  void spoil(bool second, std::uint32_t buffer) {
    const std::uint64_t from = placement_.plan.offsets[buffer], size = placement_.buffers[buffer].size_bytes;
    for (std::uint64_t at = from; at < from + size; at += kAlignment) owner_[second][at / kAlignment] = graph::kNone;
  }
  bool has(bool second, graph::ValueId value) const {
    bool whole = true;
    each(value, [&](std::size_t block) { whole = whole && owner_[second][block] == value; });
    return whole;
  }

 private:
  void fill(bool second, graph::ValueId where, graph::ValueId what) {
    each(where, [&](std::size_t block) { owner_[second][block] = what; });
  }
  template <class Function>
  void each(graph::ValueId value, const Function& function) const {
    if (placement_.buffer_of[value] == graph::kNone) return;
    const std::uint64_t from = placement_.plan.offsets[placement_.buffer_of[value]];
    const auto size =
        static_cast<std::uint64_t>(program_.values[value].elements) * size_bytes(program_.values[value].dtype);
    for (std::uint64_t at = from; at < from + size; at += kAlignment) function(at / kAlignment);
  }

  const graph::Program& program_;
  const Placement& placement_;
  std::vector<graph::ValueId> owner_[2];
};

/// "" when two iterations read what they should; else the first thing that is wrong.
std::string walk(const graph::Program& program, const kernel::Schedule& schedule, const Placement& placement,
                 const std::vector<bool>& on_second, const Split& split) {
  Arenas arenas(program, placement);
  const auto load = [&](graph::ValueId value) {
    arenas.put(false, value);
    if (std::ranges::count(split.loaded_twice, value) > 0) arenas.put(true, value);
  };
  for (const graph::State& state : program.states) load(state.start);
  for (const graph::Constant& constant : program.constants) load(constant.value);
  for (int iteration = 0; iteration < 2; ++iteration) {
    for (const graph::Input& input : program.inputs) load(input.value);
    std::uint32_t next = 0;
    for (const Segment& segment : split.segments) {
      for (const CrossCopy& copy : segment.before) {
        if (!arenas.has(!segment.on_second, copy.value)) return "a copy of what is not there";
        arenas.put(segment.on_second, copy.value);
      }
      if (segment.begin != next && segment.begin != segment.end) return "a step is left out";
      for (next = segment.begin; next < segment.end; ++next) {
        if (on_second[next] != segment.on_second) return "a step on the wrong device";
        for (const auto& argument : schedule.steps[next].buffers) {
          if (!argument.written && !arenas.has(segment.on_second, argument.value)) return "a read of what is not there";
        }
        if (placement.scratch_of[next] != graph::kNone) arenas.spoil(segment.on_second, placement.scratch_of[next]);
        for (const auto& argument : schedule.steps[next].buffers) {
          if (argument.written) arenas.put(segment.on_second, argument.value);
        }
      }
      if (segment.homes && segment.on_second) return "home copies on the second device";
    }
    if (next != schedule.steps.size() || !split.segments.back().homes) return "the end is missing";
    for (const graph::State& state : program.states) {
      if (!arenas.has(false, state.end)) return "a state does not end in the first arena";
    }
    for (const graph::Output& output : program.outputs) {
      if (!output.operand.is_scalar() && !arenas.has(false, output.operand.value)) return "an output is elsewhere";
    }
    for (const graph::State& state : program.states) arenas.put(false, state.start);  // after the home copies
  }
  return "";
}

struct Case {
  graph::Program program;
  kernel::Schedule schedule;
  Placement placement;
};

std::optional<Case> make_case(std::uint64_t seed) {
  graph::RandomOptions options;
  options.seed = seed;
  options.ops = static_cast<std::uint32_t>(8 + seed % 30);
  Case made = {graph::random_program(options).program, {}, {}};
  made.schedule = naive_schedule(made.program, true);
  auto placed = place(made.program, made.schedule, std::vector<std::uint64_t>(made.schedule.steps.size(), 0));
  EXPECT_TRUE(placed) << placed.error().message;
  if (!placed) return std::nullopt;
  made.placement = *std::move(placed);
  return made;
}

TEST(Split, RandomCutsReadWhatTheyShouldAndCopyNothingElse) {
  std::size_t copies = 0;
  for (std::uint64_t seed = 0; seed < 150; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    const std::optional<Case> made = make_case(seed);
    ASSERT_TRUE(made);
    std::mt19937_64 random(seed);
    std::vector<bool> on_second(made->schedule.steps.size());
    const std::uint64_t share = 1 + random() % 4;
    for (std::size_t i = 0; i < on_second.size(); ++i) on_second[i] = random() % 5 < share;
    const auto cut = split(made->program, made->schedule, made->placement, on_second);
    ASSERT_TRUE(cut) << cut.error().message;
    EXPECT_EQ(walk(made->program, made->schedule, made->placement, on_second, *cut), "");
    std::uint64_t counted = 0;
    for (std::size_t s = 0; s < cut->segments.size(); ++s) {
      counted += cut->segments[s].before.size();
      for (std::size_t c = 0; c < cut->segments[s].before.size(); ++c) {
        Split less = *cut;
        less.segments[s].before.erase(less.segments[s].before.begin() + static_cast<std::ptrdiff_t>(c));
        EXPECT_NE(walk(made->program, made->schedule, made->placement, on_second, less), "") << "a copy too many";
      }
    }
    EXPECT_EQ(counted, cut->copies);
    copies += counted;
  }
  EXPECT_GT(copies, 300u);
}

TEST(Split, OneDeviceNeedsNoCopies) {
  const std::optional<Case> made = make_case(7);
  ASSERT_TRUE(made);
  const auto cut =
      split(made->program, made->schedule, made->placement, std::vector<bool>(made->schedule.steps.size(), false));
  ASSERT_TRUE(cut) << cut.error().message;
  ASSERT_EQ(cut->segments.size(), 1u);
  EXPECT_TRUE(cut->segments[0].homes);
  EXPECT_EQ(cut->copies + cut->bytes + cut->loaded_twice.size(), 0u);
}

TEST(Split, AnEmptyProgramIsOneEmptySegment) {
  const auto cut = split({}, {}, {}, {});
  ASSERT_TRUE(cut);
  ASSERT_EQ(cut->segments.size(), 1u);
  EXPECT_EQ(cut->segments[0].end, 0u);
}

/// Two steps write one value, here and there; each is read on the other side.
TEST(Split, AValueThatIsWrittenAgainIsCopiedAgain) {
  graph::Program program;
  program.values.resize(1);
  program.values[0].elements = 4;
  kernel::Schedule schedule;
  for (const bool written : {true, false, true, false}) {
    kernel::Step step;
    step.buffers = {{0, written}};
    schedule.steps.push_back(step);
  }
  Placement placement;
  placement.buffer_of = {0};
  placement.plan.offsets = {512};
  const auto cut = split(program, schedule, placement, {false, true, false, true});
  ASSERT_TRUE(cut) << cut.error().message;
  EXPECT_EQ(cut->copies, 2u);  // the second write has the first one's pieces in its own arena
  EXPECT_EQ(cut->bytes, 32u);
  const auto turned = split(program, schedule, placement, {false, false, true, false});
  ASSERT_TRUE(turned) << turned.error().message;
  EXPECT_EQ(turned->copies, 2u);  // the first pieces there, all of them back
  EXPECT_EQ(turned->segments[1].before[0].offset_bytes, 512u);
}

TEST(Split, RefusesAReadOfWhatNobodyWrote) {
  graph::Program program;
  program.values.resize(1);
  kernel::Schedule schedule;
  schedule.steps.resize(1);
  schedule.steps[0].buffers = {{0, false}};
  Placement placement;
  placement.buffer_of = {0};
  placement.plan.offsets = {0};
  const auto cut = split(program, schedule, placement, {true});
  ASSERT_FALSE(cut);
  EXPECT_EQ(cut.error().code, ErrorCode::kInternal);
}

TEST(Split, RefusesAnswersThatDoNotFit) { EXPECT_FALSE(split({}, {}, {}, {true})); }

}  // namespace
}  // namespace crucible::runtime
