// What is found out once for all equal parts of a program and stamped out (core/kernel/stamps.hpp): that the schedule
// is the one that comes without, whatever the program; that a program which differs in one field never gets another's
// kernel; and that the work does not grow with the layers, counted in decisions and kernels, so that no clock is asked.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <string>
#include <utility>
#include <vector>

#include "core/graph/passes.hpp"
#include "core/graph/print.hpp"
#include "core/graph/testing/disguise.hpp"
#include "core/graph/testing/wild_program.hpp"
#include "core/kernel/schedule_check.hpp"
#include "core/kernel/stamps.hpp"
#include "core/kernel/testing/test_program.hpp"
#include "core/merkle/testing/layers.hpp"
#include "tests/scale/repeated.hpp"
#include "tests/scale/shapes.hpp"

namespace crucible::scale {
namespace {

using graph::Program;
using kernel::Numerics;
using kernel::Options;
using kernel::Schedule;
using kernel::Stamps;
using kernel::Step;

/// Everything of a step but the library's call.
std::string text_of(const Step& step) {
  std::string text = fmt::format("{} kernel {} grid {} grain {} flops {} bytes {} ops {}", static_cast<int>(step.kind),
                                 step.kernel, step.grid, step.grain, step.flops, step.bytes, fmt::join(step.ops, " "));
  for (const auto& buffer : step.buffers) text += fmt::format(" %{}{}", buffer.value, buffer.written ? "!" : "");
  for (const auto& scalar : step.scalars)
    text += fmt::format(" slot {} {} {} {}", scalar.slot, scalar.is_integer, scalar.real, scalar.integer);
  for (const auto& cut : step.cuts)
    text +=
        fmt::format(" cut {} {} {} {} {}", cut.tile_rows, cut.tile_columns, cut.item_rows, cut.item_columns, cut.score);
  return text;
}

std::string text_of(const kernel::InPlace& pair) {
  return fmt::format("step {}: %{} over %{}", pair.step, pair.result, pair.operand);
}

/// The first thing in which two schedules differ; "" where nothing does.
std::string difference(const Schedule& a, const Schedule& b) {
  if (a.kernels.size() != b.kernels.size()) return fmt::format("{}, {} kernels", a.kernels.size(), b.kernels.size());
  for (std::size_t k = 0; k < a.kernels.size(); ++k) {
    const kernel::Kernel &x = a.kernels[k], &y = b.kernels[k];
    if (x.name != y.name || x.ir != y.ir || x.opaque != y.opaque)
      return fmt::format("kernel {}: {}, {}", k, x.name, y.name);
  }
  if (a.steps.size() != b.steps.size()) return fmt::format("{}, {} steps", a.steps.size(), b.steps.size());
  for (std::size_t s = 0; s < a.steps.size(); ++s) {
    const std::string x = text_of(a.steps[s]), y = text_of(b.steps[s]);
    if (x != y) return fmt::format("step {}:\n{}\n{}", s, x, y);
    const kernel::LibraryCall &call = a.steps[s].library, &other = b.steps[s].library;
    if (call.kind != other.kind || call.dtype != other.dtype || !std::ranges::equal(call.views, other.views) ||
        call.extra != other.extra || call.epilogue != other.epilogue)
      return fmt::format("step {}: another call", s);
  }
  for (const auto list : {&Schedule::aliases, &Schedule::in_place}) {
    if ((a.*list).size() != (b.*list).size()) return "another number of pairs in place";
    for (std::size_t i = 0; i < (a.*list).size(); ++i) {
      if (text_of((a.*list)[i]) != text_of((b.*list)[i])) return text_of((a.*list)[i]) + ", " + text_of((b.*list)[i]);
    }
  }
  return a.materialized == b.materialized ? "" : "other values in memory";
}

/// Schedules anew and with `known`, which may know much of other programs; the first difference, or the checker's word.
/// Counts the schedules that there are.
std::string compare(const Program& program, const Options& options, Stamps& known, int& scheduled) {
  Stamps nothing(false);
  Options anew = options, stamped = options;
  anew.stamps = &nothing;
  stamped.stamps = &known;
  const auto want = kernel::prepare(program, anew), got = kernel::prepare(program, stamped);
  if (!want || !got) {
    if (want || got) return "one of two is an error: " + (want ? got.error() : want.error()).message;
    return want.error().message == got.error().message ? "" : want.error().message + "\n" + got.error().message;
  }
  ++scheduled;
  const Program& planned = got->program ? *got->program : program;
  if (want->program.has_value() != got->program.has_value() ||
      (want->program && graph::to_text(*want->program) != graph::to_text(planned)))
    return "another program";
  if (const std::string text = difference(want->schedule, got->schedule); !text.empty()) return text;
  const auto checked = kernel::check_schedule(planned, got->schedule);
  return checked ? "" : checked.error().message;
}

bool claims_some(const kernel::LibraryCall& call) { return call.views[0].sizes.back() % 2 == 0; }

/// Ways to schedule that differ in what is fused and how it is written. Each has stamps of its own, which know numerics
/// of one kind.
std::vector<Options> ways() {
  return {{.claims = {}, .numerics = Numerics::kFast, .device = {}},
          {.claims = claims_some, .numerics = Numerics::kFast, .epilogues = true, .device = {}},
          {.claims = {}, .numerics = Numerics::kStrict, .epilogues = true, .device = {}},
          {.claims = {}, .numerics = Numerics::kFast, .epilogues = true, .device = {.workers = 64, .lanes = 32}},
          {.claims = {}, .fuse = false, .numerics = Numerics::kStrict, .device = {}}};
}

TEST(Stamping, RandomProgramsOfEqualPartsHaveTheScheduleThatComesWithout) {
  for (const Options& options : ways()) {
    Stamps known;
    int scheduled = 0;
    for (std::uint64_t seed = 0; seed < 150; ++seed) {
      const auto part = graph::random_program(
          {.seed = seed, .ops = 8 + static_cast<std::uint32_t>(seed % 30), .generators = seed % 3 == 0});
      const Program program = repeated(part, 2 + seed % 4, seed % 2 == 0).program;
      ASSERT_TRUE(graph::verify(program));
      const std::string text = compare(program, options, known, scheduled);
      ASSERT_EQ(text, "") << "seed " << seed << "\n" << graph::to_text(program);
      // The same ops in another order, with other numbers: much of it looks alike, and only that may be stamped out.
      const Program other = graph::disguised(program, seed);
      const std::string other_text = compare(other, options, known, scheduled);
      ASSERT_EQ(other_text, "") << "seed " << seed << ", in another order\n" << graph::to_text(other);
    }
    EXPECT_GT(scheduled, 280);
    if (options.fuse) {
      EXPECT_LT(known.groups.counts().decided * 2, known.groups.counts().asked);
    }
    EXPECT_LT(known.launches.counts().written * 2, known.launches.counts().asked);
  }
}

TEST(Stamping, ProgramsOfEveryKindOfOpHaveTheScheduleThatComesWithout) {
  for (const Options& options : ways()) {
    Stamps known;
    int scheduled = 0;
    for (std::uint64_t seed = 0; seed < 200; ++seed) {
      graph::RandomProgram part = graph::wild_program({.seed = seed, .ops = 12});
      ASSERT_TRUE(graph::run_passes(part.program, {}));
      part.program.meanings.clear();
      part.values.resize(part.program.values.size());
      const Program program = repeated(part, 2 + seed % 3, seed % 2 == 0).program;
      const auto verified = graph::verify(program);
      ASSERT_TRUE(verified) << verified.error().message;
      const std::string text = compare(program, options, known, scheduled);
      ASSERT_EQ(text, "") << "seed " << seed << "\n" << graph::to_text(program);
    }
    EXPECT_GT(scheduled, 150);
  }
}

/// One that knows the kernels of the program is asked for one in which a single field is another.
void compare_changed(const Program& program) {
  for (const Options& options : ways()) {
    Stamps known;
    int scheduled = 0;
    ASSERT_EQ(compare(program, options, known, scheduled), "");
    merkle::testing::for_each_field(program, [&](const Program& changed, const std::string& what) {
      if (graph::verify(changed)) {
        EXPECT_EQ(compare(changed, options, known, scheduled), "") << what;
      }
    });
    EXPECT_GT(scheduled, 1);
  }
}

TEST(Stamping, ProgramsThatDifferInOneFieldDoNotShareKernels) {
  compare_changed(merkle::testing::layered({.layers = 2, .shared_mask = true}));
  for (std::uint64_t seed = 1000; seed < 1004; ++seed)
    compare_changed(repeated(graph::random_program({.seed = seed, .ops = 16}), 2, true).program);
}

TEST(Stamping, WhatIsStampedOutComputesTheSameBits) {
  std::deque<kernel::TestProgram> programs;
  std::vector<const kernel::TestProgram*> list;
  for (std::uint64_t seed = 3000; seed < 3040; ++seed) {
    graph::RandomProgram random =
        repeated(graph::random_program({.seed = seed, .ops = 14, .largest_side = 6}), 3, false);
    kernel::TestProgram& test = programs.emplace_back();
    test.program = std::move(random.program);
    test.values = std::move(random.values);
    test.slots = std::move(random.slots);
    list.push_back(&test);
  }
  for (const std::string& failure :
       kernel::run_and_compare(list, nullptr, Numerics::kStrict, kernel::Executors::kInterpreted))
    ADD_FAILURE() << failure;
}

struct Work {
  std::uint64_t decided = 0, written = 0, kernels = 0, steps = 0;
};

Work work(const Program& program, const Options& way) {
  Stamps stamps;
  Options options = way;
  options.stamps = &stamps;
  const auto prepared = kernel::prepare(program, options);
  EXPECT_TRUE(prepared) << prepared.error().message;
  if (!prepared) return {};
  return {stamps.groups.counts().decided, stamps.launches.counts().written, prepared->schedule.kernels.size(),
          prepared->schedule.steps.size()};
}

/// Layers, each with a counter of its own, as optimizers have: numbers by the hundred, which become few launches.
Program counted_layers(std::size_t layers) {
  Program program = merkle::testing::layered({.layers = layers, .shared_mask = true});
  for (std::size_t i = 0; i < layers; ++i) {
    const auto start = static_cast<graph::ValueId>(program.values.size()), end = start + 1;
    const graph::View number = graph::View::contiguous({});
    program.values.push_back({graph::ValueKind::kState, DType::kF32, 1, "step", graph::kNone});
    program.values.push_back(
        {graph::ValueKind::kTemporary, DType::kF32, 1, "", static_cast<graph::OpId>(program.ops.size())});
    graph::Operand one;
    one.scalar.real = 1;
    program.ops.push_back({graph::OpKind::kAdd,
                           {{start, number, {}}, one},
                           {{end, number, {}}},
                           {},
                           static_cast<std::uint32_t>(program.sources.size() - 1)});
    program.states.push_back({start, end, 0, 0});
  }
  return program;
}

TEST(Stamping, WorkDoesNotGrowWithLayers) {
  for (const Options& options : ways()) {
    const Work few = work(counted_layers(192), options), many = work(counted_layers(768), options);
    EXPECT_GT(many.steps, few.steps * 2) << "the layers are there";
    EXPECT_EQ(many.kernels, few.kernels);
    EXPECT_EQ(many.written, few.written);
    EXPECT_EQ(many.decided, few.decided);
    // From few layers on, too, but for what grows until it is full: numbers by the launch.
    const Work least = work(merkle::testing::layered({.layers = 12, .shared_mask = true}), options),
               more = work(merkle::testing::layered({.layers = 96, .shared_mask = true}), options);
    EXPECT_EQ(more.kernels, least.kernels);
    EXPECT_EQ(more.written, least.written);
    EXPECT_EQ(more.decided, least.decided);
  }
}

TEST(Stamping, WorkDoesNotGrowWithAttentions) {
  const auto shape = std::ranges::find(shapes(), "attentions", &Shape::name);
  ASSERT_NE(shape, shapes().end());
  for (const Options& options : ways()) {
    const Work few = work(shape->make(400), options), many = work(shape->make(4000), options);
    EXPECT_GT(many.steps, few.steps * 8) << "the layers are there";
    EXPECT_EQ(many.kernels, few.kernels);
    EXPECT_EQ(many.written, few.written);
    EXPECT_EQ(many.decided, few.decided);
  }
}

}  // namespace
}  // namespace crucible::scale
