// What a problem may say and what it may not: refused are intervals, groups, pins and pairs that contradict themselves,
// and sizes whose sums do not fit into 64 bits. Behind this the planner needs no checks of overflow.
#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <unordered_map>

#include "core/memory/blocks.hpp"

namespace crucible::memory {
namespace {

Error bad(std::string message) { return {ErrorCode::kBadInput, std::move(message)}; }

Result<void> check_interval(const Buffer& buffer, std::size_t i, std::uint32_t period) {
  if (!buffer.carried && buffer.begin > buffer.end) {
    return bad(fmt::format("buffer {} ends at {} before it begins at {}", i, buffer.end, buffer.begin));
  }
  if (buffer.carried && buffer.end > buffer.begin) {
    return bad(fmt::format("buffer {} is carried to step {} of the next iteration but begins at {}: two of it would be "
                           "alive at once; give it two buffers",
                           i, buffer.end, buffer.begin));
  }
  if (std::max(buffer.begin, buffer.end) > period) {
    return bad(fmt::format("buffer {} lives on [{}, {}), beyond the period of {} steps", i, buffer.begin, buffer.end,
                           period));
  }
  return {};
}

Result<void> check_place(const Problem& problem, std::size_t i) {
  const Buffer& buffer = problem.buffers[i];
  if (buffer.space >= problem.spaces.size()) {
    return bad(
        fmt::format("buffer {} is in space {}, but there are {} spaces", i, buffer.space, problem.spaces.size()));
  }
  if (!std::has_single_bit(buffer.alignment)) {
    return bad(fmt::format("buffer {} has alignment {}, which is not a power of two", i, buffer.alignment));
  }
  const std::uint64_t alignment = std::max(buffer.alignment, problem.spaces[buffer.space].alignment);
  if (buffer.pinned_offset != kUnpinned && buffer.pinned_offset % alignment != 0) {
    return bad(fmt::format("buffer {} is pinned to {}, not a multiple of its alignment {}", i, buffer.pinned_offset,
                           alignment));
  }
  return {};
}

/// Everything stacked on the highest pin, with the largest gap that alignment can leave under each.
Result<void> check_sums(const Problem& problem) {
  std::uint64_t sum = 0, highest_pin = 0;
  for (std::size_t i = 0; i < problem.buffers.size(); ++i) {
    const Buffer& buffer = problem.buffers[i];
    const std::uint64_t unit = problem.spaces[buffer.space].alignment;
    const std::uint64_t gap = std::max(buffer.alignment, unit) - unit;
    std::uint64_t rounded = 0, room = 0;
    const bool fits = !__builtin_add_overflow(buffer.size_bytes, unit - 1, &rounded) &&
                      !__builtin_add_overflow(rounded & ~(unit - 1), gap, &room) &&
                      !__builtin_add_overflow(sum, room, &sum);
    if (buffer.pinned_offset != kUnpinned) highest_pin = std::max(highest_pin, buffer.pinned_offset);
    std::uint64_t top = 0;
    if (!fits || __builtin_add_overflow(sum, highest_pin, &top)) {
      return bad(fmt::format("the sizes of buffers 0 to {} do not fit into 64 bits (buffer {} has {} bytes)", i, i,
                             buffer.size_bytes));
    }
  }
  return {};
}

Result<void> check_groups(const Problem& problem) {
  struct First {
    std::size_t buffer = 0, pinned = 0;
    bool has_pin = false;
  };
  std::unordered_map<std::uint32_t, First> groups;
  for (std::size_t i = 0; i < problem.buffers.size(); ++i) {
    const Buffer& buffer = problem.buffers[i];
    if (buffer.group == kNoGroup) continue;
    First& first = groups.try_emplace(buffer.group, First{i, 0, false}).first->second;
    if (problem.buffers[first.buffer].space != buffer.space) {
      return bad(fmt::format("buffers {} and {} are of group {} but in spaces {} and {}", first.buffer, i, buffer.group,
                             problem.buffers[first.buffer].space, buffer.space));
    }
    if (buffer.pinned_offset == kUnpinned) continue;
    if (first.has_pin && problem.buffers[first.pinned].pinned_offset != buffer.pinned_offset) {
      return bad(fmt::format("buffers {} and {} are of group {} but pinned to {} and {}", first.pinned, i, buffer.group,
                             problem.buffers[first.pinned].pinned_offset, buffer.pinned_offset));
    }
    first.has_pin = true;
    first.pinned = i;
  }
  for (std::size_t i = 0; i < problem.buffers.size(); ++i) {
    const Buffer& buffer = problem.buffers[i];
    const auto group = groups.find(buffer.group);
    if (buffer.group == kNoGroup || !group->second.has_pin) continue;
    const std::uint64_t pin = problem.buffers[group->second.pinned].pinned_offset;
    if (pin % buffer.alignment != 0) {
      return bad(fmt::format("buffer {} has alignment {}, but its group {} is pinned to {}", i, buffer.alignment,
                             buffer.group, pin));
    }
  }
  return {};
}

Result<void> check_apart(const Problem& problem) {
  for (const Apart& pair : problem.apart) {
    if (pair.first >= problem.buffers.size() || pair.second >= problem.buffers.size()) {
      return bad(fmt::format("the pair kept apart ({}, {}) names a buffer that is not there: there are {}", pair.first,
                             pair.second, problem.buffers.size()));
    }
    const std::uint32_t group = problem.buffers[pair.first].group;
    if (pair.first == pair.second || (group != kNoGroup && group == problem.buffers[pair.second].group)) {
      return bad(fmt::format("buffers {} and {} cannot be kept apart: they are one", pair.first, pair.second));
    }
  }
  return {};
}

}  // namespace

std::uint32_t period_of(const Problem& problem) {
  if (problem.period != 0) return problem.period;
  std::uint32_t latest = 0;
  for (const Buffer& buffer : problem.buffers) {
    // A carried buffer is alive at its first step, which therefore belongs to the iteration.
    const bool starts_last = buffer.carried && buffer.begin < 0xffffffffu;
    latest = std::max({latest, buffer.end, buffer.begin + (starts_last ? 1 : 0)});
  }
  return latest;
}

Result<void> check_problem(const Problem& problem) {
  if (problem.buffers.size() >= kNone) {
    return bad(fmt::format("{} buffers are more than the 4294967294 that can be numbered", problem.buffers.size()));
  }
  for (std::size_t s = 0; s < problem.spaces.size(); ++s) {
    if (!std::has_single_bit(problem.spaces[s].alignment)) {
      return bad(fmt::format("alignment {} is not a power of two (space {})", problem.spaces[s].alignment, s));
    }
  }
  const std::uint32_t period = period_of(problem);
  for (std::size_t i = 0; i < problem.buffers.size(); ++i) {
    CRUCIBLE_TRY_VOID(check_interval(problem.buffers[i], i, period));
    CRUCIBLE_TRY_VOID(check_place(problem, i));
  }
  CRUCIBLE_TRY_VOID(check_sums(problem));
  CRUCIBLE_TRY_VOID(check_groups(problem));
  return check_apart(problem);
}

}  // namespace crucible::memory
