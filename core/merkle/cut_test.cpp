// Cuts of small programs, drawn by hand: who calls whom, and what leaves a module.
#include "core/merkle/cut.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "core/merkle/homes.hpp"
#include "core/merkle/region.hpp"

namespace crucible::merkle {
namespace {

using graph::kNone;
using graph::Program;

/// An op of a module that adds or takes the tanh of results of earlier ones; -1 is the input.
struct Call {
  std::string module;
  std::vector<int> from;
};

/// The last op is shown, and those of `shown`.
Program program_of(const std::vector<Call>& calls, const std::vector<int>& shown = {}) {
  Program p;
  p.iterations = 1;
  const graph::View view = graph::View::contiguous({4});
  p.values.push_back({graph::ValueKind::kInput, DType::kF32, 4, "", kNone});
  p.inputs = {{0, {0}, false}};
  const auto tensor = [&](int op) { return graph::Operand{static_cast<graph::ValueId>(op + 1), view, {}}; };
  for (std::uint32_t i = 0; i < calls.size(); ++i) {
    p.sources.push_back({"aten::op", calls[i].module, "train.py:1", graph::Phase::kForward, i});
    p.values.push_back({graph::ValueKind::kTemporary, DType::kF32, 4, "", i});
    std::vector<graph::Operand> inputs;
    for (const int from : calls[i].from) inputs.push_back(tensor(from));
    const auto kind = inputs.size() == 1 ? graph::OpKind::kTanh : graph::OpKind::kAdd;
    p.ops.push_back({kind, std::move(inputs), {tensor(static_cast<int>(i))}, {}, i});
  }
  const auto show = [&](int op) {
    p.outputs.push_back({.name = fmt::format("y{}", op), .operand = tensor(op), .blobs = {0}});
  };
  for (const int op : shown) show(op);
  show(static_cast<int>(calls.size()) - 1);
  return p;
}

/// "a[0 1] b[2]": the parts of the only phase.
std::string parts_of(const Program& program) {
  const Part all = cut_by_modules(program);
  std::vector<std::string> parts;
  for (const Part& part : all.parts.at(0).parts) {
    std::string ops;
    for (const graph::OpId op : part.ops) ops += fmt::format("{}{}", ops.empty() ? "" : " ", op);
    parts.push_back(fmt::format("{}[{}]", part.name, ops));
  }
  std::ranges::sort(parts);
  return fmt::format("{}", fmt::join(parts, " "));
}

TEST(Cut, ByModules) { EXPECT_EQ(parts_of(program_of({{"a", {-1}}, {"a", {0}}, {"b", {1}}})), "a[0 1] b[2]"); }

TEST(Cut, AModuleThatIsCalledAgainIsTwoParts) {
  EXPECT_EQ(parts_of(program_of({{"a", {-1}}, {"b", {0}}, {"a", {1}}, {"b", {2}}})), "a[0] a[2] b[1] b[3]");
}

TEST(Cut, IndependentCallsOfAModuleAreOnePart) {
  EXPECT_EQ(parts_of(program_of({{"a", {-1}}, {"b", {-1}}, {"a", {-1}}, {"b", {0, 1}}, {"b", {2, 3}}})),
            "a[0 2] b[1 3 4]");
}

/// c is left and entered again by way of a; a is never left, though c stands between its ops.
TEST(Cut, OnlyWhatIsEnteredAgainIsCut) {
  EXPECT_EQ(parts_of(program_of({{"a", {-1}}, {"c", {-1}}, {"a", {0, 1}}, {"c", {2, 1}}})), "a[0 2] c[1] c[3]");
}

/// Neither is entered again by a path, and yet neither can run before the other.
TEST(Cut, PartsThatWaitForEachOtherAreCut) {
  EXPECT_EQ(parts_of(program_of({{"a", {-1}}, {"b", {-1}}, {"a", {1}}, {"b", {0}}, {"c", {2, 3}}})),
            "a[0] a[2] b[1] b[3] c[4]");
}

TEST(Cut, APathIsNamedByItsInnermostCommonModule) {
  const Part all = cut_by_modules(program_of({{"a.b.c", {-1}}, {"a.b.d", {0}}, {"e", {1}}}));
  std::vector<std::string> names;
  for (const Part& part : all.parts.at(0).parts) names.push_back(part.name);
  std::ranges::sort(names);
  EXPECT_EQ(names, (std::vector<std::string>{"a.b", "e"}));
}

TEST(Cut, AProgramWithoutOpsIsOnePart) {
  Program p;
  EXPECT_TRUE(cut_by_modules(p).parts.empty());
  EXPECT_EQ(regions_of(std::make_shared<const Program>(p), {}).root().kind, RegionKind::kRun);
}

/// A part of b's gradient reads what a made and is added up in the backward pass before b's weight takes it.
TEST(Homes, AGradientIsOfTheModuleThatItServesAlone) {
  Program p = program_of({{"a", {-1}}, {"b", {0, 0}}, {"", {1}}, {"", {0, 2}}, {"", {3}}, {"", {4, 4}}});
  const auto weight = static_cast<graph::ValueId>(p.values.size());
  p.values.push_back({graph::ValueKind::kState, DType::kF32, 4, "b.weight", kNone});
  p.states = {{weight, 6, 0, 0}};
  p.ops[1].inputs[1].value = p.ops[5].inputs[1].value = weight;
  for (const std::size_t op : {2u, 3u, 4u}) p.sources[op].phase = graph::Phase::kBackward;
  p.sources[5].phase = graph::Phase::kOptimizer;
  ASSERT_TRUE(verify(p)) << verify(p).error().message;
  const Homes found = homes(p);
  for (const std::size_t op : {1u, 2u, 3u, 4u, 5u}) EXPECT_EQ(found.paths.name(found.of[op]), "b") << op;
}

/// How many turns each loop has, of four equal calls that hand two results on; one of them the other way round.
std::vector<std::size_t> turns(bool swapped) {
  std::vector<Call> calls = {{"s", {-1}}, {"s", {0}}};
  int x = 0, y = 1;
  for (int i = 0; i < 4; ++i) {
    if (swapped && i == 2) std::swap(x, y);
    calls.push_back({fmt::format("m.{}", i), {x}});
    calls.push_back({fmt::format("m.{}", i), {x, y}});
    x = static_cast<int>(calls.size()) - 2, y = x + 1;
  }
  const RegionTree tree = regions_of(std::make_shared<const Program>(program_of(calls, {x})), {});
  std::vector<std::size_t> counts;
  for (const Region& region : tree.regions) {
    if (region.kind == RegionKind::kLoop) counts.push_back(region.children.size());
  }
  return counts;
}

TEST(Regions, TurnsHandTheirResultsOnAtTheSamePlaces) {
  EXPECT_EQ(turns(false), std::vector<std::size_t>{4});
  EXPECT_EQ(turns(true), (std::vector<std::size_t>{2, 2}));
}

TEST(Regions, WhichResultsLeaveARegionCounts) {
  const auto content = [](const std::vector<int>& shown) {
    const RegionTree tree =
        regions_of(std::make_shared<const Program>(program_of({{"a", {-1}}, {"a", {0}}, {"b", {1}}}, shown)), {});
    const auto region = std::ranges::find(tree.regions, "a", &Region::name);
    return region->content.hex();
  };
  EXPECT_NE(content({}), content({0}));
  EXPECT_EQ(content({}), content({1}));  // the second one leaves it anyway
}

}  // namespace
}  // namespace crucible::merkle
