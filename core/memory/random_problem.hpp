// Random problems with every feature, and the definition of a valid plan compared pair by pair and step by step: slow,
// and too simple to be wrong. For the tests of this folder.
#pragma once

#include <algorithm>
#include <cstdint>
#include <random>
#include <vector>

#include "core/memory/plan.hpp"

namespace crucible::memory {

struct Features {
  bool alignments = true, spaces = true, pins = true, groups = true, carried = true, apart = true;
};

/// Up to `count` buffers of up to `largest` units on up to `horizon` steps; each feature with a chance of its own. Pins
/// may contradict each other: such a problem has no plan.
inline Problem random_problem(std::uint32_t seed, std::uint32_t count, std::uint32_t horizon, std::uint32_t largest,
                              const Features& features = {}) {
  std::mt19937 random(seed);
  const auto below = [&](std::uint32_t bound) { return static_cast<std::uint32_t>(random() % bound); };
  const auto chance = [&](bool allowed, std::uint32_t one_in) { return allowed && below(one_in) == 0; };
  Problem problem;
  const std::uint64_t unit = std::uint64_t{1} << below(3);
  if (chance(features.spaces, 4)) problem.spaces.resize(1 + below(3));
  for (Space& space : problem.spaces) space.alignment = unit;
  const bool aligns = chance(features.alignments, 2), pins = chance(features.pins, 4);
  const bool groups = chance(features.groups, 3), carries = chance(features.carried, 3);
  const std::uint32_t buffers = 1 + below(count);
  for (std::uint32_t i = 0; i < buffers; ++i) {
    Buffer buffer;
    buffer.size_bytes = chance(true, 16) ? 0 : 1 + below(largest);
    buffer.begin = below(horizon);
    buffer.end = buffer.begin + below(horizon - buffer.begin + 1);
    if (chance(true, 12)) buffer.begin = 0, buffer.end = horizon;
    if (aligns) buffer.alignment = std::uint64_t{1} << below(5);
    buffer.space = below(static_cast<std::uint32_t>(problem.spaces.size()));
    if (chance(carries, 4)) buffer.carried = true, std::swap(buffer.begin, buffer.end);
    if (chance(groups, 2)) buffer.group = buffer.space + 3 * below(1 + buffers / 4);
    if (chance(pins, 4) && buffer.group == kNoGroup) {
      buffer.pinned_offset = std::max(unit, buffer.alignment) * below(2 + largest / 4);
    }
    problem.buffers.push_back(buffer);
  }
  for (std::uint32_t k = chance(features.apart, 3) ? below(buffers) : 0; k > 0; --k) {
    const Apart pair{below(buffers), below(buffers)};
    const std::uint32_t group = problem.buffers[pair.first].group;
    const bool is_one = pair.first == pair.second || (group != kNoGroup && group == problem.buffers[pair.second].group);
    if (!is_one) problem.apart.push_back(pair);
  }
  for (Buffer& buffer : problem.buffers) {  // any one of a group, the smallest or one that occupies nothing too
    if (buffer.group == kNoGroup || !chance(pins, 8)) continue;
    const auto has_pin = [&](const Buffer& other) {
      return other.group == buffer.group && other.pinned_offset != kUnpinned;
    };
    if (std::ranges::none_of(problem.buffers, has_pin)) buffer.pinned_offset = 16 * below(2 + largest / 16);
  }
  return problem;
}

/// The definition.
class PairByPair {
 public:
  explicit PairByPair(const Problem& problem) : problem_(problem), period_(problem.period) {
    for (const Buffer& buffer : problem.buffers) {
      if (problem.period == 0) period_ = std::max({period_, buffer.end, buffer.begin + (buffer.carried ? 1u : 0u)});
    }
  }

  bool is_alive(std::uint32_t i, std::uint32_t time) const {
    const Buffer& buffer = problem_.buffers[i];
    if (buffer.size_bytes == 0) return false;
    return buffer.carried ? time < buffer.end || time >= buffer.begin : time >= buffer.begin && time < buffer.end;
  }
  bool is_used(std::uint32_t i) const {
    for (std::uint32_t time = 0; time < period_; ++time) {
      if (is_alive(i, time)) return true;
    }
    return false;
  }
  bool are_one(std::uint32_t a, std::uint32_t b) const {
    return a == b || (problem_.buffers[a].group != kNoGroup && problem_.buffers[a].group == problem_.buffers[b].group);
  }
  /// Bytes of the block that a used buffer belongs to, not rounded.
  std::uint64_t block_bytes(std::uint32_t i) const {
    std::uint64_t size = 0;
    for (std::uint32_t k = 0; k < problem_.buffers.size(); ++k) {
      if (are_one(i, k) && is_used(k)) size = std::max(size, problem_.buffers[k].size_bytes);
    }
    return size;
  }
  bool must_differ(std::uint32_t a, std::uint32_t b) const {
    if (problem_.buffers[a].space != problem_.buffers[b].space || are_one(a, b) || !is_used(a) || !is_used(b))
      return false;
    for (std::uint32_t time = 0; time < period_; ++time) {
      bool alive_a = false, alive_b = false;
      for (std::uint32_t k = 0; k < problem_.buffers.size(); ++k) {
        alive_a = alive_a || (are_one(a, k) && is_alive(k, time));
        alive_b = alive_b || (are_one(b, k) && is_alive(k, time));
      }
      if (alive_a && alive_b) return true;
    }
    return std::ranges::any_of(problem_.apart, [&](const Apart& pair) {
      return (are_one(pair.first, a) && are_one(pair.second, b) && is_used(pair.first) && is_used(pair.second)) ||
             (are_one(pair.first, b) && are_one(pair.second, a) && is_used(pair.first) && is_used(pair.second));
    });
  }
  bool is_valid(const std::vector<std::uint64_t>& offsets) const {
    for (std::uint32_t a = 0; a < offsets.size(); ++a) {
      const Buffer& buffer = problem_.buffers[a];
      if (offsets[a] % std::max(buffer.alignment, problem_.spaces[buffer.space].alignment) != 0) return false;
      if (buffer.pinned_offset != kUnpinned && offsets[a] != buffer.pinned_offset) return false;
      for (std::uint32_t b = 0; b < a; ++b) {
        if (are_one(a, b) && offsets[a] != offsets[b]) return false;
        if (!must_differ(a, b)) continue;
        const std::uint64_t end_a = offsets[a] + block_bytes(a), end_b = offsets[b] + block_bytes(b);
        if (std::max(offsets[a], offsets[b]) < std::min(end_a, end_b)) return false;
      }
    }
    return true;
  }
  /// Where the highest buffer of a space ends, sizes rounded up.
  std::uint64_t peak(std::uint32_t space, const std::vector<std::uint64_t>& offsets) const {
    std::uint64_t peak = 0;
    const std::uint64_t unit = problem_.spaces[space].alignment;
    for (std::uint32_t i = 0; i < offsets.size(); ++i) {
      if (problem_.buffers[i].space != space || !is_used(i)) continue;
      peak = std::max(peak, offsets[i] + (problem_.buffers[i].size_bytes + unit - 1) / unit * unit);
    }
    return peak;
  }

 private:
  const Problem& problem_;
  std::uint32_t period_ = 0;
};

}  // namespace crucible::memory
