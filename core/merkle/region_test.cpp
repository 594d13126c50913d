// Regions: what must not change their hashes, what must, what is one loop, and that equality is never a hash alone.
#include "core/merkle/region.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <set>

#include "core/graph/passes.hpp"
#include "core/graph/random_program.hpp"
#include "core/graph/testing/disguise.hpp"
#include "core/merkle/print.hpp"
#include "core/merkle/testing/layers.hpp"

namespace crucible::merkle {
namespace {

using graph::Program;
using testing::layered;
using testing::Layers;
using testing::named_randomly;

RegionTree tree_of(Program program, const HashBytes& hash = sha256) {
  return regions_of(std::make_shared<const Program>(std::move(program)), {}, hash);
}

std::vector<std::string> hashes(const RegionTree& tree) {
  std::vector<std::string> list;
  for (const Region& region : tree.regions) list.push_back(region.content.hex() + region.merkle.hex());
  std::ranges::sort(list);
  return list;
}

/// Every op of a region is in exactly one of its children, and no child reads what a later one makes.
void expect_sound(const RegionTree& tree) {
  for (const Region& region : tree.regions) {
    if (region.children.empty() || region.kind == RegionKind::kRun || region.kind == RegionKind::kBranch) continue;
    if (region.kind == RegionKind::kLoop) {
      for (const RegionId turn : region.children) EXPECT_EQ(tree.regions[turn].content, region.content);
      continue;
    }
    const Program& program = *tree.programs[region.program];
    std::vector<graph::OpId> inside;
    std::set<graph::OpId> before;
    const auto take = [&](const Region& child) {
      for (const graph::OpId op : child.ops) {
        for (const graph::Operand& input : program.ops[op].inputs) {
          if (input.is_scalar()) continue;
          const graph::OpId producer = program.values[input.value].producer;
          const bool is_sibling = std::ranges::find(region.ops, producer) != region.ops.end() &&
                                  std::ranges::find(child.ops, producer) == child.ops.end();
          EXPECT_TRUE(!is_sibling || before.contains(producer)) << region.name << " " << child.name;
        }
      }
      before.insert(child.ops.begin(), child.ops.end());
      inside.insert(inside.end(), child.ops.begin(), child.ops.end());
    };
    for (const RegionId id : region.children) {
      const Region& child = tree.regions[id];
      if (child.kind != RegionKind::kLoop) {
        take(child);
      } else {
        for (const RegionId turn : child.children) take(tree.regions[turn]);
      }
    }
    std::vector<graph::OpId> all = region.ops;
    std::ranges::sort(all);
    std::ranges::sort(inside);
    EXPECT_EQ(inside, all) << region.name;
  }
}

const Region* loop_of(const RegionTree& tree, std::string_view phase) {
  for (const Region& region : tree.regions) {
    if (region.kind != RegionKind::kPhase || region.name != phase) continue;
    std::vector<RegionId> open = region.children;
    while (!open.empty()) {
      const Region& it = tree.regions[open.back()];
      open.pop_back();
      if (it.kind == RegionKind::kLoop) return &it;
      open.insert(open.end(), it.children.begin(), it.children.end());
    }
  }
  return nullptr;
}

TEST(Regions, EqualLayersAreOneLoopInEachPhase) {
  const RegionTree tree = tree_of(layered({.layers = 4}));
  expect_sound(tree);
  for (const char* phase : {"forward", "backward", "optimizer"}) {
    const Region* loop = loop_of(tree, phase);
    ASSERT_NE(loop, nullptr) << phase << "\n" << to_text(tree);
    EXPECT_EQ(loop->children.size(), 4u) << phase;
    EXPECT_EQ(loop->carried.empty(), std::string_view(phase) == "optimizer") << phase;
  }
}

TEST(Regions, WhatIsDistinctDoesNotGrowWithTheLayers) {
  const std::size_t few = distinct(tree_of(layered({.layers = 4}))).size();
  EXPECT_EQ(distinct(tree_of(layered({.layers = 24}))).size(), few);
}

TEST(Regions, AMaskThatLayersShareIsInNone) {
  const RegionTree tree = tree_of(layered({.layers = 3, .shared_mask = true}));
  expect_sound(tree);
  const Region* loop = loop_of(tree, "forward");
  ASSERT_NE(loop, nullptr);
  EXPECT_EQ(loop->children.size(), 3u);
}

TEST(Regions, AModuleThatIsCalledTwiceIsTwoRegions) {
  const RegionTree tree = tree_of(layered({.layers = 2, .shared_modules = true}));
  expect_sound(tree);
}

TEST(Regions, HashesDoNotDependOnIdsNamesAndOrders) {
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    const Program program =
        layered({.layers = 2 + seed % 3, .shared_mask = seed % 2 == 0, .shared_modules = seed % 5 == 0});
    const RegionTree tree = tree_of(program), other = tree_of(disguised(program, seed, graph::Modules::kRenamed));
    EXPECT_TRUE(hashes(tree) == hashes(other)) << seed << "\n" << to_text(tree) << to_text(other);
  }
}

TEST(Regions, HashesOfRandomProgramsDoNotDependOnIdsAndOrders) {
  for (std::uint64_t seed = 0; seed < 150; ++seed) {
    graph::RandomOptions options;
    options.seed = seed;
    options.ops = 20 + static_cast<std::uint32_t>(seed % 60);
    Program program = graph::random_program(options).program;
    graph::eliminate_dead(program);
    graph::merge_equal(program);  // what is left has no two ops that nothing tells apart
    graph::eliminate_dead(program);
    named_randomly(program, seed);
    const RegionTree tree = tree_of(program);
    expect_sound(tree);
    EXPECT_TRUE(hashes(tree) == hashes(tree_of(disguised(program, seed + 1, graph::Modules::kRenamed)))) << seed;
  }
}

TEST(Regions, EverySingleFieldCounts) {
  for (std::uint64_t seed = 0; seed < 8; ++seed) {
    graph::RandomOptions options;
    options.seed = seed;
    const Program program = graph::random_program(options).program;
    const std::string before = tree_of(program).root().merkle.hex();
    std::size_t changed = 0;
    testing::for_each_field(program, [&](const Program& other, const std::string& field) {
      EXPECT_NE(tree_of(other).root().merkle.hex(), before) << seed << " " << field;
      ++changed;
    });
    EXPECT_GT(changed, 50u);
  }
}

/// With hashes of four bits nearly all regions collide: the tree is the same, for equality is that of canonical forms.
TEST(Regions, CollidingHashesMakeNoTwoRegionsEqual) {
  const auto four_bits = [](std::span<const std::byte> bytes) {
    ContentHash hash;
    hash.bytes[0] = static_cast<std::uint8_t>(sha256(bytes).bytes[0] & 15u);
    return hash;
  };
  const Program program = layered({.layers = 3, .shared_mask = true});
  const RegionTree tree = tree_of(program), other = tree_of(program, four_bits);
  ASSERT_EQ(tree.regions.size(), other.regions.size());
  std::map<std::vector<graph::OpId>, ContentHash> by_ops;
  for (const Region& region : tree.regions) by_ops[region.ops] = region.content;
  for (const Region& x : other.regions) {
    for (const Region& y : other.regions) {
      if (x.ops.empty() || y.ops.empty()) continue;
      EXPECT_EQ(x.content == y.content, by_ops[x.ops] == by_ops[y.ops]);
    }
  }
  EXPECT_EQ(distinct(tree).size(), distinct(other).size());
}

TEST(Regions, AreFoundByTheBeginningOfAHash) {
  const RegionTree tree = tree_of(layered({.layers = 3}));
  for (RegionId id = 0; id < tree.regions.size(); ++id) {
    const auto found = find(tree, tree.regions[id].content.hex());
    ASSERT_TRUE(found) << found.error().message;
    EXPECT_EQ(tree.regions[*found].content, tree.regions[id].content);
  }
  EXPECT_FALSE(find(tree, ""));
  EXPECT_FALSE(find(tree, "zz"));
}

TEST(Regions, VariantsShareWhatTheyHaveInCommon) {
  graph::Variants variants;
  for (const std::size_t layers : {3u, 3u}) {
    Program program = layered({.layers = layers, .head_scale = variants.programs.empty() ? 0.5 : 0.25});
    variants.programs.push_back(std::make_shared<const Program>(std::move(program)));
  }
  const RegionTree tree = regions_of(variants, {}, {});
  const Region& branch = tree.regions[tree.root().children.front()];
  EXPECT_EQ(branch.kind, RegionKind::kBranch);
  EXPECT_EQ(branch.ways.size(), 2u);
  EXPECT_GT(branch.prefix, 0u);
}

}  // namespace
}  // namespace crucible::merkle
