// The skyline pass against one that looks at every section and every block.
#include "core/memory/skyline.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <random>

#include "core/memory/ranks.hpp"

namespace crucible::memory {
namespace {

/// What Skyline::pass() says it does, by its words.
Placed slow_pass(const Part& part, std::span<const std::uint32_t> order) {
  std::vector<std::uint64_t> heights(part.sections, 0);
  std::vector<std::uint32_t> unplaced(order.begin(), order.end());
  Placed placed{std::vector<std::uint64_t>(part.blocks.size()), 0};
  while (!unplaced.empty()) {
    std::uint32_t from = 0;
    for (std::uint32_t section = 1; section < part.sections; ++section) {
      if (heights[section] < heights[from]) from = section;
    }
    const std::uint64_t lowest = heights[from];
    std::uint32_t to = from;
    while (to < part.sections && heights[to] == lowest) ++to;
    const auto fits = std::ranges::find_if(unplaced, [&](std::uint32_t block) {
      return from <= part.blocks[block].begin && part.blocks[block].end <= to;
    });
    if (fits == unplaced.end()) {
      std::uint64_t raised = std::numeric_limits<std::uint64_t>::max();
      if (from > 0) raised = heights[from - 1];
      if (to < part.sections) raised = std::min(raised, heights[to]);
      std::fill(heights.begin() + from, heights.begin() + to, raised);
      continue;
    }
    const Block& block = part.blocks[*fits];
    placed.offsets[*fits] = part.aligned(*fits, lowest);
    const std::uint64_t top = placed.offsets[*fits] + block.size;
    placed.peak = std::max(placed.peak, top);
    std::fill(heights.begin() + block.begin, heights.begin() + block.end, top);
    unplaced.erase(fits);
  }
  return placed;
}

/// Lengths evenly spread over their orders of magnitude, up to `steps`.
Problem random_lengths(std::uint32_t seed, std::uint32_t count, std::uint32_t steps) {
  std::mt19937 random(seed);
  Problem problem;
  for (std::uint32_t i = 0; i < count; ++i) {
    const std::uint32_t longest = steps >> random() % static_cast<std::uint32_t>(std::bit_width(steps));
    const std::uint32_t begin = random() % steps;
    const std::uint32_t length = 1 + random() % longest;
    problem.buffers.push_back(
        {.size_bytes = 1 + random() % 30, .begin = begin, .end = std::min(steps, begin + length)});
    if (seed % 4 == 0 && random() % 8 == 0) problem.buffers.back().alignment = 8;
  }
  return problem;
}

TEST(Skyline, PlacesWhatASlowPassPlaces) {
  std::uint32_t most_sections = 0;
  for (std::uint32_t seed = 0; seed < 40; ++seed) {
    const bool is_large = seed == 7;
    Problem problem = random_lengths(seed, is_large ? 600 : 20 + 8 * seed, is_large ? 9'000 : 10 + 20 * seed);
    for (std::uint32_t step = 0; is_large && step < 9'000; step += 2) problem.buffers.push_back({1, step, step + 1});
    const SpaceBlocks blocks = reduce(problem, 0);
    for (const Part& part : blocks.parts) {
      most_sections = std::max(most_sections, part.sections);
      Skyline skyline(part);
      Placed placed;
      for (std::uint32_t rank = seed % 3; rank < kRanks; rank += is_large ? kRanks : 3) {
        const std::vector<std::uint32_t> order = ranked(part, rank);
        skyline.pass(order, std::numeric_limits<std::uint64_t>::max(), placed);
        const Placed slow = slow_pass(part, order);
        ASSERT_EQ(placed.peak, slow.peak) << seed;
        ASSERT_EQ(placed.offsets, slow.offsets) << seed;
      }
    }
  }
  EXPECT_GT(most_sections, 4096u);  // blocks of every class of length
}

TEST(Skyline, GivesUpAboveTheLimitAndOnlyThere) {
  const Problem problem = random_lengths(3, 400, 200);
  const SpaceBlocks blocks = reduce(problem, 0);
  for (const Part& part : blocks.parts) {
    Skyline skyline(part);
    Placed whole, placed;
    const std::vector<std::uint32_t> order = ranked(part, 1);
    skyline.pass(order, std::numeric_limits<std::uint64_t>::max(), whole);
    skyline.pass(order, whole.peak, placed);
    EXPECT_EQ(placed.offsets, whole.offsets);
    skyline.pass(order, whole.peak - 1, placed);
    EXPECT_GE(placed.peak, whole.peak);
  }
}

}  // namespace
}  // namespace crucible::memory
